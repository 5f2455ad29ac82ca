/* A library to preload that handles SIGPROF before the profiler is loaded, and says at exit how often it was called. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t calls;

static void count_calls(int number) {
    (void)number;
    calls = calls + 1;
}

__attribute__((constructor(101))) static void take_the_signal(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count_calls;
    sigaction(SIGPROF, &action, NULL);
}

__attribute__((destructor)) static void report(void) { printf("early handler called %d times\n", (int)calls); }
