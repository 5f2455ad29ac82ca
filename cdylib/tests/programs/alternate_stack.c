/* Ticks on a thread whose alternate signal stack has room for the kernel's frame and a little more, and a guard page
 * below. usage: alternate_stack FILE BYTES */
#define _GNU_SOURCE
#include <gperftools/profiler.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "raw_tick.h"

static long process, thread_id;
static int ticks_sent;
static size_t room;

#define BODY(number) raw_tick(process, thread_id); ticks_sent++;
#include "many_functions.h"

static char big_stack[256 * 1024] __attribute__((aligned(64)));
static size_t kernel_frame;

static void measuring_handler(int number) {
    (void)number;
    kernel_frame = (size_t)(big_stack + sizeof big_stack - (char *)__builtin_frame_address(0));
}

/* What the kernel really puts on an alternate stack; AT_MINSIGSTKSZ counts registers that may not be in use. */
static void measure_kernel_frame(void) {
    const stack_t stack = {.ss_sp = big_stack, .ss_size = sizeof big_stack, .ss_flags = 0};
    struct sigaction action = {.sa_handler = measuring_handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 || raise(SIGUSR1) != 0) exit(1);
}

/* The stack grows down towards the guard page, which ends where the stack begins. */
static void use_small_alternate_stack(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t size = (kernel_frame + room + 63) & ~(size_t)63;
    const size_t mapped = (size + page - 1) & ~(page - 1);
    char *guard = mmap(NULL, page + mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard == MAP_FAILED || mprotect(guard, page, PROT_NONE) != 0) exit(1);
    const stack_t stack = {.ss_sp = guard + page, .ss_size = size, .ss_flags = 0};
    if (sigaltstack(&stack, NULL) != 0) exit(1);
}

static void *tick(void *unused) {
    thread_id = gettid();
    measure_kernel_frame();
    use_small_alternate_stack();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < FUNCTION_COUNT; i++) functions[i](i);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 3 || !ProfilerStart(argv[1])) return 1;
    process = getpid();
    room = (size_t)atol(argv[2]);
    if (pthread_create(&thread, NULL, tick, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    ProfilerStop();
    printf("%d %ld\n", ticks_sent, 1 + (long)(clock() / CLOCKS_PER_SEC));
    return 0;
}
