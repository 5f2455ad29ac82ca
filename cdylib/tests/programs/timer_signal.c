/* A program whose ticks have another signal than their timer's own.
 *
 *   timer_signal SIGNAL ORDER...
 *
 *   computes          uses some CPU time, in a function of this name
 *   until-sampled     the same until it has been sampled
 *   ends              ends at once
 *   in-use            has handled the signal before it starts its profiler, into the file `prof`
 *   serves            handles the signal from some moment on, and is sent it
 *   keeps-prof        uses SIGPROF and ITIMER_PROF for itself
 *   ignores           ignores the signal, and is sent it
 *   queues            is sent the signal often while it blocks it, and fails to become another program
 *   wakes             sends the signal to a thread that waits for it
 *   files             has a file send it the signal */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

static volatile sig_atomic_t served, told, alarms;
static void serve(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    served += info->si_code == SI_USER || info->si_code == SI_TKILL;
    told += info->si_code == POLL_IN;
}

static atomic_int goes_on;
static void *waits_for(void *set) {
    int number = 0;
    while (!goes_on) sched_yield();
    CHECK(sigwait(set, &number) == 0);
    return (void *)(long)number;
}
static void on_prof(int number) { alarms += number == SIGPROF; }

static double used(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int gathered(void) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

static __attribute__((noinline)) void computes(double seconds) {
    volatile unsigned long work = 0;
    for (const double end = used() + seconds; used() < end;) {
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
    }
}

/* Until ticks have come. */
static __attribute__((noinline)) void computes_until_sampled(int samples) {
    for (const int goal = gathered() + samples; gathered() < goal;) computes(0.01);
}

/* What the kernel has for a signal, whatever the library says. */
static unsigned long kernel_handler(int number) {
    unsigned long action[8] = {0};
    CHECK(syscall(SYS_rt_sigaction, number, NULL, action, 8) == 0);
    return action[0];
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const double used_before = used();
    const int number = atoi(argv[1]);
    const char *order = argv[2];
    struct sigaction action = {.sa_sigaction = serve, .sa_flags = SA_SIGINFO}, old;
    if (strcmp(order, "in-use") == 0) {
        CHECK(sigaction(number, &action, NULL) == 0);
        CHECK(ProfilerStart("prof"));
        computes_until_sampled(20);
        CHECK(kill(getpid(), number) == 0 && served == 1);
        ProfilerStop();
    } else if (strcmp(order, "ends") == 0) {
        return 0;
    } else if (strcmp(order, "computes") == 0 || strcmp(order, "until-sampled") == 0) {
        if (order[0] == 'c') {
            computes(1);
        } else {
            computes_until_sampled(20);
        }
        CHECK(kernel_handler(SIGPROF) == (unsigned long)SIG_DFL && kernel_handler(SIGALRM) == (unsigned long)SIG_DFL);
        /* The library tells its application of no handler but the application's own. */
        CHECK(sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
        CHECK(kernel_handler(number) != (unsigned long)SIG_DFL);
    } else if (strcmp(order, "serves") == 0) {
        computes_until_sampled(20);
        CHECK(sigaction(number, &action, &old) == 0 && old.sa_handler == SIG_DFL);
        for (int i = 1; i <= 100; i++) {
            CHECK(kill(getpid(), number) == 0);
            while (served < i) computes(0.001);
        }
        computes_until_sampled(20);
        CHECK(served == 100);
        CHECK(sigaction(number, NULL, &old) == 0 && old.sa_sigaction == serve);
    } else if (strcmp(order, "ignores") == 0) {
        CHECK(signal(number, SIG_IGN) == SIG_DFL);
        const int before = gathered();
        for (int i = 0; i < 10; i++) CHECK(kill(getpid(), number) == 0);
        computes_until_sampled(20);
        CHECK(gathered() - before >= 20 && signal(number, SIG_DFL) == SIG_IGN);
    } else if (strcmp(order, "queues") == 0) {
        computes_until_sampled(20);
        sigset_t set;
        sigemptyset(&set), sigaddset(&set, number);
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        for (int i = 0; i < 12; i++) CHECK(sigqueue(getpid(), number, (union sigval){.sival_int = i}) == 0);
        /* Ticks of each kind become pending, too: of events more than those after which an application that waits has no more. */
        computes(0.2);
        execl("/nowhere/to/be/found", "found", (char *)NULL);
        for (int i = 0; i < 12; i++) {
            siginfo_t info;
            CHECK(sigwaitinfo(&set, &info) == number && info.si_value.sival_int == i);
        }
        CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
        computes_until_sampled(20);
    } else if (strcmp(order, "wakes") == 0) {
        sigset_t set;
        sigemptyset(&set), sigaddset(&set, number);
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, waits_for, &set) == 0);
        CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
        /* Long enough for a tick of elapsed time to be pending for the other one. */
        computes_until_sampled(20);
        CHECK(pthread_kill(thread, number) == 0);
        goes_on = 1;
        void *result;
        CHECK(pthread_join(thread, &result) == 0 && (long)result == number);
    } else if (strcmp(order, "files") == 0) {
        computes_until_sampled(20);
        CHECK(sigaction(number, &action, &old) == 0);
        int ends[2];
        CHECK(pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getpid()) == 0);
        CHECK(fcntl(ends[0], F_SETSIG, number) == 0 && fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
        for (int i = 1; i <= 5; i++) {
            char byte;
            CHECK(write(ends[1], "x", 1) == 1);
            while (told < i) computes(0.001);
            CHECK(read(ends[0], &byte, 1) == 1);
        }
        computes_until_sampled(20);
    } else if (strcmp(order, "keeps-prof") == 0) {
        struct itimerval timer = {{0, 20000}, {0, 20000}}, present;
        CHECK(signal(SIGPROF, on_prof) == SIG_DFL && setitimer(ITIMER_PROF, &timer, NULL) == 0);
        while (alarms < 20) computes(0.005);
        CHECK(getitimer(ITIMER_PROF, &present) == 0 && present.it_interval.tv_usec == 20000);
        computes_until_sampled(20);
    } else {
        CHECK(!"a known order");
    }
    /* What was used before the tick that is waited for here has been told. */
    double told_until = 0;
    if (ProfilingIsEnabledForAllThreads()) {
        int before;
        do {
            told_until = used();
            before = gathered();
            computes(0.0001);
        } while (gathered() == before);
    }
    struct timespec end, of_this;
    clock_gettime(CLOCK_MONOTONIC, &end);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &of_this);
    printf("told_until %.6f\nothers %.6f\n", told_until, used() - (double)of_this.tv_sec - (double)of_this.tv_nsec / 1e9);
    printf("all %.6f\nelapsed %.6f\n", used() - used_before, (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    return 0;
}
