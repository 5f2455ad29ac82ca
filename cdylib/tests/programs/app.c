/* An application that does, in order, what its arguments say.
 *
 *   print TEXT       a line on standard output
 *   raise N SIGNAL   sends itself the signal N times, with tgkill
 *   deep D N         recurses D levels deep and sends itself SIGPROF N times there
 *   burn MS          computes until it has used that much more CPU time and, where it is profiled, has a sample: how much it can use
 *                    without one is the scheduler's choice
 *   tell             computes until the profiler has sampled it once more, and prints what it had used before, `told_until SECONDS`
 *   pause N          waits until N signals have interrupted it
 *   chdir DIR
 *   spawn            runs the rest of the arguments in a new program of its own, then ends as that did
 *   open FILE        opens the file, prints the descriptor, and leaves it open
 *   exit N           ends; without it the status is 0
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weak_profiler.h"

static void die(const char *what) {
    perror(what);
    exit(99);
}

static void send_signal(int number, int times) {
    for (int i = 0; i < times; i++)
        if (syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number) != 0) die("tgkill");
}

static int signal_number(const char *name) {
    if (strcmp(name, "PROF") == 0) return SIGPROF;
    if (strcmp(name, "USR2") == 0) return SIGUSR2;
    fprintf(stderr, "app: unknown signal %s\n", name);
    exit(98);
}

__attribute__((noinline, noclone)) static int recurse(volatile int depth, int times) {
    int result = 1;
    if (depth > 0)
        result += recurse(depth - 1, times);
    else
        send_signal(SIGPROF, times);
    return result + depth;
}

static void do_print(char **operands) { puts(operands[0]); }

static void do_raise(char **operands) { send_signal(signal_number(operands[1]), atoi(operands[0])); }

static void do_deep(char **operands) { recurse(atoi(operands[0]), atoi(operands[1])); }

/* True while it is profiled and has no sample yet. */
static int waits_for_a_sample(void) {
    struct ProfilerState state = {0};
    if (ProfilerGetCurrentState) ProfilerGetCurrentState(&state);
    return state.enabled && state.samples_gathered == 0;
}

static void do_burn(char **operands) {
    const clock_t end = clock() + atol(operands[0]) * (CLOCKS_PER_SEC / 1000);
    volatile unsigned long work = 0;
    while (clock() < end || waits_for_a_sample())
        for (int i = 0; i < 10000; i++) work = work * 3 + 1;
}

static double cpu_seconds(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) die("the processor's clock");
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int gathered(void) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

static void do_tell(char **operands) {
    (void)operands;
    volatile unsigned long work = 0;
    double told_until;
    int before;
    do {
        told_until = cpu_seconds();
        before = gathered();
        for (int i = 0; i < 10000; i++) work = work * 3 + 1;
    } while (gathered() == before);
    printf("told_until %.6f\n", told_until);
}

static void do_pause(char **operands) {
    for (int left = atoi(operands[0]); left > 0; left--) pause();
}

static void do_chdir(char **operands) {
    if (chdir(operands[0]) != 0) die(operands[0]);
}

static void do_open(char **operands) { printf("%d\n", open(operands[0], O_RDWR)); }

static void do_exit(char **operands) { exit(atoi(operands[0])); }

/* `operands` is what follows; the word before it becomes the new program's name for itself. */
static void do_spawn(char **operands) {
    const pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        execv("/proc/self/exe", operands - 1);
        _exit(97);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) die("waitpid");
    printf("child %d\n", (int)child);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static const struct order {
    const char *name;
    int operands;
    void (*run)(char **operands);
} orders[] = {
    {"print", 1, do_print}, {"raise", 2, do_raise}, {"deep", 2, do_deep}, {"burn", 1, do_burn}, {"tell", 0, do_tell},
    {"pause", 1, do_pause}, {"chdir", 1, do_chdir}, {"open", 1, do_open},   {"exit", 1, do_exit}, {"spawn", 0, do_spawn},
};

static const struct order *order_named(const char *name) {
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        if (strcmp(orders[i].name, name) == 0) return &orders[i];
    fprintf(stderr, "app: unknown order %s\n", name);
    exit(98);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc;) {
        const struct order *order = order_named(argv[i]);
        if (i + order->operands >= argc) return 98;
        order->run(argv + i + 1);
        i += 1 + order->operands;
    }
    return 0;
}
