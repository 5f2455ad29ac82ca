/* Seems to run in step with the kernel's timer interrupts: these count PERCENT of its CPU time, by its own clock_gettime.
 * usage: interrupt_clock PERCENT SECONDS, of CPU time. Linked with -rdynamic, so that libraries call this clock_gettime. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* CPUCLOCK_PROF of the process (<linux/posix-timers.h>). */
#define INTERRUPTS_OF_PROCESS (~0 * 8)

static long long percent = 100;

static long long nanos(clockid_t clock) {
    struct timespec time;
    CHECK(syscall(SYS_clock_gettime, clock, &time) == 0);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != INTERRUPTS_OF_PROCESS) return (int)syscall(SYS_clock_gettime, clock, time);
    const long long counted = nanos(CLOCK_PROCESS_CPUTIME_ID) * percent / 100;
    *time = (struct timespec){counted / 1000000000, counted % 1000000000};
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    percent = atoi(argv[1]);
    const long long end = (long long)(atof(argv[2]) * 1e9);
    while (nanos(CLOCK_PROCESS_CPUTIME_ID) < end) {
        for (volatile int i = 0; i < 100000; i++) continue;
    }
    return 0;
}
