/* Threads that compute, all at once. Prints the CPU time that the process used, in seconds.
 * usage: many_threads COUNT SECONDS: until they have used so much CPU time together */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_int is_over;

static double read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *compute(void *unused) {
    volatile unsigned long work = 0;
    while (!atomic_load_explicit(&is_over, memory_order_relaxed))
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 3) return 91;
    const int count = atoi(argv[1]);
    const double seconds = atof(argv[2]);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, compute, NULL) != 0) return 92;
    const struct timespec pause = {0, 2000000};
    while (read_clock(CLOCK_PROCESS_CPUTIME_ID) < seconds) nanosleep(&pause, NULL);
    atomic_store(&is_over, 1);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("all %.6f\n", read_clock(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
