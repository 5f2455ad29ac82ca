/* Programs whose work is in step with the kernel's tick. Prints the CPU time that each of two functions used, in seconds.
 * usage: in_step paced HZ SECONDS | virtual SECONDS | timerfd SECONDS | audio SECONDS
 *   paced    one thread wakes up at multiples of 1/HZ s: paced() right then, loose() at a random time of the same period
 *   virtual  loose() all the time, interrupted every 10 ms of user time by SIGVTALRM, whose handler calls paced()
 *   timerfd  a thread calls paced() each time that a timer of 10 ms expires, another calls loose() all the time
 *   audio    the same for each buffer of 256 frames at 48 kHz, by clock_nanosleep(2) */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))

typedef unsigned long long nanoseconds;

static nanoseconds read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (nanoseconds)time.tv_sec * 1000000000 + (nanoseconds)time.tv_nsec;
}

static volatile unsigned long sink;

NOINLINE static void paced(unsigned long rounds) {
    for (unsigned long i = 0; i < rounds; i++) sink = sink * 5 + 3;
}

NOINLINE static void loose(unsigned long rounds) {
    for (unsigned long i = 0; i < rounds; i++) sink = sink * 7 + 1;
}

/* Rounds in a microsecond. */
static double speed;

static unsigned long rounds_in(double microseconds) { return (unsigned long)(microseconds * speed); }

static void measure_speed(void) {
    for (int attempt = 0; attempt < 5; attempt++) {
        const nanoseconds start = read_clock(CLOCK_THREAD_CPUTIME_ID);
        /* Not one of the two functions: it is no part of what is measured. */
        for (unsigned long i = 0; i < 2000000; i++) sink = sink * 5 + 3;
        const double now = 2e9 / (double)(read_clock(CLOCK_THREAD_CPUTIME_ID) - start);
        if (now > speed) speed = now;
    }
}

struct work {
    void (*function)(unsigned long);
    nanoseconds used;
};

static struct work in_step = {paced, 0}, at_random = {loose, 0};

static void do_work(struct work *work, unsigned long rounds) {
    const nanoseconds start = read_clock(CLOCK_THREAD_CPUTIME_ID);
    work->function(rounds);
    work->used += read_clock(CLOCK_THREAD_CPUTIME_ID) - start;
}

static void sleep_until(nanoseconds moment) {
    const struct timespec time = {(time_t)(moment / 1000000000), (long)(moment % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static atomic_int is_over;

static void run_paced(double frequency, nanoseconds end) {
    const double period = 1e9 / frequency;
    unsigned random = 1;
    nanoseconds next = read_clock(CLOCK_MONOTONIC);
    while (next < end) {
        next = (nanoseconds)(((double)(unsigned long)((double)next / period) + 1) * period + 0.5);
        sleep_until(next);
        do_work(&in_step, rounds_in(0.2 * period / 1000));
        /* It ends before the next wake-up. */
        const double late = 0.3 + 0.3 * rand_r(&random) / RAND_MAX;
        sleep_until(next + (nanoseconds)(late * period));
        do_work(&at_random, rounds_in(0.3 * period / 1000));
    }
}

static void on_alarm(int number) {
    (void)number;
    do_work(&in_step, rounds_in(4500));
}

static void run_virtual(nanoseconds end) {
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    const struct itimerval every = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
    sigaction(SIGVTALRM, &action, NULL);
    setitimer(ITIMER_VIRTUAL, &every, NULL);
    const nanoseconds start = read_clock(CLOCK_THREAD_CPUTIME_ID);
    while (read_clock(CLOCK_MONOTONIC) < end) loose(rounds_in(100));
    setitimer(ITIMER_VIRTUAL, &none, NULL);
    at_random.used = read_clock(CLOCK_THREAD_CPUTIME_ID) - start - in_step.used;
}

static void *wait_for_timer(void *unused) {
    const struct itimerspec every = {{0, 10000000}, {0, 10000000}};
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    timerfd_settime(timer, 0, &every, NULL);
    uint64_t expirations;
    while (!atomic_load(&is_over) && read(timer, &expirations, sizeof expirations) > 0) do_work(&in_step, rounds_in(300));
    close(timer);
    return unused;
}

static void *play(void *unused) {
    const double period = 1e9 * 256 / 48000;
    nanoseconds start = read_clock(CLOCK_MONOTONIC);
    for (unsigned long buffer = 1; !atomic_load(&is_over); buffer++) {
        sleep_until(start + (nanoseconds)((double)buffer * period));
        do_work(&in_step, rounds_in(600));
    }
    return unused;
}

static void run_beside(void *(*thread)(void *), nanoseconds end) {
    pthread_t other;
    if (pthread_create(&other, NULL, thread, NULL) != 0) exit(90);
    while (read_clock(CLOCK_MONOTONIC) < end) do_work(&at_random, rounds_in(200));
    atomic_store(&is_over, 1);
    pthread_join(other, NULL);
}

int main(int argc, char **argv) {
    if (argc < 3) return 91;
    measure_speed();
    const nanoseconds end = read_clock(CLOCK_MONOTONIC) + (nanoseconds)(atof(argv[argc - 1]) * 1e9);
    if (strcmp(argv[1], "paced") == 0 && argc == 4) run_paced(atof(argv[2]), end);
    else if (strcmp(argv[1], "virtual") == 0) run_virtual(end);
    else if (strcmp(argv[1], "timerfd") == 0) run_beside(wait_for_timer, end);
    else if (strcmp(argv[1], "audio") == 0) run_beside(play, end);
    else return 92;
    printf("paced %.6f\nloose %.6f\n", (double)in_step.used / 1e9, (double)at_random.used / 1e9);
    return 0;
}
