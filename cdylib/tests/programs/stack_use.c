/* Measures how much of the interrupted stack a tick needs. usage: stack_use baseline | stack_use FILE
 * Prints two numbers: the most bytes that a tick touched below the frame that it interrupted, over ticks at code
 * addresses never met before, and over ticks at the same addresses again. With `baseline` the handler is an empty one
 * of this program: what then remains is the kernel's signal frame and the measuring itself. */
#define _GNU_SOURCE
#include <gperftools/profiler.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "raw_tick.h"

enum { STACK_BYTES = 512 * 1024, PAINTED_BYTES = 256 * 1024 };

static const uint64_t PAINT = UINT64_C(0xc35a96e178d2b4f1);

static long process, thread_id;
static size_t most_used;

/* Paints what lies below the caller's frame; a little is left out for this function's own use. */
__attribute__((noinline)) static void paint_below(uintptr_t top) {
    volatile uint64_t *word = (volatile uint64_t *)((top - PAINTED_BYTES) & ~(uintptr_t)7);
    const uintptr_t own_frame = (uintptr_t)__builtin_frame_address(0) - 512;
    while ((uintptr_t)word < own_frame) *word++ = PAINT;
}

/* The distance from `top` down to the lowest word that is no longer painted. */
__attribute__((noinline)) static void measure_below(uintptr_t top) {
    const volatile uint64_t *word = (const volatile uint64_t *)((top - PAINTED_BYTES) & ~(uintptr_t)7);
    while (*word == PAINT) word++;
    const size_t used = top - (uintptr_t)word;
    if (used > most_used) most_used = used;
}

static inline __attribute__((always_inline)) void measured_tick(void) {
    const uintptr_t top = (uintptr_t)__builtin_frame_address(0);
    paint_below(top);
    raw_tick(process, thread_id);
    measure_below(top);
}

#define BODY(number) measured_tick();
#include "many_functions.h"

static int compare(const void *a, const void *b) {
    measured_tick();
    return *(const int *)a - *(const int *)b;
}

static size_t most_used_of_all(void) {
    most_used = 0;
    for (int i = 0; i < FUNCTION_COUNT; i++) functions[i](i);
    int numbers[8] = {5, 3, 7, 1, 4, 2, 6, 0};
    qsort(numbers, 8, sizeof numbers[0], compare);
    return most_used;
}

static void *measure(void *unused) {
    thread_id = gettid();
    const size_t first = most_used_of_all();
    printf("%zu %zu\n", first, most_used_of_all());
    return unused;
}

static void empty_handler(int number, siginfo_t *information, void *context) {
    (void)number, (void)information, (void)context;
}

static int install_empty_handler(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = empty_handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    return sigaction(SIGPROF, &action, NULL) == 0;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    process = getpid();
    if (!(strcmp(argv[1], "baseline") == 0 ? install_empty_handler() : ProfilerStart(argv[1]))) {
        fputs("the handler cannot be installed\n", stderr);
        return 1;
    }
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    if (stack == MAP_FAILED || pthread_attr_init(&attributes) != 0) return 1;
    if (pthread_attr_setstack(&attributes, stack, STACK_BYTES) != 0) return 1;
    if (pthread_create(&thread, &attributes, measure, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    return 0;
}
