/* tight KIBIBYTES: takes so much memory in pieces of different sizes, by malloc and by mmap, computes along many call chains,
 * starts a thread, and prints a sum. Any allocation that fails ends it with status 3, and a thread that cannot be had with
 * status 4: applications differ in how well they bear that. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raw_tick.h"

static unsigned long compute(unsigned long state, int depth) {
    if (depth > 0) {
        unsigned long below = compute(state * 69069 + 1, depth - 1);
        __asm__ volatile("");
        return below ^ state;
    }
    raw_tick(getpid(), gettid());
    return state;
}

static void *run(void *sum) {
    unsigned long state = 1;
    for (int i = 0; i < 2000; i++) {
        state += compute(state, i % 40);
    }
    *(unsigned long *)sum += state;
    return NULL;
}

int main(int count, char **words) {
    long left = count > 1 ? atol(words[1]) : 0;
    unsigned long sum = 0;
    for (long piece = 1; left > 0; piece = piece * 3 % 1021 + 1) {
        long size = piece < left ? piece : left;
        char *taken;
        if (piece % 2) {
            taken = malloc((size_t)size << 10);
        } else {
            taken = mmap(NULL, (size_t)size << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            taken = taken == MAP_FAILED ? NULL : taken;
        }
        if (!taken) {
            return 3;
        }
        memset(taken, (int)piece, (size_t)size << 10);
        sum += (unsigned long)taken[size * 512];
        left -= size;
    }
    run(&sum);
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    if (pthread_create(&thread, &attributes, run, &sum) != 0) {
        return 4;
    }
    pthread_join(thread, NULL);
    printf("%lu\n", sum);
    return 0;
}
