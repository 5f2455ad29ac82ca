/* A filter that accepts one thread, beside two others that compute as much: filter_thread DIRECTORY writes DIRECTORY/prof, and
 * prints `ticks FIRST LAST OTHERS`: the clock of that thread at its first and last tick, between which there is a second, and what the
 * process had used of the session at the first. */
#define _GNU_SOURCE
#include <gperftools/profiler.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static atomic_int chosen_thread;
static pthread_barrier_t begin, end;
/* Written by the chosen thread's ticks alone. */
static volatile double first_tick, last_tick, others;
static double began;

static double seconds(clockid_t clock) {
    struct timespec time;
    CHECK(clock_gettime(clock, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double used(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

static int is_chosen(void *thread) {
    if (gettid() != atomic_load((atomic_int *)thread)) return 0;
    last_tick = used();
    if (first_tick == 0) {
        first_tick = last_tick;
        others = seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
    }
    return 1;
}

static inline __attribute__((always_inline)) void compute(void) {
    volatile unsigned long work = 0;
    for (int i = 0; i < 2000; i++) work = work * 5 + 3;
}

/* A tick comes sooner or later: the second is over with one. */
static __attribute__((noinline, no_icf)) void chosen_work(void) {
    while (first_tick == 0 || last_tick < first_tick + 1) {
        CHECK(used() < 60);
        compute();
    }
}

static __attribute__((noinline, no_icf)) void other_work(void) {
    while (used() < 1) compute();
}

static void *run(void *is_the_one) {
    if (is_the_one != NULL) atomic_store(&chosen_thread, gettid());
    pthread_barrier_wait(&begin);
    if (is_the_one != NULL)
        chosen_work();
    else
        other_work();
    pthread_barrier_wait(&end);
    return NULL;
}

int main(int argc, char **argv) {
    enum { THREADS = 3 };
    char path[4096];
    pthread_t threads[THREADS];
    struct ProfilerOptions options;
    CHECK(argc == 2);
    CHECK(pthread_barrier_init(&begin, NULL, THREADS + 1) == 0);
    CHECK(pthread_barrier_init(&end, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, run, i == 1 ? threads : NULL) == 0);
    memset(&options, 0, sizeof options);
    options.filter_in_thread = is_chosen;
    options.filter_in_thread_arg = &chosen_thread;
    snprintf(path, sizeof path, "%s/prof", argv[1]);
    began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    CHECK(ProfilerStartWithOptions(path, &options) != 0);
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    ProfilerStop();
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("ticks %.6f %.6f %.6f\n", first_tick, last_tick, others);
    return 0;
}
