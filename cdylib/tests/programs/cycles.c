/* Starts and stops the profiler many times while eight threads compute, and tells what that has left behind.
 * usage: cycles COUNT FILE */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gperftools/profiler.h>

enum { THREADS = 8 };

static atomic_int is_over;

static void *compute(void *unused) {
    (void)unused;
    volatile unsigned long work = 0;
    while (!atomic_load(&is_over))
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
    return NULL;
}

static int lines_with(const char *path, const char *beginning) {
    FILE *file = fopen(path, "r");
    if (file == NULL) return -1;
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL) count += strncmp(line, beginning, strlen(beginning)) == 0;
    fclose(file);
    return count;
}

static int entries_in(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) return -1;
    int count = 0;
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

struct resources {
    int timers, descriptors, mappings, threads;
};

static struct resources resources_now(void) {
    return (struct resources){lines_with("/proc/self/timers", "ID:"), entries_in("/proc/self/fd"),
                              lines_with("/proc/self/maps", ""), entries_in("/proc/self/task")};
}

/* Until a sample has been taken, however long the scheduler lets ticks pass by; where none come at all, who runs this ends it. */
static void wait_for_sample(void) {
    struct ProfilerState state;
    do ProfilerGetCurrentState(&state);
    while (state.samples_gathered == 0);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const int count = atoi(argv[1]);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, compute, NULL);
    struct resources before = {0, 0, 0, 0};
    int sampled = 0;
    for (int i = 0; i < count; i++) {
        /* The first few make what stays for all. */
        if (i == 10) before = resources_now();
        if (ProfilerStart(argv[2]) == 0) return 1;
        wait_for_sample();
        sampled++;
        ProfilerStop();
    }
    const struct resources after = resources_now();
    /* The handler stays: this would end the program. */
    const char *clock = getenv("CPUPROFILE_CLOCK");
    raise(clock && strcmp(clock, "wall") == 0 ? SIGALRM : SIGPROF);
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("sampled %d\ntimers %d %d\ndescriptors %d %d\nmappings %d %d\nthreads %d %d\n", sampled, before.timers, after.timers,
           before.descriptors, after.descriptors, before.mappings, after.mappings, before.threads, after.threads);
    return 0;
}
