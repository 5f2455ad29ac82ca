/* Sends itself ticks along many call chains, until it is killed, and counts those that are over in a page that it shares
 * with its parent. usage: kill_points FILE THREADS CHAINS
 *
 * FILE holds one number for each thread, and behind these, at COUNTERS, whether the program has begun. With 0 threads
 * there is one that asks to be traced and stops at a breakpoint before each tick; it takes each chain once, in order. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "raw_tick.h"

enum { COUNTERS = 8, DEPTH = 24 };

static _Atomic unsigned long *counters;
static unsigned chains;
static long process;

static int along(unsigned way, int depth, long thread);

__attribute__((noinline, noclone)) static int left(unsigned way, int depth, long thread) {
    return along(way, depth, thread) + depth;
}

__attribute__((noinline, noclone)) static int right(unsigned way, int depth, long thread) {
    return along(way, depth, thread) - depth;
}

__attribute__((noinline, noclone)) static int along(unsigned way, int depth, long thread) {
    if (depth > 0) return ((way & 1) != 0 ? left : right)(way >> 1, depth - 1, thread);
    raw_tick(process, thread);
    return 0;
}

static void *tick_for_ever(void *number) {
    const long i = (long)number;
    const long thread = gettid();
    for (unsigned way = (unsigned)i + 1;; way = way * 1664525 + 1013904223) {
        along((way >> 8) % chains, DEPTH, thread);
        atomic_store_explicit(&counters[i], counters[i] + 1, memory_order_release);
    }
    return NULL;
}

static void tick_step_by_step(void) {
#if defined(__x86_64__) || defined(__i386__)
    const long thread = gettid();
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) exit(1);
    raise(SIGSTOP);
    for (unsigned way = 0; way < chains; way++) {
        __asm__ volatile("int3");
        along(way, DEPTH, thread);
        atomic_store_explicit(&counters[0], counters[0] + 1, memory_order_release);
    }
#endif
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const int file = open(argv[1], O_RDWR);
    const long threads = atol(argv[2]);
    chains = (unsigned)atoi(argv[3]);
    process = getpid();
    void *const page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED || threads > COUNTERS) return 1;
    /* Ticks come from here alone: stepping takes seconds. By system call, for the library keeps its ticks otherwise. */
    const struct itimerval never = {{0, 0}, {0, 0}};
    syscall(SYS_setitimer, ITIMER_PROF, &never, NULL);
    counters = page;
    counters[COUNTERS] = 1;
    if (threads == 0) {
        tick_step_by_step();
        return 0;
    }
    for (long i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, tick_for_ever, (void *)i) != 0) return 1;
    }
    tick_for_ever(NULL);
    return 0;
}
