/* An application that has business of its own with SIGPROF. usage: signals CASE [FILE]
 * The API cases are linked with the library; the others are run with it preloaded and profiling on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiled_app.h"

static const char *file;

static volatile sig_atomic_t calls;
/* Volatile, since libc's headers let the compiler believe that raise and kill run no code of this file. */
static volatile siginfo_t last;
static volatile int context_given, prof_blocked, usr1_blocked, usr2_blocked;

static void plain_handler(int number) {
    CHECK(number == SIGPROF);
    calls = calls + 1;
}

static void other_handler(int number) { (void)number; }

static void full_handler(int number, siginfo_t *information, void *context) {
    CHECK(number == SIGPROF && information->si_signo == SIGPROF);
    calls = calls + 1;
    last = *information;
    context_given = context != NULL;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    prof_blocked = sigismember(&mask, SIGPROF);
    usr1_blocked = sigismember(&mask, SIGUSR1);
    usr2_blocked = sigismember(&mask, SIGUSR2);
}

static void install_full(int flags, int also_blocked) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = full_handler;
    action.sa_flags = SA_SIGINFO | flags;
    if (also_blocked != 0) sigaddset(&action.sa_mask, also_blocked);
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
}

static struct sigaction setting(void) {
    struct sigaction action;
    memset(&action, 0x5a, sizeof action);
    CHECK(sigaction(SIGPROF, NULL, &action) == 0);
    return action;
}

static void told_the_truth(void) {
    CHECK(setting().sa_handler == SIG_DFL);
    struct sigaction mine, old;
    memset(&mine, 0, sizeof mine);
    mine.sa_sigaction = full_handler;
    mine.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaddset(&mine.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGPROF, &mine, &old) == 0);
    CHECK(old.sa_handler == SIG_DFL);

    const struct sigaction now = setting();
    CHECK(now.sa_sigaction == full_handler);
    const int known_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | SA_ONSTACK | (int)SA_RESETHAND;
    CHECK((now.sa_flags & known_flags) == (SA_SIGINFO | SA_NODEFER));
    CHECK(sigismember(&now.sa_mask, SIGUSR1) == 1 && sigismember(&now.sa_mask, SIGUSR2) == 0);

    CHECK(signal(SIGPROF, plain_handler) == mine.sa_handler);
    CHECK(setting().sa_handler == plain_handler);
    CHECK((setting().sa_flags & SA_RESTART) != 0);
    CHECK(signal(SIGPROF, SIG_IGN) == plain_handler);
    CHECK(signal(SIGPROF, SIG_DFL) == SIG_IGN);
    CHECK(setting().sa_handler == SIG_DFL);
    burn_for_ticks(5);
}

static void bad_calls(void) {
    errno = 0;
    CHECK(sigaction(SIGKILL, &(struct sigaction){.sa_handler = plain_handler}, NULL) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(signal(4096, plain_handler) == SIG_ERR && errno == EINVAL);
    /* Another signal is none of the profiler's business. */
    CHECK(signal(SIGUSR1, other_handler) == SIG_DFL);
    CHECK(signal(SIGUSR1, SIG_DFL) == other_handler);
}

static void serves_the_app(void) {
    install_full(0, SIGUSR1);
    sigset_t before, after;
    sigprocmask(SIG_BLOCK, NULL, &before);
    const int samples = samples_now();

    CHECK(kill(getpid(), SIGPROF) == 0);
    CHECK(calls == 1 && context_given);
    CHECK(last.si_code == SI_USER && last.si_pid == getpid() && last.si_uid == getuid());
    CHECK(prof_blocked && usr1_blocked);

    CHECK(raise(SIGPROF) == 0);
    CHECK(calls == 2 && last.si_code == SI_TKILL);

    const union sigval value = {.sival_int = 42};
    CHECK(sigqueue(getpid(), SIGPROF, value) == 0);
    CHECK(calls == 3 && last.si_code == SI_QUEUE && last.si_value.sival_int == 42);

    sigprocmask(SIG_BLOCK, NULL, &after);
    for (int number = 1; number < 65; number++) CHECK(sigismember(&before, number) == sigismember(&after, number));
    /* What the application's handler takes is not a tick. The timer is silent for the first second. */
    CHECK(samples_now() == samples);
}

static void ticks_stay_ours(void) {
    install_full(0, 0);
    burn_for_ticks(20);
    CHECK(calls == 0);
    CHECK(raise(SIGPROF) == 0);
    CHECK(calls == 1);
    CHECK(signal(SIGPROF, plain_handler) != SIG_ERR);
    burn_for_ticks(20);
    CHECK(calls == 1);
}

static void ignored(void) {
    CHECK(signal(SIGPROF, SIG_IGN) == SIG_DFL);
    CHECK(raise(SIGPROF) == 0);
    CHECK(kill(getpid(), SIGPROF) == 0);
    CHECK(setting().sa_handler == SIG_IGN);
    burn_for_ticks(20);
}

static void once_only(void) {
    install_full((int)SA_RESETHAND, 0);
    burn_for_ticks(5);
    CHECK(setting().sa_sigaction == full_handler);
    CHECK(raise(SIGPROF) == 0);
    CHECK(calls == 1);
    CHECK(setting().sa_handler == SIG_DFL);
    puts("served once");
    fflush(stdout);
    /* The default action now, as the application asked for: the end. */
    raise(SIGPROF);
    CHECK(!"reached");
}

static sigjmp_buf out_of_the_handler;

static void jumping_handler(int number) {
    (void)number;
    calls = calls + 1;
    siglongjmp(out_of_the_handler, 1);
}

/* A handler of the application that never returns to ours. */
static void jumps_out(void) {
    CHECK(signal(SIGPROF, jumping_handler) == SIG_DFL);
    for (volatile int i = 0; i < 2000; i++)
        if (sigsetjmp(out_of_the_handler, 1) == 0) {
            raise(SIGPROF);
            CHECK(!"reached");
        }
    CHECK(calls == 2000);
    burn_for_ticks(20);
    CHECK(signal(SIGPROF, SIG_IGN) == jumping_handler);
    burn_for_ticks(20);
}

static void foreign_ticks(void) {
    const int samples = samples_now();
    CHECK(kill(getpid(), SIGPROF) == 0);
    CHECK(raise(SIGPROF) == 0);
    CHECK(samples_now() == samples + 2);
}

/* Blocked by the application: held back, then delivered once, as the kernel does. */
static void blocked(void) {
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    const int samples = samples_now();
    CHECK(kill(getpid(), SIGPROF) == 0 && kill(getpid(), SIGPROF) == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGPROF) == 1);
    CHECK(samples_now() == samples);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(samples_now() == samples + 1);
}

static void late_signal(void) {
    CHECK(ProfilerStart(file) != 0);
    CHECK(raise(SIGPROF) == 0);
    ProfilerStop();
    for (int i = 0; i < 100; i++) CHECK(raise(SIGPROF) == 0 && kill(getpid(), SIGPROF) == 0);
    CHECK(samples_now() == 0);
}

static void start_refused(void) {
    install_full(0, SIGUSR2);
    CHECK(ProfilerStart(file) == 0);
    CHECK(setting().sa_sigaction == full_handler);
    CHECK(raise(SIGPROF) == 0);
    CHECK(calls == 1 && usr2_blocked);
    /* Free again: now it starts. */
    CHECK(signal(SIGPROF, SIG_DFL) != SIG_ERR);
    CHECK(ProfilerStart(file) != 0);
    CHECK(raise(SIGPROF) == 0);
    CHECK(samples_now() == 1);
    ProfilerStop();
    CHECK(unlink(file) == 0);
}

/* Starts and stops in a row, ticking all the while: no signal finds the process without a handler. */
static void start_stop_storm(void) {
    for (int i = 0; i < 200; i++) {
        CHECK(ProfilerStart(file) != 0);
        CHECK(raise(SIGPROF) == 0);
        CHECK(samples_now() == 1);
        ProfilerStop();
        CHECK(raise(SIGPROF) == 0);
    }
}

static const struct test_case cases[] = {
    {"told-the-truth", told_the_truth},
    {"bad-calls", bad_calls},
    {"serves-the-app", serves_the_app},
    {"ticks-stay-ours", ticks_stay_ours},
    {"ignored", ignored},
    {"once-only", once_only},
    {"jumps-out", jumps_out},
    {"foreign-ticks", foreign_ticks},
    {"blocked", blocked},
    {"late-signal", late_signal},
    {"start-refused", start_refused},
    {"start-stop-storm", start_stop_storm},
};

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    file = argc > 2 ? argv[2] : NULL;
    run_case(cases, sizeof cases / sizeof cases[0], argv[1]);
    return 0;
}
