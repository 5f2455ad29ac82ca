/* Sends itself the signal that switches the profiler where the program must not be disturbed: inside an allocator that is no
 * good for a second call, inside dlopen, and while the loader lists its objects. For each two signals, between which it is
 * profiled, it prints the seconds of CPU time that it used at least between them and at most with them; and last how often it has sent
 * the signal.
 * usage: toggles PLUGIN */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weak_profiler.h"

enum { ROUNDS = 10, TOGGLES = 4 * ROUNDS };

/* Bytes that are given out and never taken back. */
static _Alignas(16) unsigned char heap[64 << 20];
static size_t used;
/* The compiler knows what malloc does elsewhere, and that it does not look at this. */
static volatile int is_armed;
static int is_inside;
static int toggles;

/* The clock before and behind each signal. */
static double before[TOGGLES], behind[TOGGLES];

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void toggle(void) {
    if (toggles == TOGGLES) _exit(5);
    before[toggles] = seconds();
    raise(SIGUSR2);
    behind[toggles++] = seconds();
}

void *malloc(size_t size) {
    if (is_inside) {
        static const char text[] = "the allocator was called while it was inside\n";
        write(2, text, sizeof text - 1);
        _exit(3);
    }
    is_inside = 1;
    if (is_armed) toggle();
    const size_t start = (used + 15) & ~(size_t)15;
    void *result = NULL;
    if (size <= sizeof heap - start) {
        used = start + size;
        result = heap + start;
    } else {
        errno = ENOMEM;
    }
    is_inside = 0;
    return result;
}

void free(void *memory) { (void)memory; }

void *calloc(size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    /* All of it is zero, since none is used twice. */
    return malloc(count * size);
}

void *realloc(void *old, size_t size) {
    void *new = malloc(size);
    if (new != NULL && old != NULL) {
        /* What lies behind the old bytes is the heap's, too. */
        const size_t there = (size_t)(heap + sizeof heap - (unsigned char *)old);
        memmove(new, old, size < there ? size : there);
    }
    return new;
}

/* The plugin's constructor calls it, inside dlopen. */
void called_by_plugin(void) { toggle(); }

static int called_by_loader(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info;
    (void)size;
    (void)unused;
    toggle();
    return 1;
}

/* 20 ms, and in a session until it has a sample. */
static void compute(void) {
    const double end = seconds() + 0.02;
    volatile unsigned long work = 0;
    struct ProfilerState state;
    do {
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
        ProfilerGetCurrentState(&state);
    } while (seconds() < end || (state.enabled && state.samples_gathered == 0));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    for (int i = 0; i < ROUNDS; i++) {
        is_armed = 1;
        void *volatile memory = malloc(100);
        is_armed = 0;
        compute();
        void *plugin = dlopen(argv[1], RTLD_NOW);
        if (plugin == NULL || memory == NULL) return 4;
        compute();
        dlclose(plugin);
        dl_iterate_phdr(called_by_loader, NULL);
        compute();
        /* An even number in each round. */
        toggle();
    }
    for (int i = 0; i < toggles; i += 2) printf("%.6f %.6f\n", before[i + 1] - behind[i], behind[i + 1] - before[i]);
    printf("%d\n", toggles);
    return 0;
}
