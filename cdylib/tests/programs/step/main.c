/* Steps through a workload instruction by instruction, and compares three unwinders at each.
 *
 * usage: single_step WORKLOAD BUDGET ROUNDS VISITS
 *
 * WORKLOAD is a shared library, see `step.h`. Each of its regions is run ROUNDS times, or until BUDGET instructions
 * of it were stepped; the rest of it runs without being stepped. At one address at most VISITS comparisons are made.
 * Zero for BUDGET or VISITS is no limit.
 */
#define _GNU_SOURCE
#include "shadow.h"
#include "step.h"
#include "tally.h"
#include "unwinders.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRAP_FLAG = 1 << 8 };

/* True while a region runs, until its budget is spent. */
static volatile int stepping;
static volatile int is_spent;
static long budget;

static void die(const char *what) {
    fprintf(stderr, "single_step: %s: %s\n", what, strerror(errno));
    exit(99);
}

/* A trap that is blocked ends the program. So a system call that would block it is made here, on the mask that the
   handler's return installs, and leaves it out. True if it was one. */
static int block_signals_but_traps(ucontext_t *context) {
    greg_t *registers = context->uc_mcontext.gregs;
    const unsigned long *set = (const unsigned long *)registers[REG_RSI];
    unsigned long *old = (unsigned long *)registers[REG_RDX];
    unsigned long mask;
    if (registers[REG_RAX] != SYS_rt_sigprocmask || set == NULL || registers[REG_R10] != sizeof mask) return 0;
    if (registers[REG_RDI] != SIG_BLOCK && registers[REG_RDI] != SIG_SETMASK) return 0;
    memcpy(&mask, &context->uc_sigmask, sizeof mask);
    const unsigned long present = mask;
    mask = registers[REG_RDI] == SIG_BLOCK ? mask | *set : *set;
    mask &= ~(1ul << (SIGTRAP - 1));
    if (old != NULL) *old = present;
    memcpy(&context->uc_sigmask, &mask, sizeof mask);
    registers[REG_RAX] = 0;
    registers[REG_RIP] += 2;
    return 1;
}

/* A new thread or process would have the trap flag too, and nobody to step it. */
static int makes_thread_or_process(long number) {
    return number == SYS_clone || number == SYS_clone3 || number == SYS_fork || number == SYS_vfork;
}

static void on_trap(int number UNUSED, siginfo_t *info UNUSED, void *argument) {
    ucontext_t *context = argument;
    greg_t *registers = context->uc_mcontext.gregs;
    registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    /* Code that stores the flags and restores them may bring the trap flag back later. */
    if (!stepping) return;
    const int saved_errno = errno;
    in_handler = 1;
    const long stepped = tally(context);
    in_handler = 0;
    errno = saved_errno;
    if (budget != 0 && stepped >= budget) {
        stepping = 0;
        is_spent = 1;
        return;
    }
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    const int is_system_call = code[0] == 0x0f && code[1] == 0x05;
    if (is_system_call && makes_thread_or_process(registers[REG_RAX])) return;
    registers[REG_EFL] |= TRAP_FLAG;
    if (is_system_call) block_signals_but_traps(context);
}

/* The trap of this one turns stepping on. In the caller's own frame: the calls that follow are noted from there on. */
static inline __attribute__((always_inline)) void trap(void) {
    if (stepping) __asm__ volatile("int3");
}

static void again(void) {
    shadow_lost();
    trap();
}

static void outermost(const void *pc) {
    shadow_lost();
    tally_outermost(pc);
}

static void handle_traps(void) {
    enum { STACK_BYTES = 1 << 20 };
    stack_t stack = {.ss_size = STACK_BYTES};
    stack.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) != 0) die("sigaltstack");
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
    sigdelset(&action.sa_mask, SIGBUS);
    if (sigaction(SIGTRAP, &action, NULL) != 0) die("sigaction");
    memset(&action, 0, sizeof action);
    action.sa_handler = on_fault;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    if (sigaction(SIGSEGV, &action, NULL) != 0 || sigaction(SIGBUS, &action, NULL) != 0) die("sigaction");
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: single_step WORKLOAD BUDGET ROUNDS VISITS\n");
        return 2;
    }
    budget = atol(argv[2]);
    const int rounds = atoi(argv[3]);
    tally_at_most(atoi(argv[4]));
    void *workload = dlopen(argv[1], RTLD_LAZY);
    const struct region *region = workload == NULL ? NULL : dlsym(workload, "regions");
    if (region == NULL) {
        fprintf(stderr, "single_step: %s\n", dlerror());
        return 99;
    }
    prepare_unwinders();
    handle_traps();
    const struct stepper stepper = {again, outermost};
    for (; region->name != NULL; region++) {
        if (region->prepare != NULL) region->prepare();
        tally_region(region->name);
        is_spent = 0;
        for (int round = 0; round < rounds && !is_spent; round++) {
            shadow_start();
            stepping = 1;
            trap();
            region->run(&stepper);
            /* The next trap turns the flag off. */
            stepping = 0;
        }
    }
    tally_report(stdout);
    return 0;
}
