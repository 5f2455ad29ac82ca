/* An application that says what becomes of it, for runs in which system calls of the profiler's fail.
 * usage: fault_app CASE PROFILE; the cases are at the end. What it writes and how it ends does not depend on the
 * profiler; calls that are its own alone are declared so, by fault_own of fault_shim.c. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weak_profiler.h"

extern void fault_own(int is_own) __attribute__((weak));

static void own(int is_own) {
    if (fault_own != NULL) fault_own(is_own);
}

/* A line on standard output, without stdio's buffer: nothing is left for the end. */
static void say(const char *format, ...) {
    char line[256];
    va_list arguments;
    own(1);
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(1, line, (size_t)length) != length) _exit(95);
    own(0);
}

static void send_signal(int number, int times) {
    own(1);
    const pid_t process = getpid(), thread = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < times; i++) {
        errno = E2BIG;
        if (syscall(SYS_tgkill, process, thread, number) != 0) _exit(94);
        if (errno != E2BIG) say("a tick changed errno to %s\n", strerrorname_np(errno));
    }
    own(0);
}

static int is_profiled(void) {
    own(1);
    const int is_profiled = ProfilingIsEnabledForAllThreads != NULL && ProfilingIsEnabledForAllThreads();
    own(0);
    return is_profiled;
}

/* The profiler's ticks. Whoever is not profiled would be ended by them. */
static void tick(int times) {
    if (is_profiled()) send_signal(SIGPROF, times);
}

static volatile sig_atomic_t handled;

static void handle(int number) { handled += number == SIGPROF; }

/* Whether the program's own handler for the profiler's signal serves, be there a profiler or not. */
static int handles_its_signals(void) {
    const struct sigaction action = {.sa_handler = handle};
    own(1);
    handled = 0;
    if (sigaction(SIGPROF, &action, NULL) != 0) _exit(90);
    own(0);
    send_signal(SIGPROF, 3);
    return handled == 3;
}

/* A tick in as many frames: chains that differ fill the profiler's memory. */
__attribute__((noinline, noclone)) static int tick_deep(volatile int depth) {
    int result = 1;
    if (depth > 0)
        result += tick_deep(depth - 1);
    else
        tick(1);
    return result + depth;
}

static void *in_thread(void *unused) {
    tick(3);
    return unused;
}

static void run_thread(void) {
    pthread_t thread;
    own(1);
    if (pthread_create(&thread, NULL, in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0) _exit(93);
    own(0);
    say("a thread has run\n");
}

static void run_child(void) {
    const pid_t child = fork();
    if (child < 0) {
        say("no child: %s\n", strerrorname_np(errno));
        return;
    }
    if (child == 0) {
        tick(4);
        exit(handles_its_signals() ? 7 : 8);
    }
    int status = 0;
    own(1);
    if (waitpid(child, &status, 0) != child) _exit(92);
    own(0);
    say("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static void run_missing_program(void) {
    char *const arguments[] = {"missing", NULL};
    execvp("/missing/program", arguments);
    say("no program: %s\n", strerrorname_np(errno));
}

/* What of the process a profiler may leave changed: blocked signals and open files. */
static int signals_blocked(void) {
    sigset_t mask;
    int blocked = 0;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < 32; i++) blocked += sigismember(&mask, i) == 1;
    return blocked;
}

static int files_open(void) {
    int count = 0;
    DIR *const list = opendir("/proc/self/fd");
    if (list == NULL) _exit(91);
    while (readdir(list) != NULL) count++;
    closedir(list);
    return count;
}

static int open_at_start;

static void begin(void) {
    own(1);
    open_at_start = files_open();
    own(0);
}

static void end(void) {
    own(1);
    if (signals_blocked() != 0) say("signals are blocked\n");
    if (files_open() != open_at_start) say("files are left open\n");
    own(0);
    say(handles_its_signals() ? "done\n" : "the program's own handler was not called\n");
    exit(3);
}

/* Profiled by the environment from start to end. */
static void session(const char *unused) {
    (void)unused;
    tick(10);
    if (ProfilerFlush != NULL) ProfilerFlush();
    run_child();
    run_thread();
    run_missing_program();
    for (int i = 0; i < 8; i++) tick_deep(4000 + i);
}

static int is_toggled_by(int number) {
    struct sigaction action;
    own(1);
    if (sigaction(number, NULL, &action) != 0) _exit(89);
    own(0);
    return action.sa_handler != SIG_DFL;
}

/* SIGUSR2 is the program's own to send, but what its handler does is the profiler's. */
static void switch_profiling(void) {
    if (raise(SIGUSR2) != 0) _exit(88);
}

/* Profiled from one SIGUSR2 to the next, twice. */
static void toggle(const char *unused) {
    (void)unused;
    for (int i = 0; i < 2 && is_toggled_by(SIGUSR2); i++) {
        switch_profiling();
        if (!is_profiled()) continue;
        tick(5);
        switch_profiling();
    }
}

/* Profiled by its own calls. */
static void calls(const char *profile) {
    if (ProfilerStart == NULL) return;
    const int started = ProfilerStart(profile);
    if (started) tick(5);
    ProfilerFlush();
    if (started) tick(5);
    ProfilerStop();
}

/* Profiled until it ends without the functions that a program has registered for its end. */
static void abrupt(const char *unused) {
    (void)unused;
    tick(5);
    say("ending\n");
    _exit(3);
}

/* Profiled until it becomes another program. */
static void replaced(const char *unused) {
    char *const arguments[] = {"echo", "another program", NULL}, *const environment[] = {NULL};
    (void)unused;
    tick(5);
    execve("/bin/echo", arguments, environment);
    say("no program: %s\n", strerrorname_np(errno));
}

static const struct {
    const char *name;
    void (*run)(const char *profile);
} cases[] = {{"session", session}, {"toggle", toggle}, {"calls", calls}, {"abrupt", abrupt}, {"replaced", replaced}};

int main(int argc, char **argv) {
    if (argc != 3) return 98;
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) != 0) continue;
        cases[i].run(argv[2]);
        end();
    }
    return 98;
}
