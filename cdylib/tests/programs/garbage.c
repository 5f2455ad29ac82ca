/* Asks for the stack of registers that hold anything, on a stack with anything in it. usage: garbage WALKS
 * The library is linked or preloaded. Prints how many of the walks led to more than one address. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "weak_profiler.h"

enum { PAGE = 4096, STACK_PAGES = 8, ROOM = 48 };

static uint64_t state = 88172645463325252;

/* xorshift64 (G. Marsaglia, "Xorshift RNGs", 2003). */
static uintptr_t random_word(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uintptr_t below(uintptr_t limit) { return (random_word() >> 8) % limit; }

static char *stack_start, *stack_end;

/* The pages between two that fault. */
static void make_stack(void) {
    const size_t bytes = (STACK_PAGES + 2) * PAGE;
    char *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0) exit(99);
    stack_start = memory + PAGE;
    stack_end = stack_start + STACK_PAGES * PAGE;
    if (mprotect(stack_end, PAGE, PROT_NONE) != 0) exit(99);
}

/* Addresses in functions of several objects, and near them. */
static uintptr_t code(void) {
    static uintptr_t places[6];
    if (places[0] == 0) {
        const char *const names[] = {"qsort", "printf", "dlopen", "clock_gettime", "ProfilerGetStackTrace"};
        for (int i = 0; i < 5; i++) places[i + 1] = (uintptr_t)dlsym(RTLD_DEFAULT, names[i]);
        places[0] = (uintptr_t)code;
    }
    return places[below(6)] + below(8 * PAGE) - 4 * PAGE;
}

static uintptr_t garbage(void) {
    static const uintptr_t odd[] = {0, 1, PAGE, (uintptr_t)1 << 47, (uintptr_t)1 << 62, (uintptr_t)0xffff800000000000,
                                    ~(uintptr_t)0, ~(uintptr_t)7};
    switch (below(12)) {
        case 0: case 1: case 2: case 3: return (uintptr_t)stack_start + below(STACK_PAGES * PAGE / 8) * 8;
        case 4: case 5: case 6: return code();
        case 7: return (uintptr_t)stack_start - 64 + below(128);
        case 8: return (uintptr_t)stack_end - 64 + below(128);
        case 9: return odd[below(sizeof odd / sizeof odd[0])];
        case 10: return random_word() >> below(64);
        default: return random_word();
    }
}

static void fill_stack(void) {
    for (uintptr_t *word = (uintptr_t *)stack_start; word < (uintptr_t *)stack_end; word++) *word = garbage();
}

static void fill_registers(ucontext_t *context) {
    for (int i = 0; i < NGREG; i++) context->uc_mcontext.gregs[i] = (greg_t)garbage();
    if (below(8) != 0) context->uc_mcontext.gregs[REG_RSP] = (greg_t)(stack_start + below(STACK_PAGES * PAGE / 8) * 8);
    if (below(8) != 0) context->uc_mcontext.gregs[REG_RIP] = (greg_t)code();
}

int main(int argc, char **argv) {
    if (argc != 2) return 98;
    ucontext_t context;
    if (getcontext(&context) != 0) return 97;
    make_stack();
    long led_on = 0;
    for (long i = 0; i < atol(argv[1]); i++) {
        if (i % 64 == 0) fill_stack();
        fill_registers(&context);
        void *result[ROOM + 1];
        const int room = 1 + (int)below(ROOM);
        result[room] = &context;
        const int depth = ProfilerGetStackTrace(result, room, 0, &context);
        if (depth < 0 || depth > room || result[room] != &context) return 96;
        led_on += depth > 1;
    }
    printf("%ld\n", led_on);
    return 0;
}
