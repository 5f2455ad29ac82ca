/*
 * Uses CPU time in a function that calls no other, at the end of a chain of callers, and in the handler of a signal
 * that interrupts it there. usage: callers MILLISECONDS
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

/* Called as it stands: neither inlined, nor split, nor known to be without effect. */
#define NOINLINE __attribute__((noipa))

static volatile unsigned long sink;

/* Without a frame: on machines that have one, the return address stays in its register. */
NOINLINE static unsigned long innermost(unsigned long rounds) {
    unsigned long state = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) state = state * 69069 + (state >> 7);
    return state;
}

NOINLINE static unsigned long middle(unsigned long rounds) { return innermost(rounds) + 1; }

/* Keeps many values over a call, so that it has to store the registers they are in. */
NOINLINE static unsigned long outermost(unsigned long rounds) {
    const unsigned long a = sink, b = sink, c = sink, d = sink, e = sink, f = sink;
    const unsigned long result = middle(rounds);
    return result + a * b + c * d + e * f + a * f;
}

NOINLINE static unsigned long in_handler(unsigned long rounds) {
    unsigned long state = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) state = state * 1103515245 + (state >> 9);
    return state;
}

/* The next signal after 5 ms of CPU time: a periodic one could leave the program no time outside its handler. */
NOINLINE static void expect_alarm(void) {
    const struct itimerval once = {.it_value = {.tv_sec = 0, .tv_usec = 5000}};
    setitimer(ITIMER_VIRTUAL, &once, NULL);
}

static void on_alarm(int number) {
    sink += in_handler(3000000) + (unsigned long)number;
    expect_alarm();
}

static void on_alarm_with_context(int number, siginfo_t *info, void *context) {
    sink += in_handler(3000000) + (unsigned long)number + (info != NULL) + (context != NULL);
    expect_alarm();
}

static long cpu_milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* The kernel makes another frame for a handler that asks for the signal's context, on i386. */
static void work(long milliseconds, int with_context) {
    struct sigaction action = {0};
    if (with_context) {
        action.sa_sigaction = on_alarm_with_context;
        action.sa_flags = SA_RESTART | SA_SIGINFO;
    } else {
        action.sa_handler = on_alarm;
        action.sa_flags = SA_RESTART;
    }
    sigaction(SIGVTALRM, &action, NULL);
    expect_alarm();
    while (cpu_milliseconds() < milliseconds) sink += outermost(1000000);
}

int main(int argc, char **argv) {
    const long milliseconds = argc == 2 ? atol(argv[1]) : 0;
    work(milliseconds / 2, 0);
    work(milliseconds, 1);
    return 0;
}
