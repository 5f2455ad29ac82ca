/* Threads by the thousand, on the smallest stacks, joined, detached and cancelled. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "torture.h"

/* One that is cancelled in a handler inside another handler has three of the kernel's frames on its stack, and the unwinder. */
enum { TINY = 8, VICTIM_BYTES = 64 << 10 };

static size_t smallest_stack(void) {
    const long bytes = sysconf(_SC_THREAD_STACK_MIN);
    return bytes > 16384 ? (size_t)bytes : 16384;
}

/* Gives 0 where the process may have no more. */
static int start(pthread_t *thread, size_t stack_bytes, int is_detached, void *(*function)(void *), void *argument) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack_bytes) == 0);
    if (is_detached) CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    const int error = pthread_create(thread, &attributes, function, argument);
    CHECK(error == 0 || (error == EAGAIN && orders.is_tight));
    CHECK(pthread_attr_destroy(&attributes) == 0);
    return error == 0;
}

static void *compute(void *argument) {
    unsigned long *const value = argument, rounds = *value % 1000;
    for (unsigned long i = 0; i < rounds; i++) *value = mix(*value);
    return argument;
}

static unsigned long computed(unsigned long value) {
    const unsigned long rounds = value % 1000;
    for (unsigned long i = 0; i < rounds; i++) value = mix(value);
    return value;
}

static atomic_long detached_ended;

static void *end_detached(void *argument) {
    detached_ended++;
    return argument;
}

void round_of_tiny_threads(unsigned long number) {
    static long detached;
    unsigned long values[TINY];
    pthread_t threads[TINY];
    int count = 0;
    step("make threads");
    begin_loading();
    while (count < TINY) {
        values[count] = mix(number * TINY + (unsigned long)count);
        if (!start(&threads[count], smallest_stack(), 0, compute, &values[count])) break;
        count++;
    }
    pthread_t other;
    detached += start(&other, smallest_stack(), 1, end_detached, NULL);
    step("join threads");
    for (int i = 0; i < count; i++) {
        void *result = NULL;
        CHECK(pthread_join(threads[i], &result) == 0 && result == &values[i]);
        CHECK(values[i] == computed(mix(number * TINY + (unsigned long)i)));
    }
    end_loading();
    step("wait for a detached thread");
    while (detached_ended < detached) rest(100);
}

struct victim {
    unsigned long kind;
    int pipe[2];
    atomic_int has_begun, is_cleaned;
};

static void clean(void *argument) {
    struct victim *const victim = argument;
    CHECK(victim->is_cleaned == 0);
    victim->is_cleaned = 1;
}

static void *wait_for_the_end(void *argument) {
    struct victim *const victim = argument;
    char byte;
    pthread_cleanup_push(clean, victim);
    victim->has_begun = 1;
    switch (victim->kind % 4) {
    case 0:
        CHECK(read(victim->pipe[0], &byte, 1) == 0 && !"nobody writes");
        break;
    case 1:
        for (;;) pause();
    case 2:
        for (;;) pthread_testcancel();
    default:
        CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
        for (;;) __asm__ volatile("");
    }
    pthread_cleanup_pop(0);
    return NULL;
}

void round_of_cancellation(unsigned long number) {
    struct victim victim = {.kind = number};
    pthread_t thread;
    void *result = NULL;
    CHECK(pipe(victim.pipe) == 0);
    begin_loading();
    step("make a thread to cancel");
    if (start(&thread, VICTIM_BYTES, 0, wait_for_the_end, &victim)) {
        while (!victim.has_begun) rest(50);
        rest((long)(mix(number) % 500));
        step("cancel a thread");
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && victim.is_cleaned);
    }
    end_loading();
    CHECK(close(victim.pipe[0]) == 0 && close(victim.pipe[1]) == 0);
}
