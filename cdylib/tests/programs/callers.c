/*
 * Sends ticks from a function that calls no other, at the end of a chain of callers, and from the handler of a signal
 * that interrupts that function. usage: callers TICKS
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw_tick.h"

/* Called as it stands: neither inlined, nor split, nor known to be without effect. */
#define NOINLINE __attribute__((noipa))

static volatile unsigned long sink;
static long process, thread;

/* Without a frame: on machines that have one, the return address stays in its register. */
NOINLINE static unsigned long innermost(unsigned long rounds, long number) {
    unsigned long state = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) {
        raw_signal(process, thread, number);
        state = state * 69069 + (state >> 7);
    }
    return state;
}

NOINLINE static unsigned long middle(unsigned long rounds, long number) { return innermost(rounds, number) + 1; }

/* Keeps many values over a call, so that it has to store the registers they are in. */
NOINLINE static unsigned long outermost(unsigned long rounds, long number) {
    const unsigned long a = sink, b = sink, c = sink, d = sink, e = sink, f = sink;
    const unsigned long result = middle(rounds, number);
    return result + a * b + c * d + e * f + a * f;
}

NOINLINE static unsigned long in_handler(unsigned long state) {
    raw_tick(process, thread);
    return state * 1103515245 + (state >> 9);
}

static void on_alarm(int number) { sink += in_handler((unsigned long)number) + 1; }

static void on_alarm_with_context(int number, siginfo_t *info, void *context) {
    sink += in_handler((unsigned long)number) + (info != NULL) + (context != NULL);
}

/* The kernel makes another frame for a handler that asks for the signal's context, on i386. */
static void handle_alarms(int with_context) {
    struct sigaction action = {0};
    if (with_context) {
        action.sa_sigaction = on_alarm_with_context;
        action.sa_flags = SA_RESTART | SA_SIGINFO;
    } else {
        action.sa_handler = on_alarm;
        action.sa_flags = SA_RESTART;
    }
    sigaction(SIGVTALRM, &action, NULL);
}

NOINLINE static void work(unsigned long ticks) {
    sink += outermost(ticks, SIGPROF);
    handle_alarms(0);
    sink += outermost(ticks, SIGVTALRM);
    handle_alarms(1);
    sink += outermost(ticks, SIGVTALRM);
}

int main(int argc, char **argv) {
    process = getpid();
    thread = syscall(SYS_gettid);
    work(argc == 2 ? strtoul(argv[1], NULL, 10) : 0);
    return 0;
}
