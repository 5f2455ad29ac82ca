/* A filter that accepts one thread, beside two others that compute as much: filter_thread DIRECTORY writes DIRECTORY/prof, and
 * prints `chosen SECONDS`, the CPU time of that thread. */
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
static double chosen_seconds;

static int is_chosen(void *thread) { return gettid() == atomic_load((atomic_int *)thread); }

static double used(void) {
    struct timespec time;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static inline __attribute__((always_inline)) void compute(void) {
    volatile unsigned long work = 0;
    while (used() < 1)
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
}

static __attribute__((noinline, no_icf)) void chosen_work(void) {
    compute();
    chosen_seconds = used();
}

static __attribute__((noinline, no_icf)) void other_work(void) { compute(); }

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
    CHECK(ProfilerStartWithOptions(path, &options) != 0);
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    ProfilerStop();
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("chosen %.6f\n", chosen_seconds);
    return 0;
}
