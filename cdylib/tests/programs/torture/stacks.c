/* Code on stacks of its own: fibers, and handlers on alternate stacks down to the smallest that the kernel takes. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "torture.h"

#define NOINLINE __attribute__((noinline))

enum { FIBERS = 4, FIBER_BYTES = 24 << 10, SWITCHES = 50, CANARY = 0x5a, CANARY_BYTES = 16 << 10 };

/* Of makecontext: each adds to its own sum and gives way to the next. */
static struct {
    ucontext_t main, contexts[FIBERS];
    unsigned long sums[FIBERS];
    int left[FIBERS];
} ring;

static void fiber(int i) {
    while (ring.left[i] > 0) {
        ring.sums[i] = mix(ring.sums[i] + (unsigned long)i);
        ring.left[i]--;
        CHECK(swapcontext(&ring.contexts[i], &ring.contexts[(i + 1) % FIBERS]) == 0);
    }
}

static void run_ring(unsigned long number, char *stacks) {
    for (int i = 0; i < FIBERS; i++) {
        ring.sums[i] = number;
        ring.left[i] = SWITCHES;
        CHECK(getcontext(&ring.contexts[i]) == 0);
        ring.contexts[i].uc_stack.ss_sp = stacks + (size_t)i * FIBER_BYTES;
        ring.contexts[i].uc_stack.ss_size = FIBER_BYTES;
        ring.contexts[i].uc_link = i + 1 < FIBERS ? &ring.contexts[i + 1] : &ring.main;
        makecontext(&ring.contexts[i], (void (*)(void))(uintptr_t)fiber, 1, i);
    }
    CHECK(swapcontext(&ring.main, &ring.contexts[0]) == 0);
    for (int i = 0; i < FIBERS; i++) {
        unsigned long sum = number;
        for (int left = 0; left < SWITCHES; left++) sum = mix(sum + (unsigned long)i);
        CHECK(ring.left[i] == 0 && ring.sums[i] == sum);
    }
}

#if defined(__x86_64__)
/* By hand: nothing but the saved registers is on the stack of who waits, and no call frame information says so. */
void torture_switch(void **from, void *to);
__asm__(".text\n.globl torture_switch\n.type torture_switch,@function\ntorture_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size torture_switch,.-torture_switch\n");

static void *main_stack, *other_stack;
static unsigned long other_sum;

NOINLINE static void other_side(void) {
    for (;;) {
        other_sum = mix(other_sum);
        torture_switch(&other_stack, main_stack);
    }
}

static void switch_by_hand(unsigned long number, char *stack) {
    void **top = (void **)(void *)(stack + FIBER_BYTES) - 2;
    *top = NULL; /* A call would have left its return address here: the stack is aligned as behind one. */
    *--top = (void *)(uintptr_t)other_side;
    for (int i = 0; i < 6; i++) *--top = NULL;
    other_stack = top;
    other_sum = number;
    unsigned long sum = number;
    for (int i = 0; i < SWITCHES; i++) {
        torture_switch(&main_stack, other_stack);
        sum = mix(sum);
        CHECK(other_sum == sum);
    }
}
#else
static void switch_by_hand(unsigned long number, char *stack) { (void)number, (void)stack; }
#endif

void round_of_fibers(unsigned long number) {
    static char *stacks;
    if (stacks == NULL) stacks = mmap(NULL, FIBERS * FIBER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED && orders.is_tight) {
        stacks = NULL;
        return;
    }
    CHECK(stacks != MAP_FAILED);
    step("swapcontext");
    run_ring(number, stacks);
    step("switch by hand");
    switch_by_hand(number, stacks);
}

static volatile sig_atomic_t handled;
static char *volatile place;

static void on_signal(int signal) {
    (void)signal;
    char here;
    place = &here;
    /* Long enough to be interrupted at times. */
    for (volatile int i = 0; i < 2000; i++) continue;
    handled = handled + 1;
}

/* Registers a stack of so many bytes right above a canary, or says that the kernel takes none so small. */
static int register_stack(char *memory, size_t bytes) {
    memset(memory, CANARY, CANARY_BYTES);
    const stack_t stack = {.ss_sp = memory + CANARY_BYTES, .ss_flags = 0, .ss_size = bytes};
    if (sigaltstack(&stack, NULL) == 0) return 1;
    CHECK(errno == ENOMEM && bytes < getauxval(AT_MINSIGSTKSZ));
    return 0;
}

static void handle_on(char *memory, size_t bytes, int takes_ticks) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    if (!takes_ticks) sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    handled = 0;
    for (int i = 1; i <= 20; i++) {
        CHECK(raise(SIGUSR1) == 0 && handled == i);
        CHECK(place >= memory + CANARY_BYTES && place < memory + CANARY_BYTES + bytes);
    }
}

void round_of_alternate_stacks(unsigned long number) {
    enum { LARGEST = 64 << 10 };
    static char *memory;
    if (memory == NULL) memory = mmap(NULL, CANARY_BYTES + LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED && orders.is_tight) {
        memory = NULL;
        return;
    }
    CHECK(memory != MAP_FAILED);
    const size_t kernel = getauxval(AT_MINSIGSTKSZ) > 2048 ? getauxval(AT_MINSIGSTKSZ) : 2048;
    size_t bytes = LARGEST;
    step("a large alternate stack");
    if (register_stack(memory, bytes)) handle_on(memory, bytes, 1);
    /* Small ones come behind a while: a profiler may leave alternate stacks alone once it has seen one. */
    if (number > 50) {
        /* Room for the kernel's frame and a handler, which is not interrupted: it would not be without a profiler. */
        bytes = kernel + 1024 + mix(number) % 4096 / 16 * 16;
        step("a small alternate stack with a handler");
        if (register_stack(memory, bytes)) handle_on(memory, bytes, 0);
        bytes = 2048 + mix(number) % 4096 / 16 * 16;
        step("an alternate stack for nobody");
        register_stack(memory, bytes);
        for (volatile int i = 0; i < 200000; i++) continue;
    }
    step("look below the alternate stack");
    for (size_t i = 0; i < CANARY_BYTES; i++) CHECK(memory[i] == CANARY);
    step("no alternate stack");
    const stack_t none = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&none, NULL) == 0);
    rest(1000);
}
