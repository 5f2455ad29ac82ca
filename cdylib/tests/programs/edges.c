/* An application at the edges of what a program may do. usage: edges CASE [OPERAND...]; see `cases` at the end.
 * Run with the library preloaded or linked, or, where the case says nothing else, without it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

/* Ends a process that hangs, long before the tests' own limit. */
enum { PATIENCE_SECONDS = 540 };

static void pause_briefly(void) { nanosleep(&(struct timespec){.tv_sec = 0, .tv_nsec = 1000000}, NULL); }

static void tick(int times) {
    for (int i = 0; i < times; i++) CHECK(raise(SIGPROF) == 0);
}

static void toggle(void) { CHECK(raise(SIGUSR2) == 0); }

/* A profile of so many ticks, begun and ended by the toggle. */
static void toggled_ticks(int times) {
    toggle();
    tick(times);
    toggle();
}

static void run_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    puts(result == PTHREAD_CANCELED ? "cancelled" : "returned");
}

/* From here on the thread is to end at the next cancellation point. */
static void request_own_cancellation(void) {
    int before;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
    CHECK(pthread_cancel(pthread_self()) == 0);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before) == 0);
}

static void *exit_cancelled(void *unused) {
    (void)unused;
    request_own_cancellation();
    exit(3);
}

static void cancelled_exit(char **operands) {
    (void)operands;
    run_thread(exit_cancelled, NULL);
}

static void *stop_cancelled(void *unused) {
    request_own_cancellation();
    ProfilerStop();
    return unused;
}

static void cancelled_stop(char **operands) {
    CHECK(ProfilerStart(operands[0]) != 0);
    tick(2);
    run_thread(stop_cancelled, NULL);
}

static volatile int over;

static void *use_always(void *unused) {
    struct ProfilerState state;
    while (!over) ProfilerGetCurrentState(&state);
    return unused;
}

static void *ask_for_a_while(void *unused) {
    struct ProfilerState state;
    for (int i = 0; i < 400; i++) ProfilerGetCurrentState(&state);
    return unused;
}

static void *flush_for_a_while(void *unused) {
    for (int i = 0; i < 40; i++) ProfilerFlush();
    return unused;
}

/* One thread is busy for so long that the other waits for it. */
static void child_of_the_storm(void) {
    pthread_t threads[2];
    alarm(PATIENCE_SECONDS);
    pthread_create(&threads[0], NULL, flush_for_a_while, NULL);
    pthread_create(&threads[1], NULL, ask_for_a_while, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    _exit(0);
}

/* A fork takes the longer, and finds the other threads at more places, the more memory there is to copy. */
static void fork_storm(char **operands) {
    enum { USERS = 4, BYTES = 128 << 20 };
    char *const memory = malloc(BYTES);
    CHECK(memory != NULL);
    memset(memory, 1, BYTES);
    pthread_t users[USERS];
    for (int i = 0; i < USERS; i++) CHECK(pthread_create(&users[i], NULL, use_always, NULL) == 0);
    for (int i = 0; i < atoi(operands[0]); i++) {
        int status = 0;
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) child_of_the_storm();
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    over = 1;
    for (int i = 0; i < USERS; i++) pthread_join(users[i], NULL);
    free(memory);
}

static void allocate(char **operands) {
    char *const memory = malloc((size_t)atol(operands[0]) << 20);
    CHECK(memory != NULL);
    memory[0] = 1;
    free(memory);
}

static volatile sig_atomic_t calls;

static void count_call(int number) {
    (void)number;
    calls = calls + 1;
}

static void reset_in_vforked_child(char **operands) {
    (void)operands;
    CHECK(signal(SIGPROF, count_call) == SIG_DFL);
    const pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGPROF, SIG_DFL);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    tick(3);
    CHECK(calls == 3);
}

static void impossible_handler(char **operands) {
    (void)operands;
    CHECK(signal(SIGPROF, count_call) == SIG_DFL);
    errno = 0;
    CHECK(signal(SIGPROF, SIG_ERR) == SIG_ERR && errno == EINVAL);
    CHECK(signal(SIGPROF, SIG_DFL) == count_call);
}

/* The application's own interval timer of CPU time, until its handler was called often enough. */
static void expect_own_prof_timer(void) {
    const struct itimerval interval = {.it_interval = {0, 5000}, .it_value = {0, 5000}}, none = {{0, 0}, {0, 0}};
    const clock_t end = clock() + 10 * CLOCKS_PER_SEC;
    volatile unsigned long work = 0;
    CHECK(signal(SIGPROF, count_call) == SIG_DFL);
    CHECK(setitimer(ITIMER_PROF, &interval, NULL) == 0);
    while (calls < 10 && clock() < end) work = work * 5 + 3;
    CHECK(setitimer(ITIMER_PROF, &none, NULL) == 0);
    CHECK(calls >= 10);
}

static void own_timer_before_a_start(char **operands) {
    (void)operands;
    expect_own_prof_timer();
}

static void own_timer_after_a_stop(char **operands) {
    CHECK(ProfilerStart(operands[0]) != 0);
    tick(2);
    ProfilerStop();
    expect_own_prof_timer();
}

/* The profiler has used the alarm's signal and timer. */
static void alarm_after_a_stop(char **operands) {
    CHECK(ProfilerStart(operands[0]) != 0);
    ProfilerStop();
    CHECK(signal(SIGALRM, count_call) == SIG_DFL);
    alarm(1);
    for (int i = 0; i < PATIENCE_SECONDS * 1000 && calls == 0; i++) pause_briefly();
    CHECK(calls == 1);
}

static void use_plugin(const char *path) {
    void *const plugin = dlopen(path, RTLD_NOW);
    CHECK(plugin != NULL);
    /* ISO C has no conversion from an object's address to a function's. */
    int (*function)(void);
    *(void **)&function = dlsym(plugin, "plugin_tick");
    CHECK(function != NULL && function() == 0);
    CHECK(dlclose(plugin) == 0);
}

static void reload(char **operands) {
    for (int i = 0; i < atoi(operands[1]); i++) use_plugin(operands[0]);
    use_plugin(operands[2]);
    CHECK(dlopen(operands[2], RTLD_NOW | RTLD_NOLOAD) == NULL);
}

static sigjmp_buf outside;
static volatile sig_atomic_t may_jump;

static void jump_out(int number) {
    (void)number;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(outside, 1);
    }
}

static void *send_jumps(void *target) {
    const pthread_t *const thread = target;
    while (!over) {
        if (may_jump) pthread_kill(*thread, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

static void jump_out_of_walks(char **operands) {
    void *stack[64];
    pthread_t self = pthread_self(), sender;
    const int depth = ProfilerGetStackTrace(stack, 64, 0, NULL);
    CHECK(depth > 1);
    CHECK(signal(SIGUSR1, jump_out) == SIG_DFL);
    CHECK(pthread_create(&sender, NULL, send_jumps, &self) == 0);
    for (volatile int i = 0; i < atoi(operands[0]); i++)
        if (sigsetjmp(outside, 1) == 0) {
            may_jump = 1;
            for (;;) ProfilerGetStackTrace(stack, 64, 0, NULL);
        }
    over = 1;
    pthread_join(sender, NULL);
    CHECK(ProfilerGetStackTrace(stack, 64, 0, NULL) == depth);
}

static void leave_terminal(void) {
    const int nothing = open("/dev/null", O_RDWR);
    for (int descriptor = 0; descriptor <= 2; descriptor++) CHECK(dup2(nothing, descriptor) == descriptor);
    close(nothing);
}

/* Makes the file `pid` in the directory, waits until the file `release` appears there, but not for ever, and makes the
 * file `ended`. */
static void serve_until_released(const char *directory) {
    CHECK(chdir(directory) == 0);
    FILE *const file = fopen("pid", "w");
    CHECK(file != NULL && fprintf(file, "%d\n", (int)getpid()) > 0 && fclose(file) == 0);
    for (int i = 0; i < PATIENCE_SECONDS * 1000 && access("release", F_OK) != 0; i++) pause_briefly();
    CHECK(close(open("ended", O_CREAT | O_WRONLY, 0666)) == 0);
}

static void become_daemon(char **operands) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) return;
    CHECK(setsid() >= 0);
    child = fork();
    if (child != 0) _exit(child < 0);
    leave_terminal();
    serve_until_released(operands[0]);
}

static void toggle_in_forked_child(char **operands) {
    (void)operands;
    toggled_ticks(3);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        toggled_ticks(2);
        exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    toggled_ticks(4);
    printf("child %d\n", (int)child);
}

static void *toggle_here(void *unused) {
    toggled_ticks(2);
    return unused;
}

static void toggle_on_small_stack(char **operands) {
    (void)operands;
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    CHECK(pthread_create(&thread, &attributes, toggle_here, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static const struct {
    const char *name;
    int operands;
    void (*run)(char **operands);
} cases[] = {
    {"cancelled-exit", 0, cancelled_exit},
    {"cancelled-stop", 1, cancelled_stop},                     /* FILE */
    {"fork-storm", 1, fork_storm},                             /* FORKS */
    {"allocate", 1, allocate},                                 /* MEGABYTES */
    {"reset-in-vforked-child", 0, reset_in_vforked_child},
    {"impossible-handler", 0, impossible_handler},
    {"own-timer-before-a-start", 0, own_timer_before_a_start},
    {"own-timer-after-a-stop", 1, own_timer_after_a_stop},     /* FILE */
    {"alarm-after-a-stop", 1, alarm_after_a_stop},             /* FILE */
    {"reload", 3, reload},                                     /* PLUGIN TIMES LAST_PLUGIN */
    {"jump-out-of-walks", 1, jump_out_of_walks},               /* TIMES */
    {"become-daemon", 1, become_daemon},                       /* DIRECTORY */
    {"toggle-in-forked-child", 0, toggle_in_forked_child},
    {"toggle-on-small-stack", 0, toggle_on_small_stack},
};

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            CHECK(argc == 2 + cases[i].operands);
            cases[i].run(argv + 2);
            return 0;
        }
    CHECK(!"a known case");
}
