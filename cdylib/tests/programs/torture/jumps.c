/* Jumps out of many frames, and out of the handler of a timer's signal; and recursion as deep as the stack allows. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

#define NOINLINE __attribute__((noinline))

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { JUMPS = 50, ALARM_MICROS = 700, DEEP = 40000 };

/* There is one worker of each kind; what is thread-local would take room from the tiny threads' stacks. */
static jmp_buf target;
static sigjmp_buf alarm_target;
static volatile sig_atomic_t may_jump;

/* A pointer, so that the compiler does not see that none of the calls returns. */
static unsigned long (*volatile next_frame)(unsigned long, int);

NOINLINE static unsigned long descend_and_jump(unsigned long value, int depth) {
    volatile unsigned long kept = mix(value);
    if (depth > 0) return next_frame(value, depth - 1) + kept;
    longjmp(target, 1 + (int)(value % 1000));
}

void round_of_jumps(unsigned long number) {
    step("longjmp");
    next_frame = descend_and_jump;
    for (volatile int i = 0; i < JUMPS; i++) {
        volatile const unsigned long kept = mix(number + (unsigned long)i);
        const int result = setjmp(target);
        if (result == 0) descend_and_jump(number, 1 + i);
        CHECK(result == 1 + (int)(number % 1000) && kept == mix(number + (unsigned long)i));
    }
}

static void on_alarm(int signal) {
    (void)signal;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(alarm_target, 1);
    }
}

static timer_t start_alarms(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(orders.other_signal, &action, NULL) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = orders.other_signal};
    event.sigev_notify_thread_id = (pid_t)mine->thread;
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    const struct itimerspec interval = {{0, ALARM_MICROS * 1000}, {0, ALARM_MICROS * 1000}};
    CHECK(timer_settime(timer, 0, &interval, NULL) == 0);
    return timer;
}

NOINLINE static void compute(volatile unsigned long *value) {
    for (;;) *value = mix(*value);
}

void round_of_alarms(unsigned long number) {
    static timer_t timer;
    static sigset_t mask_before;
    if (number == 0) {
        step("start the timer");
        timer = start_alarms();
        CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask_before) == 0);
    }
    step("siglongjmp out of the handler");
    volatile unsigned long value = number;
    if (sigsetjmp(alarm_target, 1) == 0) {
        may_jump = 1;
        compute(&value);
    }
    CHECK(!may_jump);
    sigset_t mask;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    for (int signal = 1; signal < 32; signal++) CHECK(sigismember(&mask, signal) == sigismember(&mask_before, signal));
    /* Every now and then from the beginning. */
    if (number % 1000 == 999) {
        CHECK(timer_delete(timer) == 0);
        timer = start_alarms();
    }
}

NOINLINE static unsigned long descend(unsigned long value, int depth) {
    volatile unsigned long kept = value;
    if (depth == 0) return value;
    return (descend(value * 3 + 1, depth - 1) ^ kept) + (unsigned long)depth;
}

/* The same without recursion, from the innermost frame outwards. */
static unsigned long expected(unsigned long value, int depth) {
    static unsigned long kept[DEEP + 1];
    for (int i = depth; i > 0; i--) {
        kept[i] = value;
        value = value * 3 + 1;
    }
    for (int i = 1; i <= depth; i++) value = (value ^ kept[i]) + (unsigned long)i;
    return value;
}

void round_of_recursion(unsigned long number) {
    step("recursion");
    CHECK(descend(number, DEEP) == expected(number, DEEP));
    if (number % 8 == 0) {
        step("throw through thousands of frames");
        CHECK(throw_through_frames(number, 4000));
    }
}
