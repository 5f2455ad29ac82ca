/* An application that uses timers which send SIGPROF or SIGALRM, profiled or not. usage: app_timers CASE [FILE]
 * The cases of the interface are linked with the library; the others are run with it preloaded and profiling on. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "profiled_app.h"

static const char *itself, *file;
static const struct itimerval never = {{0, 0}, {0, 0}};
static volatile sig_atomic_t calls, strange_calls, other_calls, queued_calls;

/* Computes until the handler was called, and ticks have come, so often more. */
static void burn(int more_calls, int more_samples) {
    const int call_goal = calls + more_calls, sample_goal = more_samples > 0 ? samples_now() + more_samples : 0;
    while (calls < call_goal || (more_samples > 0 && samples_now() < sample_goal)) compute();
}

static void on_timer(int number, siginfo_t *information, void *context) {
    CHECK(number == SIGPROF || number == SIGALRM);
    CHECK(context != NULL);
    if (information->si_code == SI_KERNEL) calls = calls + 1;
    else if (information->si_code == SI_TIMER && information->si_value.sival_int == 77) queued_calls = queued_calls + 1;
    else strange_calls = strange_calls + 1;
}

static void on_other(int number) {
    CHECK(number == SIGUSR1);
    other_calls = other_calls + 1;
}

static void handle(int number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_timer;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    CHECK(sigaction(number, &action, NULL) == 0);
}

static struct itimerval every(int micros) {
    const struct itimerval setting = {{0, micros}, {0, micros}};
    return setting;
}

static struct itimerval once(int micros) {
    const struct itimerval setting = {{0, 0}, {0, micros}};
    return setting;
}

static struct itimerval arm(const struct itimerval setting) {
    struct itimerval before;
    memset(&before, 0x5a, sizeof before);
    CHECK(setitimer(ITIMER_PROF, &setting, &before) == 0);
    return before;
}

static struct itimerval present(void) {
    struct itimerval setting;
    memset(&setting, 0x5a, sizeof setting);
    CHECK(getitimer(ITIMER_PROF, &setting) == 0);
    return setting;
}

static int is_unarmed(const struct itimerval setting) {
    return setting.it_value.tv_sec == 0 && setting.it_value.tv_usec == 0 && setting.it_interval.tv_sec == 0 &&
           setting.it_interval.tv_usec == 0;
}

static sigset_t only_prof(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    return set;
}

/* Blocks the signal, and computes until a tick is pending. */
static void hold_a_tick(void) {
    const sigset_t set = only_prof();
    sigset_t pending;
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    do {
        compute();
        CHECK(sigpending(&pending) == 0);
    } while (!sigismember(&pending, SIGPROF));
}

static void let_go(void) {
    const sigset_t set = only_prof();
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
}

static void keeps_its_timer(void) {
    handle(SIGPROF);
    CHECK(is_unarmed(present()));
    CHECK(is_unarmed(arm(never)));
    burn(0, 5);
    CHECK(calls == 0);
    CHECK(is_unarmed(arm(every(8000))));
    CHECK(present().it_interval.tv_usec == 8000);
    CHECK(present().it_value.tv_sec == 0 && present().it_value.tv_usec > 0);
    burn(20, 20);
    CHECK(arm(every(20000)).it_interval.tv_usec == 8000);
    burn(20, 5);
    CHECK(arm(never).it_interval.tv_usec == 20000);
    CHECK(is_unarmed(present()));
    const int before = calls;
    burn(0, 20);
    CHECK(calls == before && strange_calls == 0);
    CHECK(is_unarmed(arm(every(8000))));
    burn(5, 5);
    arm(never);
}

/* As often as it asked and no oftener, but for what the kernel's sampling of time makes of it. */
static void keeps_its_rate(void) {
    handle(SIGPROF);
    arm(every(20000));
    const double start = cpu_seconds();
    burn(20, 5);
    CHECK(cpu_seconds() - start > 0.6 * 20 * 0.02);
    arm(never);
}

static void fires_once(void) {
    const struct itimerval later = {{0, 0}, {1000, 0}};
    handle(SIGPROF);
    burn(0, 3);
    /* A tick that is pending from before is not the timer's signal. */
    hold_a_tick();
    CHECK(is_unarmed(arm(once(10000))));
    let_go();
    const int early_calls = calls;
    CHECK(early_calls == 0 || is_unarmed(present()));
    burn(1 - early_calls, 0);
    CHECK(is_unarmed(arm(later)));
    CHECK(present().it_interval.tv_usec == 0 && present().it_value.tv_sec > 0);
    CHECK(arm(once(30000)).it_value.tv_sec > 0);
    burn(1, 0);
    CHECK(is_unarmed(present()));
    burn(0, 40);
    CHECK(calls == 2 && strange_calls == 0);
}

/* Sends a signal as ITIMER_PROF does. */
static void send_tick(void) {
    siginfo_t tick;
    memset(&tick, 0, sizeof tick);
    tick.si_signo = SIGPROF;
    tick.si_code = SI_KERNEL;
    CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGPROF, &tick) == 0);
}

/* A time that never comes, in front of many ticks; one of them was on its way when the timer was armed. */
static void waits_long(void) {
    handle(SIGPROF);
    for (int i = 0; i < 50; i++) {
        const struct itimerval later = {{0, 0}, {1000, 0}};
        CHECK(is_unarmed(arm(later)));
        send_tick();
        burn(0, 1);
        const struct itimerval before = arm(never);
        CHECK(before.it_value.tv_sec > 0 && before.it_value.tv_sec <= 1000);
    }
    CHECK(calls == 0 && strange_calls == 0);
}

static void dies(void) {
    arm(every(10000));
    puts("armed");
    fflush(stdout);
    for (;;) compute();
}

static void ignores(void) {
    CHECK(signal(SIGPROF, SIG_IGN) == SIG_DFL);
    arm(every(2000));
    burn(0, 40);
    arm(never);
}

/* Where a tick is pending the kernel drops the application's signal. */
static void blocks(void) {
    const sigset_t set = only_prof();
    const struct timespec none = {0, 0};
    handle(SIGPROF);
    arm(every(900000));
    for (int i = 1; i <= 5; i++) {
        calls = 0;
        hold_a_tick();
        arm(once(2000));
        while (present().it_value.tv_usec > 0) compute();
        if (i == 5) {
            /* The same for who waits for it; ticks come from here only. */
            siginfo_t information;
            while (sigtimedwait(&set, &information, &none) != SIGPROF) compute();
            CHECK(information.si_code == SI_KERNEL);
            let_go();
            CHECK(calls == 0);
        } else {
            let_go();
            burn(1 - calls, 0);
            CHECK(calls == 1);
        }
    }
}

static void *arm_while_one_is_pending(void *unused) {
    const sigset_t set = only_prof();
    const struct itimerval later = {{0, 0}, {10, 0}};
    const struct timespec none = {0, 0};
    sigset_t pending;
    siginfo_t information;
    CHECK(kill(getpid(), SIGPROF) == 0);
    CHECK(is_unarmed(arm(later)));
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGPROF));
    arm(never);
    CHECK(sigtimedwait(&set, &information, &none) == SIGPROF);
    CHECK(information.si_code == SI_USER && information.si_pid == getpid());
    return unused;
}

/* In a thread that is not the first one, whom the kernel does not let send everything. */
static void pending_stays_pending(void) {
    const sigset_t set = only_prof();
    pthread_t thread;
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, arm_while_one_is_pending, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static atomic_int over;

static void *burn_until_over(void *unused) {
    while (!over) compute();
    return unused;
}

static void wait_for_timer(const sigset_t *set) {
    siginfo_t information;
    CHECK(sigwaitinfo(set, &information) == SIGPROF && information.si_code == SI_KERNEL);
}

/* Each time the timer is armed once there is one signal. Nothing makes up for one that is taken for a tick. */
static void wait_for_single_signals(const sigset_t *set) {
    for (int i = 0; i < 3; i++) {
        arm(once(2000));
        wait_for_timer(set);
        CHECK(is_unarmed(present()));
    }
}

/* A thread that waits for the timer's signal, which all have blocked. */
static void waits_for_it(void) {
    const struct timespec none = {0, 0};
    const sigset_t set = only_prof();
    pthread_t burner;
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(pthread_create(&burner, NULL, burn_until_over, NULL) == 0);
    /* One signal, and no other behind it, while ticks still come. */
    arm(once(2000));
    wait_for_timer(&set);
    double start = cpu_seconds();
    while (cpu_seconds() - start < 0.06) CHECK(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
    start = cpu_seconds();
    arm(every(50000));
    for (int i = 0; i < 10; i++) wait_for_timer(&set);
    /* Ten intervals, but for what the kernel's sampling of time makes of them. */
    CHECK(cpu_seconds() - start > 0.3);
    arm(never);
    while (sigtimedwait(&set, NULL, &none) == SIGPROF) continue;
    /* By now ticks have ended. */
    wait_for_single_signals(&set);
    over = 1;
    CHECK(pthread_join(burner, NULL) == 0);
}

/* The same with ticks that this program sends, each some periods after the one before: so many that came to nothing end the
 * profiler's. */
static void takes_ticks(void) {
    const struct timespec none = {0, 0};
    const sigset_t set = only_prof();
    siginfo_t tick;
    memset(&tick, 0, sizeof tick);
    tick.si_signo = SIGPROF;
    tick.si_code = SI_KERNEL;
    pthread_t burner;
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    /* From the end of the profiler's ticks on, such a signal is the application's. */
    int is_ours = 0;
    for (int i = 0; i < 100 && !is_ours; i++) {
        const double next = cpu_seconds() + 0.003;
        while (cpu_seconds() < next) compute();
        CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGPROF, &tick) == 0);
        is_ours = sigtimedwait(&set, NULL, &none) == SIGPROF;
        CHECK(is_ours || errno == EAGAIN);
    }
    CHECK(is_ours);
    CHECK(pthread_create(&burner, NULL, burn_until_over, NULL) == 0);
    wait_for_single_signals(&set);
    over = 1;
    CHECK(pthread_join(burner, NULL) == 0);
}

static void bad_arguments(void) {
    struct itimerval setting = every(1000), old;
    for (int which = -1; which < 5; which++) {
        errno = 0;
        const int got = getitimer((__itimer_which_t)which, &old);
        printf("get %d: %d %s\n", which, got, strerrorname_np(errno));
    }
    setting.it_value.tv_usec = 1000000;
    errno = 0;
    int set = setitimer(ITIMER_PROF, &setting, &old);
    printf("too many microseconds: %d %s\n", set, strerrorname_np(errno));
    setting = every(1000);
    setting.it_interval.tv_sec = -1;
    errno = 0;
    set = setitimer(ITIMER_PROF, &setting, NULL);
    printf("a negative interval: %d %s\n", set, strerrorname_np(errno));
    errno = 0;
    set = setitimer((__itimer_which_t)3, &never, NULL);
    printf("no such timer: %d %s\n", set, strerrorname_np(errno));
    /* An interval alone arms nothing. */
    const struct itimerval interval_alone = {{0, 1000}, {0, 0}};
    set = setitimer(ITIMER_PROF, &interval_alone, &old);
    printf("an interval alone: %d, unarmed before: %d\n", set, is_unarmed(old));
    printf("value after it: %d\n", (int)present().it_value.tv_usec);
    set = setitimer(ITIMER_VIRTUAL, &setting, NULL);
    printf("another timer: %d\n", set);
}

static void armed_before_a_start(void) {
    const struct itimerval later = {{0, 8000}, {1, 0}};
    arm(later);
    CHECK(ProfilerStart(file) != 0);
    CHECK(present().it_interval.tv_usec == 8000);
    handle(SIGPROF);
    burn(20, 20);
    ProfilerStop();
    CHECK(present().it_interval.tv_usec == 8000);
    const int before = calls;
    burn(10, 0);
    CHECK(calls >= before + 10);
    /* Once more, beside a timer that is armed and served. */
    CHECK(strange_calls == 0);
    CHECK(arm(never).it_interval.tv_usec == 8000);
}

static void across_stop_and_start(void) {
    CHECK(ProfilerStart(file) != 0);
    handle(SIGPROF);
    arm(every(8000));
    burn(10, 10);
    ProfilerStop();
    CHECK(present().it_interval.tv_usec == 8000);
    burn(10, 0);
    CHECK(signal(SIGPROF, SIG_IGN) != SIG_ERR);
    CHECK(ProfilerStart(file) != 0);
    handle(SIGPROF);
    CHECK(present().it_interval.tv_usec == 8000);
    burn(10, 10);
    ProfilerStop();
    CHECK(strange_calls == 0 && arm(never).it_interval.tv_usec == 8000);
}

/* Stopped: a tick that was pending is not the application's. With a timer that it arms by a system call, the signal is. */
static void pending_tick_after_a_stop(void) {
    CHECK(ProfilerStart(file) != 0);
    handle(SIGPROF);
    burn(0, 3);
    ProfilerStop();
    send_tick();
    CHECK(calls == 0 && strange_calls == 0);
    const struct itimerval later = {{1000, 0}, {1000, 0}};
    CHECK(syscall(SYS_setitimer, ITIMER_PROF, &later, NULL) == 0);
    send_tick();
    CHECK(calls == 1 && strange_calls == 0);
    CHECK(syscall(SYS_setitimer, ITIMER_PROF, &never, NULL) == 0);
}

/* Stopped: no timer of the profiler's is left, and the application's ends the program as ever. */
static void dies_after_a_stop(void) {
    CHECK(ProfilerStart(file) != 0);
    burn(0, 3);
    ProfilerStop();
    dies();
}

static void child_has_none(void) {
    handle(SIGPROF);
    arm(every(8000));
    burn(5, 5);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int before = calls;
        CHECK(is_unarmed(present()));
        burn(0, 20);
        CHECK(calls == before && strange_calls == 0);
        CHECK(is_unarmed(arm(every(8000))));
        burn(5, 5);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    burn(5, 5);
    CHECK(strange_calls == 0);
    arm(never);
}

/* The timer that the application has armed is the next program's, and no other. */
static void next_program(int is_armed) {
    burn(0, 5);
    if (is_armed) {
        const struct itimerval later = {{20, 0}, {10, 0}};
        handle(SIGPROF);
        arm(every(4000));
        burn(5, 5);
        arm(later);
        char *const missing[] = {"missing", NULL};
        CHECK(execv("/nowhere/at/all", missing) == -1 && errno == ENOENT);
        CHECK(present().it_interval.tv_sec == 20);
        burn(0, 5);
    }
    char *const arguments[] = {(char *)itself, "after-exec", NULL}, *const environment[] = {NULL};
    execve(itself, arguments, environment);
    CHECK(!"reached");
}

static void after_exec(void) {
    const struct itimerval setting = present();
    printf("interval %d, value %s\n", (int)setting.it_interval.tv_sec, setting.it_value.tv_sec > 5 ? "near 10" : "none");
    const double end = cpu_seconds() + 0.2;
    while (cpu_seconds() < end) compute();
}

/* No more timers are to be had. */
static void without_a_second_timer(void) {
    const struct rlimit none = {0, 0};
    handle(SIGPROF);
    burn(0, 5);
    CHECK(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
    CHECK(is_unarmed(arm(every(8000))));
    const int before = samples_now();
    burn(20, 0);
    CHECK(arm(never).it_interval.tv_usec == 8000 && strange_calls == 0);
    CHECK(samples_now() == before);
}

/* Timers of timer_create, with the profiler's signal and with another. */
static void posix_timers(void) {
    struct sigevent event;
    struct itimerspec setting = {{0, 4000000}, {0, 4000000}}, left;
    timer_t first, second;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGPROF;
    event.sigev_value.sival_int = 77;
    handle(SIGPROF);
    CHECK(signal(SIGUSR1, on_other) == SIG_DFL);
    CHECK(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &first) == 0);
    event.sigev_signo = SIGUSR1;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &second) == 0);
    CHECK(timer_settime(first, 0, &setting, NULL) == 0 && timer_settime(second, 0, &setting, NULL) == 0);
    const int goal = samples_now() + 20;
    while (queued_calls < 20 || other_calls < 20 || samples_now() < goal) compute();
    CHECK(timer_gettime(first, &left) == 0 && left.it_interval.tv_nsec == 4000000);
    CHECK(timer_delete(first) == 0 && timer_delete(second) == 0);
    /* And all three at once. */
    arm(every(8000));
    burn(10, 10);
    CHECK(strange_calls == 0);
    arm(never);
}

static void alarms(void) {
    const struct itimerval often = every(8000);
    struct itimerval setting;
    handle(SIGALRM);
    CHECK(alarm(100000) == 0);
    burn(0, 20);
    CHECK(calls == 0);
    const unsigned left = alarm(1);
    CHECK(left > 0 && left <= 100000);
    burn(1, 0);
    CHECK(alarm(0) == 0);
    CHECK(ualarm(8000, 8000) == 0);
    burn(10, 10);
    CHECK(ualarm(0, 0) > 0);
    CHECK(getitimer(ITIMER_REAL, &setting) == 0 && is_unarmed(setting));
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    burn(10, 10);
    CHECK(setitimer(ITIMER_REAL, &never, &setting) == 0 && setting.it_interval.tv_usec == 8000);
    const int before = calls;
    burn(0, 20);
    CHECK(calls == before && strange_calls == 0);
}

static void dies_of_an_alarm(void) {
    alarm(1);
    puts("armed");
    fflush(stdout);
    for (;;) compute();
}

/* What no function of libc's shows. */
static void by_system_call(void) {
    burn(0, 5);
    CHECK(syscall(SYS_setitimer, ITIMER_PROF, &never, NULL) == 0);
}

/* What the counts stand for is the time that was used, whoever has which timer. */
static void adds_up(void) {
    handle(SIGPROF);
    /* Right behind a tick: what was used before it is told. */
    burn(0, 1);
    const double start = cpu_seconds();
    const int first = samples_now();
    for (int round = 0; round < 20; round++) {
        arm(every(3000 + 1000 * round));
        burn(3, 5);
        arm(never);
        burn(0, 5);
    }
    /* Right behind a tick nothing is owed but a half period. */
    burn(0, 1);
    const double used = cpu_seconds() - start, counted = (samples_now() - first) / 1000.0;
    if (used - counted > 0.03 || counted - used > 0.03) fprintf(stderr, "%f s used, %f s counted\n", used, counted);
    CHECK(used - counted <= 0.03 && counted - used <= 0.03);
}

static void next_program_of_armed(void) { next_program(1); }
static void next_program_of_unarmed(void) { next_program(0); }

static const struct test_case cases[] = {
    {"keeps-its-timer", keeps_its_timer},
    {"keeps-its-rate", keeps_its_rate},
    {"fires-once", fires_once},
    {"waits-long", waits_long},
    {"dies", dies},
    {"ignores", ignores},
    {"blocks", blocks},
    {"pending-stays-pending", pending_stays_pending},
    {"waits-for-it", waits_for_it},
    {"takes-ticks", takes_ticks},
    {"bad-arguments", bad_arguments},
    {"armed-before-a-start", armed_before_a_start},
    {"across-stop-and-start", across_stop_and_start},
    {"pending-tick-after-a-stop", pending_tick_after_a_stop},
    {"dies-after-a-stop", dies_after_a_stop},
    {"child-has-none", child_has_none},
    {"next-program-of-armed", next_program_of_armed},
    {"next-program-of-unarmed", next_program_of_unarmed},
    {"after-exec", after_exec},
    {"without-a-second-timer", without_a_second_timer},
    {"posix-timers", posix_timers},
    {"alarms", alarms},
    {"dies-of-an-alarm", dies_of_an_alarm},
    {"by-system-call", by_system_call},
    {"adds-up", adds_up},
};

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    itself = argv[0];
    file = argc > 2 ? argv[2] : NULL;
    run_case(cases, sizeof cases / sizeof cases[0], argv[1]);
    return 0;
}
