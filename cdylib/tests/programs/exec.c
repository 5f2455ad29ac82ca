/* An application that replaces itself by another program, or starts some, while its threads compute.
 * usage: exec CASE [OPERAND...]; see `cases` at the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

/* Defined by detector.c; absent when it is not preloaded. */
extern void detector_enter(void) __attribute__((weak));
extern void detector_leave(void) __attribute__((weak));

enum { THREADS = 3, NUMBERS = 4096 };

static char path[4096];
static char *mark[] = {"MARK=set", NULL};

static void use_time(int milliseconds) {
    const clock_t end = clock() + milliseconds * (CLOCKS_PER_SEC / 1000);
    while (clock() < end) continue;
}

/* The same, and on until there is a sample where the program is profiled: on a busy machine the kernel's ticks pass it by for a
 * while. */
static void use_time_until_sampled(int milliseconds) {
    struct ProfilerState state;
    memset(&state, 0, sizeof state);
    do {
        use_time(milliseconds);
        if (ProfilerGetCurrentState != NULL) ProfilerGetCurrentState(&state);
    } while (state.enabled && state.samples_gathered == 0);
}

/* The new program: uses many periods of CPU time, then tells what it was given. Its arguments are numbers in a row. */
static void survive(char **arguments) {
    use_time(40);
    int count = 0;
    for (; arguments[count] != NULL; count++) CHECK(atoi(arguments[count]) == atoi(arguments[0]) + count);
    printf("alive %d %s\n", count, getenv("MARK") != NULL ? getenv("MARK") : "unset");
}

static void *compute(void *unused) {
    for (volatile unsigned long work = 0;; work = work * 5 + 3) continue;
    return unused;
}

static void start_thread(void *(*function)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, NULL) == 0);
}

static void start_computing(void) {
    for (int i = 0; i < THREADS; i++) start_thread(compute);
}

/* Names of numbers, in which each `NEXT` of the program's text has its own. */
static char names[NUMBERS][8];
#define NEXT names[__COUNTER__]
#define FIVE NEXT, NEXT, NEXT, NEXT, NEXT
#define TWENTY FIVE, FIVE, FIVE, FIVE
#define HUNDRED TWENTY, TWENTY, TWENTY, TWENTY, TWENTY
#define END (char *)NULL

static int replace_by(const char *function, const char *file) {
    char *two[] = {path, "survive", NULL};
    const char *const name = strrchr(path, '/') + 1;
    if (strcmp(function, "execve") == 0) return execve(file, two, mark);
    if (strcmp(function, "execveat") == 0) return execveat(AT_FDCWD, file, two, mark, 0);
    if (strcmp(function, "fexecve") == 0) return fexecve(open(file, O_RDONLY | O_CLOEXEC), two, mark);
    if (strcmp(function, "execv") == 0) return execv(file, two);
    if (strcmp(function, "execvp") == 0) return execvp(name, two);
    if (strcmp(function, "execvpe") == 0) return execvpe(name, two, mark);
    if (strcmp(function, "execl") == 0) return execl(file, path, "survive", END);
    if (strcmp(function, "execl-3") == 0) return execl(file, path, "survive", NEXT, NEXT, NEXT, END);
    if (strcmp(function, "execl-4") == 0) return execl(file, path, "survive", NEXT, NEXT, NEXT, NEXT, END);
    if (strcmp(function, "execl-5") == 0) return execl(file, path, "survive", FIVE, END);
    if (strcmp(function, "execl-6") == 0) return execl(file, path, "survive", FIVE, NEXT, END);
    if (strcmp(function, "execl-300") == 0) return execl(file, path, "survive", HUNDRED, HUNDRED, HUNDRED, END);
    if (strcmp(function, "execlp") == 0) return execlp(name, path, "survive", END);
    if (strcmp(function, "execlp-300") == 0) return execlp(name, path, "survive", HUNDRED, HUNDRED, HUNDRED, END);
    if (strcmp(function, "execle") == 0) return execle(file, path, "survive", END, mark);
    if (strcmp(function, "execle-2") == 0) return execle(file, path, "survive", NEXT, NEXT, END, mark);
    if (strcmp(function, "execle-3") == 0) return execle(file, path, "survive", NEXT, NEXT, NEXT, END, mark);
    if (strcmp(function, "execle-5") == 0) return execle(file, path, "survive", FIVE, END, mark);
    if (strcmp(function, "execle-300") == 0)
        return execle(file, path, "survive", HUNDRED, HUNDRED, HUNDRED, END, mark);
    CHECK(!"a known function");
    return 0;
}

/* The new program has no library of ours. */
static void forget_library(void) {
    CHECK(unsetenv("LD_PRELOAD") == 0);
}

static void replace(char **operands) {
    start_computing();
    use_time_until_sampled(20);
    forget_library();
    replace_by(operands[0], path);
    CHECK(!"replaced");
}

static void replace_in_child(char **operands) {
    int status;
    start_computing();
    use_time_until_sampled(20);
    forget_library();
    const pid_t child = vfork();
    if (child == 0) {
        if (execl("/no/such/program", "x", END) != -1 || errno != ENOENT) _exit(2);
        replace_by(operands[0], path);
        _exit(3);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Replaces itself by itself so many times. */
static void chain(char **operands) {
    char left[16];
    if (atoi(operands[0]) == 0) {
        puts("the end");
        return;
    }
    snprintf(left, sizeof left, "%d", atoi(operands[0]) - 1);
    start_computing();
    use_time(5);
    execlp(strrchr(path, '/') + 1, path, "chain", left, END);
    CHECK(!"replaced");
}

static void *fail_always(void *unused) {
    for (;;) {
        errno = 0;
        CHECK(execl("/no/such/program", "x", END) == -1 && errno == ENOENT);
        /* Otherwise its next call would end what this one began. */
        nanosleep(&(struct timespec){.tv_sec = 0, .tv_nsec = 1000000}, NULL);
    }
    return unused;
}

/* Other threads' calls fail all the time, and let ticks come again; this one's looks through a long PATH meanwhile. */
static void replace_beside_failures(char **operands) {
    enum { DIRECTORIES = 2000 };
    static const char missing[] = "/no/such/directory:";
    const char *const last = getenv("PATH");
    char *const directories = malloc(DIRECTORIES * sizeof missing + strlen(last)), *end = directories;
    (void)operands;
    CHECK(directories != NULL);
    for (int i = 0; i < DIRECTORIES; i++) end = stpcpy(end, missing);
    strcpy(end, last);
    CHECK(setenv("PATH", directories, 1) == 0);
    start_computing();
    for (int i = 0; i < THREADS; i++) start_thread(fail_always);
    use_time(20);
    forget_library();
    execlp(strrchr(path, '/') + 1, path, "survive", END);
    CHECK(!"replaced");
}

static int samples(void) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

/* No directory of PATH has it; a name that is none; a file that may not be run is in one of two. */
static void fail_in_path(char **operands) {
    char *two[] = {"x", "y", NULL}, *const directory = strdup(getenv("PATH"));
    (void)operands;
    errno = 0;
    CHECK(execlp("no-such-program", "x", END) == -1 && errno == ENOENT);
    errno = 0;
    CHECK(execvp("no-such-program", two) == -1 && errno == ENOENT);
    errno = 0;
    CHECK(execvp("", two) == -1 && errno == ENOENT);
    CHECK(setenv("PATH", "/etc:/no/such/directory", 1) == 0);
    errno = 0;
    CHECK(execvpe("passwd", two, mark) == -1 && errno == EACCES);
    CHECK(setenv("PATH", directory, 1) == 0);
    free(directory);
    puts("failed");
}

/* Each function fails with its own error, and the ticks come again. */
static void fail(char **operands) {
    const char *const functions[] = {"execve", "execveat", "execv", "execl", "execl-300", "execle", "execle-300"};
    (void)operands;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        errno = 0;
        CHECK(replace_by(functions[i], "/") == -1 && errno == EACCES);
        errno = 0;
        CHECK(replace_by(functions[i], "/no/such/program") == -1 && errno == ENOENT);
        const int before = samples();
        for (clock_t end = clock() + 10 * CLOCKS_PER_SEC; samples() < before + 3;) CHECK(clock() < end);
    }
    fail_in_path(operands);
}

/* The shell's work, for a file that names no interpreter; it stands beside this program. */
static void run_script(char **operands) {
    char *four[] = {"script", "a", "b", "c", NULL};
    if (strcmp(operands[0], "execvp") == 0) execvp("script", four);
    if (strcmp(operands[0], "execvpe") == 0) execvpe("script", four, mark);
    if (strcmp(operands[0], "execlp") == 0) execlp("script", "script", "a", "b", "c", END);
    CHECK(!"replaced");
}

/* With detector.c: from a handler that may have interrupted an allocation. */
static void fail_watched(char **operands) {
    CHECK(ProfilerStart(operands[0]) != 0);
    CHECK(raise(SIGPROF) == 0);
    for (int i = 0; i < 10; i++) {
        if (detector_enter != NULL) detector_enter();
        const int result = execle("/no/such/program", "x", NEXT, FIVE, END, mark);
        if (detector_leave != NULL) detector_leave();
        CHECK(result == -1);
    }
    puts("failed");
}

static void in_handler(int number) {
    (void)number;
    execl(path, path, "survive", NEXT, NEXT, FIVE, END);
    _exit(2);
}

/* On an alternate stack that begins at memory that nobody may touch, with room for the kernel's frame and ROOM bytes. */
static void replace_on_small_stack(char **operands) {
    enum { ROOM = 768, GUARD = 1 << 16 };
    (void)operands;
    const size_t bytes = ((size_t)sysconf(_SC_MINSIGSTKSZ) + ROOM + 63) / 64 * 64;
    char *const memory = mmap(NULL, 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory, GUARD, PROT_NONE) == 0);
    const stack_t stack = {.ss_sp = memory + GUARD, .ss_size = bytes};
    const struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    forget_library();
    raise(SIGUSR1);
}

static void print_signals(char **operands) {
    char line[256];
    FILE *const file = fopen("/proc/self/status", "r");
    (void)operands;
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "Sig", 3) == 0 && strncmp(line, "SigQ", 4) != 0) fputs(line, stdout);
    fclose(file);
}

/* With a mask of its own, and a signal that waits. */
static void hand_on_mask(char **operands) {
    sigset_t set;
    (void)operands;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGWINCH);
    start_computing();
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR2) == 0);
    forget_library();
    execl(path, path, "print-signals", END);
}

static void expect_success(int status) { CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0); }

/* Programs that are started in other ways have no timer. */
static void start_programs(char **operands) {
    char *two[] = {path, "survive", NULL};
    char command[5000], line[32];
    start_computing();
    for (int i = 0; i < atoi(operands[0]); i++) {
        pid_t child;
        int status;
        CHECK(posix_spawn(&child, path, NULL, NULL, two, mark) == 0 && waitpid(child, &status, 0) == child);
        expect_success(status);
        snprintf(command, sizeof command, "unset LD_PRELOAD; exec '%s' survive > /dev/null", path);
        expect_success(system(command));
        snprintf(command, sizeof command, "unset LD_PRELOAD; exec '%s' survive", path);
        FILE *const pipe = popen(command, "r");
        CHECK(pipe != NULL && fgets(line, sizeof line, pipe) != NULL && strcmp(line, "alive 0 unset\n") == 0);
        expect_success(pclose(pipe));
    }
}

static const struct {
    const char *name;
    int operands;
    void (*run)(char **operands);
} cases[] = {
    {"replace", 1, replace},                                 /* FUNCTION */
    {"replace-in-child", 1, replace_in_child},               /* FUNCTION */
    {"replace-beside-failures", 0, replace_beside_failures},
    {"chain", 1, chain},                                     /* TIMES */
    {"fail", 0, fail},
    {"fail-in-path", 0, fail_in_path},
    {"run-script", 1, run_script},                           /* FUNCTION */
    {"fail-watched", 1, fail_watched},                       /* FILE */
    {"replace-on-small-stack", 0, replace_on_small_stack},
    {"hand-on-mask", 0, hand_on_mask},
    {"print-signals", 0, print_signals},
    {"start-programs", 1, start_programs},                   /* TIMES */
};

int main(int argc, char **argv) {
    CHECK(argc >= 2 && readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    for (int i = 0; i < NUMBERS; i++) snprintf(names[i], sizeof names[i], "%d", i);
    if (strcmp(argv[1], "survive") == 0) {
        survive(argv + 2);
        return 0;
    }
    char directories[5000];
    snprintf(directories, sizeof directories, "/no/such/directory:%.*s", (int)(strrchr(path, '/') - path), path);
    CHECK(setenv("PATH", directories, 1) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            CHECK(argc == 2 + cases[i].operands);
            cases[i].run(argv + 2);
            return 0;
        }
    CHECK(!"a known case");
}
