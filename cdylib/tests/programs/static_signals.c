/* A static program that calls what the library defines in libc's place. usage: static_signals FILE */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <gperftools/profiler.h>

#include "check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static volatile sig_atomic_t calls;

static void note(int number) {
    (void)number;
    calls = calls + 1;
}

static int samples_now(void) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

static void *wait_for_ever(void *unused) {
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    for (;;) sigwait(&set, &number);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    struct itimerval setting;
    sigset_t set;
    siginfo_t information;
    int number = 0;
    /* Before the profiler runs. */
    CHECK(signal(SIGUSR1, note) == SIG_DFL && sigset(SIGUSR1, note) == note && sysv_signal(SIGUSR1, note) == note);
    CHECK(raise(SIGUSR1) == 0 && calls == 1);
    CHECK(siginterrupt(SIGUSR1, 1) == 0 && sigignore(SIGUSR1) == 0 && raise(SIGUSR1) == 0 && calls == 1);
    CHECK(setitimer(ITIMER_PROF, &never, &setting) == 0 && getitimer(ITIMER_PROF, &setting) == 0);

    CHECK(ProfilerStart(argv[1]) != 0);
    CHECK(signal(SIGPROF, note) == SIG_DFL && ssignal(SIGPROF, note) == note);
    CHECK(setitimer(ITIMER_PROF, &often, &setting) == 0 && setting.it_interval.tv_usec == 0);
    CHECK(getitimer(ITIMER_PROF, &setting) == 0 && setting.it_interval.tv_usec == 2000);
    volatile unsigned long work = 0;
    while (calls < 10 || samples_now() < 20) work = work * 5 + 3;
    CHECK(setitimer(ITIMER_PROF, &never, &setting) == 0 && setting.it_interval.tv_usec == 2000);

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(raise(SIGUSR2) == 0 && sigwait(&set, &number) == 0 && number == SIGUSR2);
    CHECK(raise(SIGUSR2) == 0 && sigwaitinfo(&set, &information) == SIGUSR2);
    const int descriptor = signalfd(-1, &set, 0);
    struct signalfd_siginfo read_information;
    CHECK(descriptor >= 0 && raise(SIGUSR2) == 0);
    CHECK(read(descriptor, &read_information, sizeof read_information) == sizeof read_information);
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    ProfilerStop();
    puts("done");
    return 0;
}
