/* Small alternate signal stacks, registered for SIGSEGV, under ticks that are none of their business.
 * usage: signal_stacks FILE BYTES before|after, with the library preloaded or linked: registered on the main thread and
 * on two others before or after the profiler is started. Prints the number of ticks sent. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "raw_tick.h"
#include "weak_profiler.h"

enum { OTHERS = 2, ROUNDS = 8, CANARY = 0x5a, CANARY_BYTES = 32 * 1024 };

static const char *file;
static size_t stack_bytes;
static long process;
static _Thread_local long thread_id;
static pthread_barrier_t meeting;

#define BODY(number) raw_tick(process, thread_id);
#include "many_functions.h"

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void on_fault(int number) {
    (void)number;
    _exit(2);
}

/* The stack stands right above the canary: what overflows it changes that. */
static unsigned char *register_stack(void) {
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *canary = mmap(NULL, CANARY_BYTES + stack_bytes, protection, flags, -1, 0);
    if (canary == MAP_FAILED) die("mmap");
    memset(canary, CANARY, CANARY_BYTES);
    const stack_t stack = {.ss_sp = canary + CANARY_BYTES, .ss_size = stack_bytes, .ss_flags = 0};
    const struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0) die("sigaltstack");
    if (sigaction(SIGSEGV, &action, NULL) != 0) die("sigaction");
    return canary;
}

static void expect_untouched(const unsigned char *canary) {
    for (size_t i = 0; i < CANARY_BYTES; i++)
        if (canary[i] != CANARY) {
            fprintf(stderr, "%zu bytes below the stack were written\n", CANARY_BYTES - i);
            exit(1);
        }
}

static void storm(void) {
    thread_id = gettid();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < FUNCTION_COUNT; i++) functions[i](i);
}

/* All threads have their stacks when the first meeting ends, and the profiler runs when the second does. */
static void take_part(int starts, int registers_late) {
    unsigned char *canary = registers_late ? NULL : register_stack();
    pthread_barrier_wait(&meeting);
    if (starts && !ProfilerStart(file)) exit(3);
    pthread_barrier_wait(&meeting);
    if (registers_late) canary = register_stack();
    storm();
    expect_untouched(canary);
}

static void *other(void *registers_late) {
    take_part(0, registers_late != NULL);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 98;
    file = argv[1];
    stack_bytes = (size_t)atol(argv[2]);
    const int late = strcmp(argv[3], "after") == 0;
    process = getpid();
    pthread_barrier_init(&meeting, NULL, OTHERS + 1);
    pthread_t threads[OTHERS];
    for (int i = 0; i < OTHERS; i++)
        if (pthread_create(&threads[i], NULL, other, late ? &meeting : NULL) != 0) die("pthread_create");
    take_part(1, late);
    for (int i = 0; i < OTHERS; i++) pthread_join(threads[i], NULL);
    ProfilerStop();
    printf("%d\n", (OTHERS + 1) * ROUNDS * FUNCTION_COUNT);
    return 0;
}
