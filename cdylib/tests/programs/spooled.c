/* An application that does, in order, what its arguments say, and may come to a bad end.
 *
 *   ticks N           sends itself SIGPROF N times in `in_program`
 *   chains FROM TO    sends itself SIGPROF once in each of these call chains, which are numbered
 *   threads N TIMES   each of so many threads sends itself SIGPROF once in each of so many chains of its own
 *   open LIBRARY      opens spooled_plugin
 *   plugin N          sends itself SIGPROF N times in the plugin's `in_plugin`
 *   close             closes it
 *   chdir DIR
 *   umask OCTAL
 *   start FILE        calls ProfilerStart
 *   flush             calls ProfilerFlush
 *   stop              calls ProfilerStop
 *   lock              mlockall, then prints the kilobytes that are locked and resident
 *   say TEXT          a line on standard output
 *   await             waits for a byte on standard input
 *   raise SIGNAL      sends itself the signal of this number
 *   fork              the rest is done by a child; the parent waits for its end and then ends normally
 *   vfork COMMAND     a child by vfork runs the shell command, without the profiler
 *   exec              runs the rest of the arguments in a new image
 *   copy              as fork, but with no hooks of anybody's
 *   thread            the rest is done by a thread
 * The ends:
 *   kill  abort  segv  overflow  exit N  return
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weak_profiler.h"

static void *library;

static void die(const char *what) {
    perror(what);
    exit(99);
}

static void tick(void) {
    if (syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF) != 0) die("tgkill");
}

__attribute__((noinline, noclone)) static int in_program(int times) {
    int sent = 0;
    for (; sent < times; sent++) tick();
    return sent;
}

static int along(unsigned way, int depth);

__attribute__((noinline, noclone)) static int left(unsigned way, int depth) { return along(way, depth) + depth; }

__attribute__((noinline, noclone)) static int right(unsigned way, int depth) { return along(way, depth) - depth; }

__attribute__((noinline, noclone)) static int along(unsigned way, int depth) {
    if (depth == 0) return in_program(1);
    return ((way & 1) != 0 ? left : right)(way >> 1, depth - 1);
}

__attribute__((noinline, noclone)) static int overflow(volatile int depth) {
    volatile char room[4096];
    room[depth % 4096] = 1;
    return depth < 0 ? room[0] : overflow(depth + 1) + room[0];
}

static void do_ticks(char **operands) { in_program(atoi(operands[0])); }

static void do_chains(char **operands) {
    const unsigned end = (unsigned)atoi(operands[1]);
    for (unsigned way = (unsigned)atoi(operands[0]); way < end; way++) along(way, 24);
}

static int chains_of_thread;

static void *in_chains(void *number) {
    const unsigned first = (unsigned)(long)number * (unsigned)chains_of_thread;
    for (unsigned way = first; way < first + (unsigned)chains_of_thread; way++) along(way, 24);
    return NULL;
}

static void do_threads(char **operands) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    const int count = atoi(operands[0]);
    chains_of_thread = atoi(operands[1]);
    if (count > MOST) exit(98);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, in_chains, (void *)i) != 0) die("pthread_create");
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void do_open(char **operands) {
    library = dlopen(operands[0], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(97);
    }
}

static void do_plugin(char **operands) {
    int (*in_plugin)(int);
    *(void **)&in_plugin = dlsym(library, "in_plugin");
    if (in_plugin == NULL || in_plugin(atoi(operands[0])) < 0) exit(97);
}

static void do_close(char **operands) {
    (void)operands;
    if (dlclose(library) != 0) exit(97);
}

static void do_chdir(char **operands) {
    if (chdir(operands[0]) != 0) die(operands[0]);
}

static void do_umask(char **operands) { umask((mode_t)strtoul(operands[0], NULL, 8)); }

static void do_start(char **operands) {
    if (ProfilerStart == NULL || !ProfilerStart(operands[0])) exit(96);
}

static void do_flush(char **operands) {
    (void)operands;
    if (ProfilerFlush != NULL) ProfilerFlush();
}

static void do_stop(char **operands) {
    (void)operands;
    if (ProfilerStop != NULL) ProfilerStop();
}

static void do_lock(char **operands) {
    (void)operands;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) die("mlockall");
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL) die("status");
    for (char line[256]; fgets(line, sizeof line, status) != NULL;)
        if (strncmp(line, "VmRSS", 5) == 0 || strncmp(line, "RssShmem", 8) == 0) fputs(line, stdout);
    fclose(status);
    fflush(stdout);
}

static void do_say(char **operands) {
    puts(operands[0]);
    fflush(stdout);
}

static void do_await(char **operands) {
    (void)operands;
    if (getchar() == EOF) exit(95);
}

static void do_raise(char **operands) { raise(atoi(operands[0])); }

static void wait_for(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) die("child");
    printf("child %d ended with %d\n", (int)child, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fflush(stdout);
}

static void do_fork(char **operands) {
    (void)operands;
    const pid_t child = fork();
    if (child == 0) return;
    wait_for(child);
    exit(0);
}

static void do_copy(char **operands) {
    (void)operands;
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) return;
    wait_for(child);
    exit(0);
}

static void do_vfork(char **operands) {
    static char path[] = "PATH=/usr/bin:/bin";
    char *const environment[] = {path, NULL};
    const pid_t child = vfork();
    if (child == 0) {
        execle("/bin/sh", "sh", "-c", operands[0], (char *)NULL, environment);
        _exit(97);
    }
    wait_for(child);
}

static void do_exec(char **operands) {
    execv("/proc/self/exe", operands - 1);
    die("exec");
}

static void do_kill(char **operands) {
    (void)operands;
    kill(getpid(), SIGKILL);
}

static void do_abort(char **operands) {
    (void)operands;
    abort();
}

static void do_segv(char **operands) {
    (void)operands;
    volatile int *volatile nowhere = (volatile int *)8;
    *nowhere = 1;
}

static void do_overflow(char **operands) {
    (void)operands;
    overflow(0);
}

static void do_exit(char **operands) { exit(atoi(operands[0])); }

static void do_thread(char **operands);

static const struct order {
    const char *name;
    int operands;
    void (*run)(char **operands);
} orders[] = {
    {"ticks", 1, do_ticks}, {"chains", 2, do_chains}, {"open", 1, do_open},         {"plugin", 1, do_plugin},
    {"close", 0, do_close}, {"chdir", 1, do_chdir},   {"umask", 1, do_umask},       {"start", 1, do_start},
    {"stop", 0, do_stop},   {"lock", 0, do_lock},     {"say", 1, do_say},           {"await", 0, do_await},
    {"raise", 1, do_raise}, {"fork", 0, do_fork},     {"vfork", 1, do_vfork},       {"exec", 0, do_exec},
    {"copy", 0, do_copy},   {"kill", 0, do_kill},     {"abort", 0, do_abort},       {"segv", 0, do_segv},
    {"flush", 0, do_flush}, {"threads", 2, do_threads}, {"exit", 1, do_exit},   {"thread", 0, do_thread}, {"overflow", 0, do_overflow},
};

static void run(char **words) {
    while (*words != NULL && strcmp(*words, "return") != 0) {
        const struct order *order = orders;
        const struct order *const end = orders + sizeof orders / sizeof orders[0];
        while (order < end && strcmp(order->name, *words) != 0) order++;
        if (order == end) {
            fprintf(stderr, "spooled: unknown order %s\n", *words);
            exit(98);
        }
        order->run(words + 1);
        words += 1 + order->operands;
        if (order->run == do_thread) return;
    }
}

static void *run_in_thread(void *words) {
    run(words);
    return NULL;
}

static void do_thread(char **operands) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_in_thread, operands) != 0) die("pthread_create");
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    (void)argc;
    /* A crash is wanted, its remains are not. */
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    run(argv + 1);
    return 0;
}
