/* The program's own business with the profiling signal and other signals: settings, masks, waiting; and timers of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* The thread that counts its own ticks asks which of them came to a handler of the program's. */
static void count_signal(void) {
    struct progress *const me = mine;
    if (me != NULL && strcmp(me->name, "own ticks") == 0) ticks_diverted++;
}

static void on_profiling_signal(int signal) {
    (void)signal;
    const int before = errno;
    count_signal();
    errno = before;
}

static void on_profiling_signal_with_info(int signal, siginfo_t *info, void *context) {
    CHECK(signal == orders.signal && info->si_signo == orders.signal && context != NULL);
    on_profiling_signal(signal);
}

static int is_handled_in_kernel(int signal) {
    /* The kernel's structure begins with the handler. */
    uintptr_t action[8] = {0};
    CHECK(syscall(SYS_rt_sigaction, signal, NULL, action, sizeof(uint64_t)) == 0);
    return action[0] != (uintptr_t)SIG_DFL && action[0] != (uintptr_t)SIG_IGN;
}

/* Without a profiler the program has a handler itself: the signal's default action would end it. */
void prepare_masks(void) {
    struct sigaction action = {.sa_handler = on_profiling_signal, .sa_flags = SA_RESTART};
    if (orders.has_handler || !is_handled_in_kernel(orders.signal)) CHECK(sigaction(orders.signal, &action, NULL) == 0);
}

/* Three settings in turn, and each is told back; never the default action, which would end the program. */
static void set_handlers(unsigned long number) {
    struct sigaction action = {.sa_flags = SA_RESTART}, told;
    if (number % 3 == 0) {
        action.sa_sigaction = on_profiling_signal_with_info;
        action.sa_flags |= SA_SIGINFO;
    } else {
        action.sa_handler = number % 3 == 1 ? SIG_IGN : on_profiling_signal;
    }
    CHECK(sigaddset(&action.sa_mask, SIGUSR1) == 0 && sigaction(orders.signal, &action, NULL) == 0);
    CHECK(sigaction(orders.signal, NULL, &told) == 0);
    CHECK(told.sa_handler == action.sa_handler && sigismember(&told.sa_mask, SIGUSR1));
}

void round_of_masks(unsigned long number) {
    sigset_t set, before, now;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, orders.signal) == 0);
    step("block the profiling signal");
    CHECK(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, orders.signal));
    for (volatile int i = 0; i < 20000; i++) continue;
    sigset_t pending;
    CHECK(sigpending(&pending) == 0);
    if (number % 2 == 0) {
        step("wait for the profiling signal");
        siginfo_t info;
        const struct timespec soon = {0, 200000};
        const int signal = sigtimedwait(&set, &info, &soon);
        CHECK(signal == orders.signal || (signal == -1 && (errno == EAGAIN || errno == EINTR)));
    }
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, orders.signal));
    step("unblock the profiling signal");
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, orders.signal));
    step("the profiling signal's handler");
    if (orders.has_handler) {
        set_handlers(number);
    } else {
        struct sigaction told;
        CHECK(sigaction(orders.signal, NULL, &told) == 0);
    }
    rest(300);
}

static atomic_ulong virtual_signals;

static void on_virtual_alarm(int signal) {
    (void)signal;
    virtual_signals++;
}

static volatile sig_atomic_t cpu_signals;

static void on_cpu_time(int signal) {
    (void)signal;
    cpu_signals = cpu_signals + 1;
}

static void expect_cpu_timer(void) {
    struct sigaction action = {.sa_handler = on_cpu_time, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGRTMIN, &action, NULL) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    event.sigev_notify_thread_id = (pid_t)mine->thread;
    timer_t timer;
    CHECK(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0);
    const struct itimerspec interval = {{0, 1000000}, {0, 1000000}};
    const int before = cpu_signals;
    CHECK(timer_settime(timer, 0, &interval, NULL) == 0);
    while (cpu_signals - before < 2) continue;
    CHECK(timer_delete(timer) == 0);
}

void round_of_timers(unsigned long number) {
    if (number == 0) {
        struct sigaction action = {.sa_handler = on_virtual_alarm, .sa_flags = SA_RESTART};
        CHECK(sigaction(SIGVTALRM, &action, NULL) == 0);
        const struct itimerval interval = {{0, 10000}, {0, 10000}};
        CHECK(setitimer(ITIMER_VIRTUAL, &interval, NULL) == 0);
    }
    step("a timer of CPU time");
    expect_cpu_timer();
    step("a timer's descriptor");
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    const struct itimerspec once = {{0, 0}, {0, 1000000}};
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &once, NULL) == 0);
    uint64_t expirations = 0;
    CHECK(read(timer, &expirations, sizeof expirations) == sizeof expirations && expirations == 1);
    CHECK(close(timer) == 0);
    step("wait for a virtual alarm");
    const unsigned long before = virtual_signals;
    while (virtual_signals == before && !over) rest(1000);
}
