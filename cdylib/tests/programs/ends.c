/* An application that ends in a way of its own, after ticks that it sends itself. usage: ends CASE [FILE]; see `cases` at the
 * end. With a FILE it starts the profiler itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

/* Defined by detector.c; absent when it is not preloaded. */
extern void detector_enter(void) __attribute__((weak));

enum { TICKS = 5, STATUS = 7, THREADS = 4 };

static volatile sig_atomic_t is_profiled;

/* Without the library nobody handles the signal. */
static void tick(int times) {
    for (int i = 0; i < times && is_profiled; i++) CHECK(raise(SIGPROF) == 0);
}

static void pause_briefly(void) { nanosleep(&(struct timespec){.tv_sec = 0, .tv_nsec = 1000000}, NULL); }

static pthread_t start_thread(void *(*function)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, NULL) == 0);
    return thread;
}

static void on_usr1(void (*handler)(int), int flags) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

static void by_exit(void) { exit(STATUS); }
static void by__exit(void) { _exit(STATUS); }
static void by_Exit(void) { _Exit(STATUS); }

static void watched_exit(void) {
    if (detector_enter != NULL) detector_enter();
    _exit(STATUS);
}

static void print_at_quick_exit(void) {
    tick(1);
    CHECK(write(1, "quick\n", 6) == 6);
}

static void by_quick_exit(void) {
    CHECK(at_quick_exit(print_at_quick_exit) == 0);
    quick_exit(STATUS);
}

static void exit_in_handler(int number) {
    (void)number;
    _exit(STATUS);
}

static void in_handler(void) {
    on_usr1(exit_in_handler, 0);
    raise(SIGUSR1);
}

/* An alternate stack that begins at memory that nobody may touch, with room for the kernel's frame and ROOM bytes. */
static void on_small_stack(void) {
    enum { ROOM = 768, GUARD = 1 << 16 };
    const size_t bytes = ((size_t)sysconf(_SC_MINSIGSTKSZ) + ROOM + 63) / 64 * 64;
    char *const memory = mmap(NULL, 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory, GUARD, PROT_NONE) == 0);
    const stack_t stack = {.ss_sp = memory + GUARD, .ss_size = bytes};
    CHECK(sigaltstack(&stack, NULL) == 0);
    on_usr1(exit_in_handler, SA_ONSTACK);
    raise(SIGUSR1);
}

static pthread_barrier_t meeting;

static void *exit_together(void *unused) {
    pthread_barrier_wait(&meeting);
    _exit(STATUS);
    return unused;
}

static void by_threads_at_once(void) {
    CHECK(pthread_barrier_init(&meeting, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) start_thread(exit_together);
    for (;;) pause();
}

static volatile int is_exiting;

static void *exit_beside(void *unused) {
    while (!is_exiting) pause_briefly();
    _exit(STATUS);
    return unused;
}

static void wait_for_ever(void) {
    is_exiting = 1;
    for (;;) pause();
}

static void beside_exit(void) {
    start_thread(exit_beside);
    CHECK(atexit(wait_for_ever) == 0);
    exit(1);
}

static void exit_again(void) {
    tick(1);
    exit(STATUS);
}

static void inside_exit(void) {
    CHECK(atexit(exit_again) == 0);
    exit(1);
}

static void *work(void *unused) {
    for (volatile unsigned long i = 0;; i++) is_exiting = 1;
    return unused;
}

static void with_threads_running(void) {
    for (int i = 0; i < THREADS; i++) start_thread(work);
    while (!is_exiting) pause_briefly();
}

static void *exit_here(void *unused) {
    tick(1);
    exit(STATUS);
    return unused;
}

static void by_another_thread(void) {
    start_thread(work);
    start_thread(exit_here);
    for (;;) pause();
}

static pthread_t main_thread;

static void *outlive_main(void *unused) {
    CHECK(pthread_join(main_thread, NULL) == 0);
    tick(1);
    return unused;
}

static void by_the_last_thread(void) {
    main_thread = pthread_self();
    start_thread(outlive_main);
    pthread_exit(NULL);
}

static void *exit_cancelled(void *unused) {
    int before;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
    CHECK(pthread_cancel(pthread_self()) == 0);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before) == 0);
    _exit(STATUS);
    return unused;
}

static void cancelled(void) {
    pthread_join(start_thread(exit_cancelled), NULL);
    abort();
}

static void expect_status_3(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* The profile is not written by any of them: it is the parent's. */
static void after_children(void) {
    const char *const file = getenv("CPUPROFILE");
    pid_t child = vfork();
    if (child == 0) _exit(3);
    expect_status_3(child);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(3);
    expect_status_3(child);
    child = _Fork();
    if (child == 0) _Exit(3);
    expect_status_3(child);
    CHECK(file == NULL || access(file, F_OK) != 0);
    tick(1);
    _exit(STATUS);
}

static void after_a_stop(void) {
    if (is_profiled) ProfilerStop();
    _exit(STATUS);
}

__attribute__((noinline, noclone)) static int tick_at_each_depth(volatile int depth) {
    tick(1);
    return depth > 0 ? 1 + tick_at_each_depth(depth - 1) : depth;
}

static void *flush(void *unused) {
    ProfilerFlush();
    return unused;
}

/* Another thread is writing the profile, to a pipe that hardly anybody empties. */
static void beside_a_flush(void) {
    enum { DEPTH = 500, FULL = 60000 };
    int bytes = 0;
    const int pipe = open(getenv("CPUPROFILE"), O_RDONLY | O_NONBLOCK);
    CHECK(pipe >= 0 && tick_at_each_depth(DEPTH) == DEPTH);
    start_thread(flush);
    while (bytes < FULL) CHECK(ioctl(pipe, FIONREAD, &bytes) == 0);
    _exit(STATUS);
}

static void *exit_cancellable(void *unused) {
    int before;
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before) == 0);
    _exit(STATUS);
    return unused;
}

/* The thread is cancelled while it writes, to a pipe that is full. */
static void cancelled_midway(void) {
    enum { DEPTH = 500, FULL = 60000 };
    static char buffer[4096];
    int bytes = 0;
    const int pipe = open(getenv("CPUPROFILE"), O_RDONLY | O_NONBLOCK);
    CHECK(pipe >= 0 && tick_at_each_depth(DEPTH) == DEPTH);
    const pthread_t thread = start_thread(exit_cancellable);
    while (bytes < FULL) CHECK(ioctl(pipe, FIONREAD, &bytes) == 0);
    CHECK(pthread_cancel(thread) == 0);
    while (pthread_tryjoin_np(thread, NULL) != 0)
        if (read(pipe, buffer, sizeof buffer) <= 0) pause_briefly();
    abort();
}

static void print_caught_signals(void) {
    char line[256];
    FILE *const file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "SigCgt:", 7) == 0) fputs(line, stdout);
    fclose(file);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"exit", by_exit},
    {"_exit", by__exit},
    {"_Exit", by_Exit},
    {"watched-exit", watched_exit},
    {"quick_exit", by_quick_exit},
    {"abort", abort},
    {"in-handler", in_handler},
    {"on-small-stack", on_small_stack},
    {"by-threads-at-once", by_threads_at_once},
    {"beside-exit", beside_exit},
    {"inside-exit", inside_exit},
    {"with-threads-running", with_threads_running},
    {"by-another-thread", by_another_thread},
    {"by-the-last-thread", by_the_last_thread},
    {"cancelled", cancelled},
    {"after-children", after_children},
    {"after-a-stop", after_a_stop},
    {"beside-a-flush", beside_a_flush},
    {"cancelled-midway", cancelled_midway},
    {"print-caught-signals", print_caught_signals},
};

int main(int argc, char **argv) {
    CHECK(argc == 2 || argc == 3);
    /* With a toggle nothing is caught yet. */
    is_profiled = ProfilerStart != NULL && getenv("CPUPROFILESIGNAL") == NULL;
    CHECK(argc == 2 || ProfilerStart(argv[2]) != 0);
    const struct rlimit no_core = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
    tick(TICKS);
    if (strncmp(argv[1], "SIG", 3) == 0) {
        const int number = atoi(argv[1] + 3);
        struct sigaction action;
        /* Who starts programs in the background has them ignore some. */
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN) signal(number, SIG_DFL);
        raise(number);
        abort();
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return STATUS;
        }
    CHECK(!"a known case");
}
