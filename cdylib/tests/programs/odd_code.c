/* Code that does odd things with its stack, while ticks come. usage: odd_code CASE; see `cases` at the end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "raw_tick.h"
#include "weak_profiler.h"

enum { ROUNDS = 100, PAGE = 4096, STACK_BYTES = 256 << 10 };

static long process;

static void die(const char *what) {
    perror(what);
    exit(99);
}

static void *map(size_t bytes) {
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    return memory;
}

__attribute__((noinline)) static void tick(void) {
    if (raise(SIGPROF) != 0) die("raise");
    __asm__ volatile("" ::: "memory");
}

/* A tick while stack pointer and frame pointer hold what they should not. */
void tick_with_registers(uintptr_t stack, uintptr_t frame, long process, long thread);
__asm__(
    ".text\n.globl tick_with_registers\n.type tick_with_registers, @function\ntick_with_registers:\n"
    ".cfi_startproc\npush %rbx\n.cfi_def_cfa rsp, 16\n.cfi_offset rbx, -16\npush %rbp\n"
    ".cfi_def_cfa rsp, 24\n.cfi_offset rbp, -24\nmov %rsp, %rbx\nmov %rdi, %rsp\nmov %rsi, %rbp\n"
    "mov %rdx, %rdi\nmov %rcx, %rsi\nmov $27, %edx\nmov $234, %eax\nsyscall\n"
    "mov %rbx, %rsp\npop %rbp\n.cfi_def_cfa rsp, 16\npop %rbx\n.cfi_def_cfa rsp, 8\nret\n"
    ".cfi_endproc\n.size tick_with_registers, . - tick_with_registers\n");

/* A page that can be read, with one on either side that cannot. */
static uintptr_t lonely_page(void) {
    char *const pages = map(3 * PAGE);
    if (mprotect(pages, PAGE, PROT_NONE) != 0 || mprotect(pages + 2 * PAGE, PAGE, PROT_NONE) != 0) die("mprotect");
    for (size_t i = 0; i < PAGE / sizeof(uintptr_t); i++)
        ((uintptr_t *)(pages + PAGE))[i] = (uintptr_t)pages + i * 40503 % (3 * PAGE);
    return (uintptr_t)pages + PAGE;
}

/* The kernel needs a stack for the handler: there is none but the alternate one. */
static void garbage_stack_pointer(void) {
    const stack_t stack = {.ss_sp = map(STACK_BYTES), .ss_size = STACK_BYTES, .ss_flags = 0};
    if (sigaltstack(&stack, NULL) != 0) die("sigaltstack");
    const long thread = syscall(SYS_gettid);
    const uintptr_t page = lonely_page(), code = (uintptr_t)tick_with_registers;
    const uintptr_t values[] = {
        0, 1, 8, PAGE - 8, PAGE, page - 8, page, page + 4, page + 8, page + 24, page + PAGE - 24, page + PAGE - 8,
        page + PAGE - 4, page + PAGE, code, code + 3, (uintptr_t)1 << 46, (uintptr_t)1 << 47, (uintptr_t)1 << 62,
        (uintptr_t)0xffff800000000000, ~(uintptr_t)0, ~(uintptr_t)7, ~(uintptr_t)15,
    };
    const size_t count = sizeof values / sizeof values[0];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) tick_with_registers(values[i], values[j], process, thread);
    printf("%zu\n", count * count);
}

/* Ends in a call that never returns: the return address is the next function's, whose frame is another. */
void ends_in_call(void (*leaves)(void));
__asm__(
    ".text\n.globl ends_in_call\n.type ends_in_call, @function\nends_in_call:\n"
    ".cfi_startproc\nsub $0x108, %rsp\n.cfi_def_cfa rsp, 0x110\ncall *%rdi\n"
    ".cfi_endproc\n.size ends_in_call, . - ends_in_call\n"
    ".globl follows\n.type follows, @function\nfollows:\n"
    ".cfi_startproc\nret\n.cfi_endproc\n.size follows, . - follows\n");

static jmp_buf outside;

__attribute__((noinline)) static void leaves(void) {
    tick();
    longjmp(outside, 1);
}

__attribute__((noinline)) static void calls_what_does_not_return(void) {
    for (volatile int i = 0; i < ROUNDS; i++)
        if (setjmp(outside) == 0) ends_in_call(leaves);
}

static volatile int over;

static void *send_ticks(void *thread) {
    while (!over) {
        syscall(SYS_tgkill, process, *(long *)thread, SIGPROF);
        sched_yield();
    }
    return NULL;
}

/* Asks for the time until enough ticks have come. */
__attribute__((noinline)) static void ask_for_the_time(void) {
    struct ProfilerState state = {0};
    struct timespec time;
    while (state.samples_gathered < 50 * ROUNDS) {
        for (int i = 0; i < 1000; i++) clock_gettime(CLOCK_MONOTONIC, &time);
        ProfilerGetCurrentState(&state);
    }
}

static void time_in_the_vdso(void) {
    long self = syscall(SYS_gettid);
    pthread_t sender;
    if (pthread_create(&sender, NULL, send_ticks, &self) != 0) die("pthread_create");
    ask_for_the_time();
    over = 1;
    pthread_join(sender, NULL);
}

/* What a compiler might write at run time: void (void (*function)(void)), with a frame pointer and without. */
extern const char with_frame_pointer[], without_frame_pointer[], end_of_code[];
__asm__(
    ".text\nwith_frame_pointer:\npush %rbp\nmov %rsp, %rbp\ncall *%rdi\npop %rbp\nret\n"
    "without_frame_pointer:\nsub $0x58, %rsp\ncall *%rdi\nadd $0x58, %rsp\nret\nend_of_code:\n");

__attribute__((noinline)) static void run_made_code(const char *start, const char *end) {
    void *const page = map(PAGE);
    void (*function)(void (*)(void));
    memcpy(page, start, (size_t)(end - start));
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC) != 0) die("mprotect");
    memcpy(&function, &page, sizeof function);
    for (int i = 0; i < ROUNDS; i++) function(tick);
    printf("%#lx\n", (unsigned long)(uintptr_t)page);
}

static void made_code_with_frames(void) { run_made_code(with_frame_pointer, without_frame_pointer); }
static void made_code_without_frames(void) { run_made_code(without_frame_pointer, end_of_code); }

/* Runs `function` on `top`, where nobody's frame lies beyond: its return address is undefined. */
void outermost_on_stack(void *top, void (*function)(void));
__asm__(
    ".text\n.globl outermost_on_stack\n.type outermost_on_stack, @function\noutermost_on_stack:\n"
    ".cfi_startproc\npush %rbp\n.cfi_def_cfa rsp, 16\n.cfi_offset rbp, -16\nmov %rsp, %rbp\n"
    ".cfi_def_cfa_register rbp\nmov %rdi, %rsp\n.cfi_remember_state\n.cfi_undefined rip\ncall *%rsi\n"
    ".cfi_restore_state\nmov %rbp, %rsp\npop %rbp\n.cfi_def_cfa rsp, 8\nret\n"
    ".cfi_endproc\n.size outermost_on_stack, . - outermost_on_stack\n");

__attribute__((noinline)) static void fiber(void) {
    for (int i = 0; i < ROUNDS; i++) tick();
    __asm__ volatile("" ::: "memory");
}

/* Above the fiber's stack stand addresses that look like return addresses. */
static void undefined_return_address(void) {
    uintptr_t *const stack = map(STACK_BYTES), *const top = stack + (STACK_BYTES - PAGE) / sizeof *stack;
    for (size_t i = 0; i < PAGE / sizeof *top; i++) top[i] = (uintptr_t)fiber + 9;
    outermost_on_stack(top, fiber);
}

static _Thread_local long thread_id;

/* A kilobyte a frame, and a tick in each. */
__attribute__((noinline)) static int descend(int depth) {
    volatile char room[1024];
    room[0] = (char)depth;
    raw_tick(process, thread_id);
    return depth == 0 ? room[0] : descend(depth - 1) + room[0];
}

static void *descend_on_small_stack(void *unused) {
    thread_id = syscall(SYS_gettid);
    descend(16);
    return unused;
}

static void small_stack(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, 32 << 10) != 0) die("attributes");
    if (pthread_create(&thread, &attributes, descend_on_small_stack, NULL) != 0) die("pthread_create");
    pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"garbage-stack-pointer", garbage_stack_pointer},   /* prints the number of ticks */
    {"noreturn", calls_what_does_not_return},
    {"vdso", time_in_the_vdso},
    {"made-with-frames", made_code_with_frames},        /* prints the code's page */
    {"made-without-frames", made_code_without_frames},  /* prints the code's page */
    {"undefined", undefined_return_address},
    {"small-stack", small_stack},
};

int main(int argc, char **argv) {
    if (argc != 2) return 98;
    process = getpid();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    return 97;
}
