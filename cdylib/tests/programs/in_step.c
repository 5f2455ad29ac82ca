/* Programs in which some work is in step with a clock. A profiler that samples at the kernel's timer interrupts only finds such
 * work never, or too often. ci/accuracy.py compares their profiles with what they print.
 *
 *   in_step paced HZ SECONDS   paced() runs after each wake-up at a multiple of 1/HZ s, loose() a random time later
 *   in_step timerfd SECONDS    on_timer() runs each 10 ms in its own thread, beside background()
 *   in_step audio SECONDS      on_buffer() runs for each 256 frames at 48 kHz in its own thread, beside background()
 *   in_step vtalrm SECONDS     in_handler() runs at each signal of ITIMER_VIRTUAL, each 10 ms, and interrupts background()
 *   in_step busy COUNT SECONDS background() runs in COUNT threads
 *
 * SECONDS is elapsed time. Prints `FUNCTION SECONDS`, the CPU time that each function used by its thread's clock, and
 * `all SECONDS`, that of the process. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define MICRO INT64_C(1000)
#define MILLI INT64_C(1000000)
#define SECOND INT64_C(1000000000)

static int64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static struct timespec time_of(int64_t nanos) { return (struct timespec){nanos / SECOND, nanos % SECOND}; }

static void sleep_until(int64_t moment) {
    const struct timespec time = time_of(moment);
    /* A signal interrupts it. */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) continue;
}

static int64_t end;

static int is_over(void) { return now(CLOCK_MONOTONIC) >= end; }

/* Uses this much CPU time and returns how much it was. Inlined: the time is the caller's own. */
static inline __attribute__((always_inline)) int64_t work_for(int64_t nanos) {
    const int64_t begin = now(CLOCK_THREAD_CPUTIME_ID);
    volatile unsigned long work = 0;
    int64_t used;
    do {
        for (int i = 0; i < 5000; i++) work = work * 5 + 3;
        used = now(CLOCK_THREAD_CPUTIME_ID) - begin;
    } while (used < nanos);
    return used;
}

/* Each is called by one thread only. */
#define WORKER(name)                                            \
    static volatile int64_t used_in_##name;                     \
    __attribute__((noinline)) static void name(int64_t nanos) { \
        const int64_t used = work_for(nanos);                   \
        used_in_##name += used;                                 \
    }                                                           \
    static void print_##name(void) { printf(#name " %.6f\n", (double)used_in_##name / SECOND); }

WORKER(paced)
WORKER(loose)
WORKER(on_timer)
WORKER(on_buffer)
WORKER(in_handler)

/* Called by many threads; the handler interrupts it, and its time is not this function's. */
__attribute__((noinline)) static int64_t background(int64_t nanos) { return work_for(nanos); }

static void print_background(int64_t used) { printf("background %.6f\n", (double)used / SECOND); }

/* Of elapsed time, at most 16 % is in paced() and 24 % in loose(). */
static void run_paced(int64_t rate) {
    const int64_t period = SECOND / rate;
    unsigned seed = 1;
    while (!is_over()) {
        sleep_until((now(CLOCK_MONOTONIC) / period + 1) * period);
        paced(period * 16 / 100);
        sleep_until(now(CLOCK_MONOTONIC) + period * 40 / 100 * (rand_r(&seed) % 1000) / 1000);
        loose(period * 24 / 100);
    }
    print_paced();
    print_loose();
}

static int64_t run_background(void) {
    int64_t used = 0;
    while (!is_over()) used += background(10 * MILLI);
    return used;
}

static void *run_timerfd(void *unused) {
    const struct itimerspec setting = {time_of(10 * MILLI), time_of(10 * MILLI)};
    const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &setting, NULL) == 0);
    for (uint64_t expiries; !is_over();) {
        if (read(timer, &expiries, sizeof expiries) > 0) on_timer(350 * MICRO);
    }
    close(timer);
    return unused;
}

static void *run_audio(void *unused) {
    const int64_t begin = now(CLOCK_MONOTONIC);
    for (int64_t buffer = 1; !is_over(); buffer++) {
        sleep_until(begin + buffer * 256 * SECOND / 48000);
        on_buffer(500 * MICRO);
    }
    return unused;
}

static void run_beside_background(void *(*run)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    print_background(run_background());
    pthread_join(thread, NULL);
}

static void handle(int unused) {
    (void)unused;
    in_handler(3 * MILLI);
}

static void run_vtalrm(void) {
    const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    const struct itimerval each = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
    CHECK(sigaction(SIGVTALRM, &action, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &each, NULL) == 0);
    const int64_t used = run_background();
    CHECK(setitimer(ITIMER_VIRTUAL, &none, NULL) == 0);
    print_in_handler();
    print_background(used - used_in_in_handler);
}

static void *run_thread(void *unused) {
    run_background();
    return unused;
}

static void run_busy(int count) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    CHECK(threads != NULL);
    for (int i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, run_thread, NULL) == 0);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    free(threads);
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    const char *kind = argv[1];
    end = now(CLOCK_MONOTONIC) + (int64_t)(atof(argv[argc - 1]) * SECOND);
    if (strcmp(kind, "paced") == 0) {
        run_paced(atoi(argv[2]));
    } else if (strcmp(kind, "timerfd") == 0) {
        run_beside_background(run_timerfd);
        print_on_timer();
    } else if (strcmp(kind, "audio") == 0) {
        run_beside_background(run_audio);
        print_on_buffer();
    } else if (strcmp(kind, "vtalrm") == 0) {
        run_vtalrm();
    } else {
        CHECK(strcmp(kind, "busy") == 0);
        run_busy(atoi(argv[2]));
    }
    printf("all %.6f\n", (double)now(CLOCK_PROCESS_CPUTIME_ID) / SECOND);
    fflush(stdout);
    return 0;
}
