/* Programs that fork. usage: forks CASE [DIRECTORY]
 * Run them with CPUPROFILE_FREQUENCY=1 where they use little CPU time: the only ticks are then those that they send
 * themselves. What the tests must know of children is printed: "NAME PID" lines. Children end by exit. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

static const char *directory;

static const char *file(const char *name) {
    static char paths[2][1500];
    static int next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void tick(int count) {
    for (int i = 0; i < count; i++) CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF) == 0);
}

static struct ProfilerState state_now(void) {
    struct ProfilerState state;
    memset(&state, 0, sizeof state);
    if (ProfilerGetCurrentState) ProfilerGetCurrentState(&state);
    return state;
}

/* The ticks recorded since the process began; -1 where the library does not say. It writes the address of its counter
 * behind the name's NUL. */
static int live_ticks(void) {
    const struct ProfilerState state = state_now();
    volatile int *counter;
    memcpy(&counter, state.profile_name + strlen(state.profile_name) + 1, sizeof counter);
    return counter == NULL ? -1 : *counter;
}

static int profiling_timer_is_armed(void) {
    struct itimerval setting;
    /* By system call: the library tells a program of the program's own timer alone. */
    CHECK(syscall(SYS_getitimer, ITIMER_PROF, &setting) == 0);
    return setting.it_interval.tv_sec != 0 || setting.it_interval.tv_usec != 0;
}

static void compute(void) {
    volatile unsigned long work = 0;
    for (int i = 0; i < 100000; i++) work = work * 3 + 1;
}

static long long cpu_micros(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

static void expect_end(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) dprintf(2, "a child was ended by signal %d\n", WTERMSIG(status));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Runs `work` in a forked child, which then ends by exit, and waits for it. */
static pid_t in_child(void (*work)(void)) {
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work();
        exit(0);
    }
    expect_end(child);
    return child;
}

static void one_tick(void) { tick(1); }
static void three_ticks(void) { tick(3); }
static void nothing(void) {}

/* Children and what they come from. */

static void grandchild(void) { printf("grandchild %d\n", (int)in_child(one_tick)); }

static void three_generations_below(void) {
    tick(2);
    grandchild();
    tick(1);
}

static void generations(void) {
    tick(5);
    printf("child %d\n", (int)in_child(three_generations_below));
    tick(4);
}

static void child_without_samples(void) {
    tick(5);
    printf("child %d\n", (int)in_child(nothing));
    tick(4);
}

static void another_directory(void) {
    tick(5);
    CHECK(chdir("/") == 0);
    printf("child %d\n", (int)in_child(three_ticks));
    tick(4);
}

static void unfollowed_child(void) {
    CHECK(!profiling_timer_is_armed());
    tick(3);
    CHECK(state_now().enabled == 0);
    ProfilerFlush();
    ProfilerStop();
}

static void unfollowed(void) {
    tick(5);
    in_child(unfollowed_child);
    CHECK(profiling_timer_is_armed());
    tick(4);
}

static void child_starts_its_own(void) {
    unfollowed_child();
    CHECK(ProfilerStart(file("own")) != 0);
    tick(2);
    ProfilerStop();
}

/* Started by the program itself, linked or preloaded. */
static void started_by_calls(void) {
    CHECK(ProfilerStart(file("prof")) != 0);
    tick(5);
    in_child(child_starts_its_own);
    CHECK(state_now().enabled != 0);
    tick(4);
    ProfilerStop();
}

static void child_uses_the_interface(void) {
    CHECK(state_now().enabled != 0 && state_now().samples_gathered == 0);
    tick(3);
    CHECK(ProfilerStart(file("refused")) == 0);
    ProfilerFlush();
    CHECK(state_now().samples_gathered == 3);
    tick(1);
    ProfilerStop();
    CHECK(state_now().enabled == 0);
    CHECK(ProfilerStart(file("own")) != 0);
    tick(2);
}

static void interface_in_child(void) {
    tick(5);
    printf("child %d\n", (int)in_child(child_uses_the_interface));
    tick(4);
}

static double cpu_seconds(void) {
    struct timespec time;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Burns half a second, and until a tick has come. It tells what it used from its first line to its last, and what it had used
 * before that tick. */
static void burn_for_the_profile(void) {
    const double began = cpu_seconds();
    while (cpu_seconds() - began < 0.5) compute();
    double told_until;
    int before;
    do {
        told_until = cpu_seconds();
        before = state_now().samples_gathered;
        compute();
    } while (state_now().samples_gathered == before);
    printf("burnt %.6f\ntold_until %.6f\n", cpu_seconds() - began, told_until);
}

/* The parent has used time of its own before, which is none of the child's. It tells all that the child had used in the end. */
static void child_burns(void) {
    while (cpu_micros() < 300000) compute();
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        burn_for_the_profile();
        exit(0);
    }
    int status = 0;
    struct rusage usage;
    CHECK(wait4(child, &status, 0, &usage) == child && status == 0);
    printf("child %d\nended %.6f\n", (int)child,
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

/* Children that no hook is told of. */

/* A child that is not the parent's process has no part in the parent's profile: its ticks are not counted, in what is
 * its own copy of the counter. */
static void be_no_part_of_the_profile(void) {
    const int before = live_ticks();
    tick(3);
    /* A timer of its own, whose signal comes from the kernel, as the profiler's does. */
    const struct itimerval often = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
    CHECK(syscall(SYS_setitimer, ITIMER_PROF, &often, NULL) == 0);
    while (cpu_micros() < 50000) compute();
    const struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(syscall(SYS_setitimer, ITIMER_PROF, &never, NULL) == 0);
    CHECK(live_ticks() == before);
    CHECK(state_now().enabled == 0);
    ProfilerFlush();
    ProfilerStop();
}

static pid_t raw_clone(unsigned long flags) {
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
#endif
}

static void run_copy(pid_t child) {
    CHECK(child >= 0);
    if (child == 0) {
        be_no_part_of_the_profile();
        exit(0);
    }
    expect_end(child);
}

static void copies(void) {
    tick(5);
    run_copy(_Fork());
    tick(1);
    run_copy(raw_clone(0));
    tick(3);
    CHECK(profiling_timer_is_armed());
}

static volatile int shared_ended;

static int share_memory(void *unused) {
    (void)unused;
    tick(3);
    shared_ended = 1;
    return 0;
}

/* Children that share the parent's memory may tick; the parent goes on as if nothing were. */
static void sharers(void) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    tick(5);
    const pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF);
        _exit(0);
    }
    expect_end(child);
    const pid_t sharer = clone(share_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    CHECK(sharer >= 0);
    expect_end(sharer);
    CHECK(shared_ended);
    CHECK(profiling_timer_is_armed() && state_now().enabled != 0);
    tick(4);
}

/* The first process of a namespace makes the first process of another one: both are number 1. */
static void same_id(void) {
    CHECK(getpid() == 1);
    tick(5);
    const pid_t child = raw_clone(CLONE_NEWPID);
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(getpid() == 1);
        be_no_part_of_the_profile();
        exit(0);
    }
    expect_end(child);
    CHECK(access(file("prof"), F_OK) != 0);
    tick(4);
}

/* Forks in odd places. */

static volatile int forked;

static void fork_with_one_tick(void) {
    printf("child %d\n", (int)in_child(one_tick));
    fflush(stdout);
    forked = forked + 1;
}

static void fork_here(int number) {
    (void)number;
    fork_with_one_tick();
}

static void in_signal_handler(void) {
    CHECK(signal(SIGUSR1, fork_here) == SIG_DFL);
    tick(2);
    CHECK(raise(SIGUSR1) == 0);
    tick(2);
    CHECK(forked == 1);
}

static void child_with_own_handler(int number) {
    (void)number;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(signal(SIGPROF, SIG_IGN) == child_with_own_handler);
        exit(0);
    }
    expect_end(child);
    forked = forked + 1;
}

static void in_own_profiling_handler(void) {
    CHECK(signal(SIGPROF, child_with_own_handler) == SIG_DFL);
    tick(5);
    CHECK(forked == 5);
}

static void fork_at_exit(void) {
    tick(2);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Goes on with what is left of exit. */
        tick(3);
        return;
    }
    expect_end(child);
    printf("child %d\n", (int)child);
    tick(2);
}

static void at_exit(void) {
    tick(1);
    CHECK(atexit(fork_at_exit) == 0);
}

/* Hooks of the program's own, registered before any library's: they run between the library's hooks and the fork. */

static volatile int hook_calls;
/* What the hooks do beside. */
static int hooks_fork, in_hook_of_fork;

static void use_the_interface_in_hook(void) {
    if (!ProfilerGetCurrentState) return;
    hook_calls = hook_calls + 1;
    state_now();
    ProfilerFlush();
}

static void in_hook_before(void) {
    use_the_interface_in_hook();
    if (hooks_fork && !in_hook_of_fork) {
        in_hook_of_fork = 1;
        fork_with_one_tick();
        in_hook_of_fork = 0;
    }
}

static void register_hooks(int argc, char **argv, char **environment) {
    (void)environment;
    if (argc < 2 || strncmp(argv[1], "hooks", strlen("hooks")) != 0) return;
    hooks_fork = strcmp(argv[1], "hooks-that-fork") == 0;
    CHECK(pthread_atfork(in_hook_before, use_the_interface_in_hook, use_the_interface_in_hook) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(int, char **, char **) =
    register_hooks;

static void hooks(void) {
    tick(5);
    printf("child %d\n", (int)in_child(three_ticks));
    tick(4);
    /* Before, in the parent, and, in its own memory, in the child. */
    CHECK(hook_calls >= 2);
}

static void child_hook_starts(void) {
    if (ProfilerStart) CHECK(ProfilerStart(file("own")) != 0);
}

/* No session in the parent; a child hook that runs before the library's starts one. */
static void started_in_hook(void) {
    printf("child %d\n", (int)in_child(three_ticks));
}

static void register_starting_hook(int argc, char **argv, char **environment) {
    (void)environment;
    if (argc < 3 || strcmp(argv[1], "started-in-hook") != 0) return;
    directory = argv[2];
    CHECK(pthread_atfork(NULL, NULL, child_hook_starts) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries_too)(int, char **, char **) =
    register_starting_hook;

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"generations", generations},
    {"child-without-samples", child_without_samples},
    {"another-directory", another_directory},
    {"unfollowed", unfollowed},
    {"started-by-calls", started_by_calls},
    {"interface-in-child", interface_in_child},
    {"child-burns", child_burns},
    {"copies", copies},
    {"sharers", sharers},
    {"same-id", same_id},
    {"in-signal-handler", in_signal_handler},
    {"in-own-profiling-handler", in_own_profiling_handler},
    {"at-exit", at_exit},
    {"hooks", hooks},
    {"hooks-that-fork", hooks},
    {"started-in-hook", started_in_hook},
};

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    if (argc > 2) directory = argv[2];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    CHECK(!"a known case");
}
