/* What programs share that have business of their own with SIGPROF, under the profiler: conditions that must hold, work, and
 * how many samples there are. */
#ifndef PROFILED_APP_H
#define PROFILED_APP_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

static inline int samples_now(void) {
    struct ProfilerState state;
    CHECK(ProfilerGetCurrentState != NULL);
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

/* Some microseconds of work. */
static inline void compute(void) {
    volatile unsigned long work = 0;
    for (int i = 0; i < 20000; i++) work = work * 5 + 3;
}

static inline double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Computes until there are `count` more samples. */
static inline void burn_for_ticks(int count) {
    const int goal = samples_now() + count;
    while (samples_now() < goal) compute();
}

/* A case, which the first argument names. */
struct test_case {
    const char *name;
    void (*run)(void);
};

/* Runs one of `count` cases, which checks what it has to itself, and says that it came to its end. */
static inline void run_case(const struct test_case *cases, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].run();
            puts("done");
            return;
        }
    CHECK(!"a known case");
}

#endif
