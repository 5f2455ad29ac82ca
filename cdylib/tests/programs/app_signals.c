/* An application that blocks, ignores, waits for and reads SIGPROF, under the preloaded library with profiling on.
 * usage: app_signals CASE [OPERAND] */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "profiled_app.h"

static const char *itself;
static atomic_int over;

static sigset_t only(int number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

static sigset_t only_prof(void) { return only(SIGPROF); }

static void block_prof(void) {
    const sigset_t set = only_prof();
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

static void *burn_until_over(void *unused) {
    while (!over) compute();
    return unused;
}

static pthread_t start_thread(void *(*run)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    return thread;
}

static volatile sig_atomic_t interruptions;

static void interrupt(int number) {
    (void)number;
    interruptions = interruptions + 1;
}

static pthread_t waiting_thread;
static int is_interrupting;

/* Computes for long enough that many ticks have come, sends one signal, and so on. */
static void *send_now_and_then(void *unused) {
    const union sigval value = {.sival_int = 42};
    for (int i = 0; i < 5; i++) {
        const double end = cpu_seconds() + 0.1;
        while (cpu_seconds() < end) compute();
        if (is_interrupting) CHECK(pthread_kill(waiting_thread, SIGUSR1) == 0);
        while (is_interrupting && interruptions <= i) compute();
        /* The kernel drops a signal that is sent while a tick is pending for the process. So the signal is sent again if it
         * does not arrive. */
        for (double again = 0; over <= i; compute()) {
            if (cpu_seconds() < again) continue;
            CHECK(sigqueue(getpid(), SIGPROF, value) == 0);
            again = cpu_seconds() + 2;
        }
    }
    return unused;
}

static void waits(int with_information) {
    const sigset_t set = only_prof();
    /* sigwait goes on when it is interrupted. */
    is_interrupting = !with_information;
    waiting_thread = pthread_self();
    CHECK(signal(SIGUSR1, interrupt) == SIG_DFL);
    block_prof();
    double last = cpu_seconds();
    const pthread_t sender = start_thread(send_now_and_then);
    for (int i = 0; i < 5; i++) {
        siginfo_t information;
        int number = 0;
        if (with_information) {
            CHECK(sigwaitinfo(&set, &information) == SIGPROF);
            CHECK(information.si_code == SI_QUEUE && information.si_value.sival_int == 42);
            CHECK(information.si_pid == getpid());
        } else {
            CHECK(sigwait(&set, &number) == 0 && number == SIGPROF);
        }
        /* Before that time nobody has sent anything. */
        const double now = cpu_seconds();
        CHECK(now - last > 0.09);
        last = now;
        over = i + 1;
    }
    CHECK(pthread_join(sender, NULL) == 0);
}

static void sigwait_case(void) { waits(0); }
static void sigwaitinfo_case(void) { waits(1); }

static void *wait_in_vain(void *unused) {
    const sigset_t set = only_prof();
    const struct timespec patience = {.tv_nsec = 300000000};
    /* The kernel says EINTR where it has woken this thread for a signal that another one then took: here for those that are sent
     * below. */
    do CHECK(sigtimedwait(&set, NULL, &patience) == -1 && (errno == EAGAIN || errno == EINTR));
    while (errno == EINTR);
    over = 1;
    return unused;
}

/* Sends a thread that waits what the profiler's timer would, often while it waits; and is ticked itself now and then, so that
 * ticks do not end. The number of signals is fixed: the thread waits anew after each one that disturbs it. */
static void sigtimedwait_among_ticks(void) {
    const struct timespec briefly = {.tv_nsec = 1000000};
    const sigset_t set = only_prof();
    siginfo_t tick;
    memset(&tick, 0, sizeof tick);
    tick.si_signo = SIGPROF;
    tick.si_code = SI_KERNEL;
    block_prof();
    const pthread_t waiting = start_thread(wait_in_vain);
    for (int i = 0; i < 300 && !over; i++) {
        CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGPROF, &tick) == 0);
        nanosleep(&briefly, NULL);
        CHECK(raise(SIGPROF) == 0);
        CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
        block_prof();
    }
    CHECK(pthread_join(waiting, NULL) == 0);
    over = 0;
}

static void sigtimedwait_case(void) {
    const sigset_t set = only_prof();
    const struct timespec patience = {.tv_nsec = 300000000}, none = {0, 0}, bad = {.tv_nsec = -1};
    siginfo_t information;
    struct timespec start, end;
    sigtimedwait_among_ticks();
    block_prof();
    const pthread_t burner = start_thread(burn_until_over);
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(sigtimedwait(&set, &information, &patience) == -1 && errno == EAGAIN);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK((double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9 >= 0.3);
    CHECK(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
    CHECK(sigtimedwait(&set, NULL, &bad) == -1 && errno == EINVAL);
    CHECK(raise(SIGPROF) == 0);
    CHECK(sigtimedwait(&set, &information, NULL) == SIGPROF && information.si_signo == SIGPROF);
    over = 1;
    CHECK(pthread_join(burner, NULL) == 0);
}

static atomic_int is_waiting, was_cleaned_up;

static void clean_up(void *unused) {
    (void)unused;
    was_cleaned_up = 1;
}

static void *wait_for_ever(void *unused) {
    const sigset_t set = only_prof();
    int number;
    pthread_cleanup_push(clean_up, unused);
    is_waiting = 1;
    for (;;) sigwait(&set, &number);
    pthread_cleanup_pop(0);
    return unused;
}

static void cancelled_sigwait(void) {
    void *result;
    block_prof();
    const pthread_t waiting = start_thread(wait_for_ever);
    const double end = cpu_seconds() + 0.2;
    while (cpu_seconds() < end || !is_waiting) compute();
    CHECK(pthread_cancel(waiting) == 0);
    CHECK(pthread_join(waiting, &result) == 0 && result == PTHREAD_CANCELED && was_cleaned_up);
}

static void signalfd_case(void) {
    const sigset_t set = only_prof();
    struct signalfd_siginfo information;
    block_prof();
    const int descriptor = signalfd(-1, &set, SFD_NONBLOCK);
    CHECK(descriptor >= 0);
    for (int i = 0; i < 3; i++) {
        const double end = cpu_seconds() + 0.1;
        while (cpu_seconds() < end) compute();
        CHECK(read(descriptor, &information, sizeof information) == -1 && errno == EAGAIN);
        CHECK(kill(getpid(), SIGPROF) == 0);
        CHECK(read(descriptor, &information, sizeof information) == sizeof information);
        CHECK(information.ssi_signo == SIGPROF && information.ssi_code == SI_USER);
    }
}

static void *burn_a_while(void *unused) {
    const double end = cpu_seconds() + 0.2;
    while (cpu_seconds() < end) compute();
    return unused;
}

static void blocked(void) {
    block_prof();
    const pthread_t burner = start_thread(burn_a_while);
    burn_a_while(NULL);
    CHECK(pthread_join(burner, NULL) == 0);
}

static sigjmp_buf way_out;
static volatile sig_atomic_t jumps;

static void jump(int number) {
    (void)number;
    jumps = jumps + 1;
    /* Long enough to be ticked now and then. */
    compute();
    siglongjmp(way_out, 1);
}

static pid_t main_thread;

/* The other thread is hardly ever anywhere but in the profiler's handler. */
static void *storm_the_main_thread(void *unused) {
    while (!over) CHECK(syscall(SYS_tgkill, getpid(), main_thread, SIGPROF) == 0);
    return unused;
}

static void jump_away(void) {
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    main_thread = (pid_t)syscall(SYS_gettid);
    CHECK(signal(SIGALRM, jump) == SIG_DFL);
    const sigset_t alarm_set = only(SIGALRM);
    CHECK(pthread_sigmask(SIG_BLOCK, &alarm_set, NULL) == 0);
    const pthread_t stormer = start_thread(storm_the_main_thread);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm_set, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (jumps < 1500) {
        const sig_atomic_t before = jumps;
        if (sigsetjmp(way_out, 1) == 0) {
            while (jumps == before) compute();
            CHECK(!"reached");
        }
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        CHECK(sigismember(&mask, SIGALRM) == 0 && sigismember(&mask, SIGPROF) == 0);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    over = 1;
    CHECK(pthread_join(stormer, NULL) == 0);
    /* Each tick finds all that it needs. */
    burn_for_ticks(40);
}

static int pipe_ends[2];
static atomic_int stage;

static void *tick_the_main_thread(void *unused) {
    /* While the other is in each of its calls, until it has left that. */
    for (int call = 0; call < 3; call++) {
        while (stage != 2 * call + 1) sched_yield();
        /* The first one ends by what is written here, once it has been interrupted often enough. */
        for (int i = 0; stage == 2 * call + 1 && (call > 0 || i < 200 || samples_now() < 30); i++) {
            CHECK(syscall(SYS_tgkill, getpid(), main_thread, SIGPROF) == 0);
            const struct timespec briefly = {.tv_nsec = 1000000};
            nanosleep(&briefly, NULL);
        }
        if (call == 0) CHECK(write(pipe_ends[1], "x", 1) == 1);
    }
    return unused;
}

static void restarts(void) {
    char byte = 0;
    main_thread = (pid_t)syscall(SYS_gettid);
    CHECK(pipe(pipe_ends) == 0);
    const pthread_t ticker = start_thread(tick_the_main_thread);
    const int before = samples_now();
    stage = 1;
    CHECK(read(pipe_ends[0], &byte, 1) == 1 && byte == 'x');
    stage = 2;
    CHECK(samples_now() > before);
    struct pollfd readable = {.fd = pipe_ends[0], .events = POLLIN};
    stage = 3;
    CHECK(poll(&readable, 1, 60000) == -1 && errno == EINTR);
    stage = 4;
    struct timespec long_time = {.tv_sec = 60}, left = {0, 0};
    stage = 5;
    CHECK(nanosleep(&long_time, &left) == -1 && errno == EINTR && left.tv_sec > 0);
    stage = 6;
    CHECK(pthread_join(ticker, NULL) == 0);
}

static void replace(void) {
    char *const arguments[] = {(char *)itself, "after-exec", NULL};
    char *const environment[] = {NULL};
    execve(itself, arguments, environment);
    _exit(4);
}

static void expect_replaced(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void ignore(const char *way) {
    CHECK(signal(SIGPROF, SIG_IGN) == SIG_DFL);
    burn_for_ticks(3);
    if (strcmp(way, "missing") == 0) {
        char *const arguments[] = {"missing", NULL};
        CHECK(execv("/nowhere/at/all", arguments) == -1 && errno == ENOENT);
        struct sigaction action;
        CHECK(sigaction(SIGPROF, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
        burn_for_ticks(10);
        CHECK(signal(SIGPROF, SIG_DFL) == SIG_IGN);
        burn_for_ticks(10);
        return;
    }
    if (strcmp(way, "execve") == 0) {
        puts("done");
        fflush(stdout);
        replace();
    }
    const pid_t child = strcmp(way, "vfork-execve") == 0 ? vfork() : fork();
    if (child == 0) replace();
    expect_replaced(child);
    burn_for_ticks(3);
    CHECK(signal(SIGPROF, SIG_DFL) == SIG_IGN);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    itself = argv[0];
    const char *const name = argv[1];
    if (strcmp(name, "after-exec") == 0) {
        struct sigaction action;
        CHECK(sigaction(SIGPROF, NULL, &action) == 0);
        if (action.sa_handler != SIG_IGN) fprintf(stderr, "the next program does not ignore the signal\n");
        return action.sa_handler == SIG_IGN ? 0 : 1;
    }
    if (strcmp(name, "sigwait") == 0) sigwait_case();
    else if (strcmp(name, "sigwaitinfo") == 0) sigwaitinfo_case();
    else if (strcmp(name, "sigtimedwait") == 0) sigtimedwait_case();
    else if (strcmp(name, "cancelled-sigwait") == 0) cancelled_sigwait();
    else if (strcmp(name, "signalfd") == 0) signalfd_case();
    else if (strcmp(name, "blocked") == 0) blocked();
    else if (strcmp(name, "jumps") == 0) jump_away();
    else if (strcmp(name, "restarts") == 0) restarts();
    else if (strcmp(name, "ignore") == 0 && argc == 3) ignore(argv[2]);
    else CHECK(!"a known case");
    puts("done");
    return 0;
}
