/* A library that comes and goes. Compiled with different BLOCKs it has the same code at the same places, with frames of
 * different sizes. Ticks come to it while it is loaded, while it runs, and while it is unloaded. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw_tick.h"

#ifndef BLOCK
#define BLOCK 2048
#endif

typedef void (*callback)(void);

static long process, thread;

__attribute__((constructor, noinline)) void on_load(void) {
    process = getpid();
    thread = syscall(SYS_gettid);
    raise(SIGPROF);
    __asm__ volatile("" ::: "memory");
}

__attribute__((destructor, noinline)) void on_unload(void) {
    raise(SIGPROF);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) unsigned long innermost(unsigned long rounds) {
    volatile unsigned long block[BLOCK / sizeof(unsigned long)];
    unsigned long state = rounds;
    block[0] = 1;
    for (unsigned long i = 0; i < rounds; i++) state = state * 5 + block[0];
    raw_tick(process, thread);
    return state;
}

__attribute__((noinline)) unsigned long in_library(callback function, unsigned long rounds) {
    volatile unsigned long block[2 * BLOCK / sizeof(unsigned long)];
    block[0] = innermost(rounds);
    function();
    return block[0] + 1;
}
