/* Goes through a call of each of `execl`, `execlp` and `execle` instruction by instruction, and asks at each for the
 * stack. Prints how many instructions of these functions it saw. To be run with the library, and linked with -rdynamic. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <gperftools/profiler.h>

enum { TRAP_FLAG = 0x100, MOST = 16 };

static volatile sig_atomic_t is_over, steps;
static const char *watched;

static int is_in(const void *address, const char *function) {
    Dl_info found;
    return dladdr(address, &found) != 0 && found.dli_sname != NULL && strcmp(found.dli_sname, function) == 0;
}

static void fail(const char *what) {
    fprintf(stderr, "step %d of %s: %s\n", (int)steps, watched, what);
    _exit(1);
}

static void on_step(int number, siginfo_t *information, void *context) {
    (void)number;
    (void)information;
    greg_t *const registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (is_over) registers[REG_EFL] &= ~TRAP_FLAG;
    if (!is_in((void *)registers[REG_RIP], watched)) return;
    void *stack[MOST];
    const int depth = ProfilerGetStackTrace(stack, MOST, 0, context);
    if (depth < 3 || stack[0] != (void *)registers[REG_RIP]) fail("not the interrupted instruction");
    if (!is_in((char *)stack[1] - 1, "caller")) fail("not the caller");
    if (!is_in((char *)stack[2] - 1, "main")) fail("not the caller's caller");
    steps = steps + 1;
}

/* Eleven arguments: some in registers, some on the stack. */
#define LIST "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", (char *)NULL

__attribute__((noinline, noclone)) int caller(char which, char **environment) {
    int result;
    is_over = 0;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    switch (which) {
        case 'p': result = execlp("/no/such/program", LIST); break;
        case 'e': result = execle("/no/such/program", LIST, environment); break;
        default: result = execl("/no/such/program", LIST);
    }
    is_over = 1;
    return result + 1;
}

int main(void) {
    static const char *const functions[] = {"execl", "execlp", "execle"};
    char *environment[] = {NULL};
    const struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, NULL) != 0) return 2;
    for (int i = 0; i < 3; i++) {
        watched = functions[i];
        steps = 0;
        if (caller(watched[strlen(watched) - 1], environment) != 0) return 3;
        printf("%s %d\n", watched, (int)steps);
    }
    return 0;
}
