/* Code that runs on stacks of its own making and sends itself ticks there. usage: switched_stacks CASE
 *
 *   coroutine   makecontext and swapcontext, back and forth
 *   above       a call with the stack pointer moved to memory above the thread's stack
 *   below       the same below it
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_BYTES = 1 << 20, ROUNDS = 100 };

static void die(const char *what) {
    perror(what);
    exit(99);
}

__attribute__((noinline)) static int tick(void) {
    const int result = raise(SIGPROF);
    __asm__ volatile("" ::: "memory");
    return result;
}

__attribute__((noinline)) static void nested(void) {
    if (tick() != 0) die("raise");
    __asm__ volatile("" ::: "memory");
}

static ucontext_t main_context, coroutine_context;

__attribute__((noinline)) static void coroutine_entry(void) {
    for (int i = 0; i < ROUNDS; i++) {
        nested();
        swapcontext(&coroutine_context, &main_context);
    }
}

static void run_coroutine(void) {
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = malloc(STACK_BYTES);
    coroutine_context.uc_stack.ss_size = STACK_BYTES;
    coroutine_context.uc_link = &main_context;
    if (coroutine_context.uc_stack.ss_sp == NULL) die("malloc");
    makecontext(&coroutine_context, coroutine_entry, 0);
    /* Once more than there are rounds: the last one lets the entry function return. */
    for (int i = 0; i <= ROUNDS; i++) swapcontext(&main_context, &coroutine_context);
    free(coroutine_context.uc_stack.ss_sp);
}

/* Calls `function` with the stack pointer at `top`; its call frame information leads back to the caller's stack. */
void call_on_stack(void *top, void (*function)(void));
__asm__(
    ".text\n.globl call_on_stack\n.type call_on_stack, @function\ncall_on_stack:\n"
    ".cfi_startproc\npush %rbp\n.cfi_def_cfa rsp, 16\n.cfi_offset rbp, -16\n"
    "mov %rsp, %rbp\n.cfi_def_cfa_register rbp\n"
    "mov %rdi, %rsp\ncall *%rsi\nmov %rbp, %rsp\npop %rbp\n.cfi_def_cfa rsp, 8\nret\n"
    ".cfi_endproc\n.size call_on_stack, . - call_on_stack\n");

__attribute__((noinline)) static void switching_entry(void) {
    for (int i = 0; i < ROUNDS; i++) nested();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void *switch_stack(void *memory) {
    call_on_stack((char *)memory + STACK_BYTES, switching_entry);
    return memory;
}

/* A thread's stack and another one, in either order. */
static void run_switched(int is_above) {
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = mmap(NULL, 2 * STACK_BYTES, protection, flags, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    char *const own = is_above ? memory : memory + STACK_BYTES;
    char *const other = is_above ? memory + STACK_BYTES : memory;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, own, STACK_BYTES) != 0) die("pthread_attr_setstack");
    if (pthread_create(&thread, &attributes, switch_stack, other) != 0) die("pthread_create");
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    if (argc != 2) return 98;
    if (strcmp(argv[1], "coroutine") == 0)
        run_coroutine();
    else
        run_switched(strcmp(argv[1], "above") == 0);
    return 0;
}
