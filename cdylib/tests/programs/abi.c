/* The C interface, used from C11. usage: abi CASE DIRECTORY
 * Each case checks what it can see itself and prints what the test must compare with the files. Run it with
 * CPUPROFILE_FREQUENCY=1 and little CPU time, so that the only ticks are those that it sends itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gperftools/profiler.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ucontext.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"

#define NOINLINE __attribute__((noinline, noclone))

static const char *directory;

static const char *file(const char *name) {
    static char paths[4][1500];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static struct ProfilerState state_now(void) {
    struct ProfilerState state;
    memset(&state, 0x5a, sizeof state);
    ProfilerGetCurrentState(&state);
    return state;
}

/* The pointer to the live tick counter, which stands unaligned behind the name's NUL. */
static volatile int *tick_counter(const struct ProfilerState *state) {
    volatile int *counter;
    memcpy(&counter, state->profile_name + strlen(state->profile_name) + 1, sizeof counter);
    return counter;
}

static void ticks(int count) {
    for (int i = 0; i < count; i++) CHECK(raise(SIGPROF) == 0);
}

static void expect_off(void) {
    const struct ProfilerState state = state_now();
    CHECK(state.enabled == 0);
    CHECK(state.samples_gathered == 0);
    CHECK(state.profile_name[0] == '\0');
    CHECK(ProfilingIsEnabledForAllThreads() == 0);
}

static void expect_on(const char *name, int samples) {
    const struct ProfilerState state = state_now();
    CHECK(state.enabled != 0);
    CHECK(strcmp(state.profile_name, name) == 0);
    CHECK(state.samples_gathered == samples);
    CHECK(ProfilingIsEnabledForAllThreads() != 0);
}

static void lifecycle(void) {
    expect_off();
    /* Not `time`, whose clock goes on by the kernel's ticks: for some milliseconds of each second it is behind. */
    struct timespec before, after;
    CHECK(clock_gettime(CLOCK_REALTIME, &before) == 0 && ProfilerStart(file("prof")) != 0);
    const struct ProfilerState state = state_now();
    CHECK(clock_gettime(CLOCK_REALTIME, &after) == 0);
    CHECK(state.start_time >= before.tv_sec && state.start_time <= after.tv_sec);
    expect_on(file("prof"), 0);
    ticks(5);
    expect_on(file("prof"), 5);
    ProfilerStop();
    expect_off();
}

/* Functions that do nothing, or nothing while profiling is off. */
static void idle_calls(void) {
    ProfilerStop();
    ProfilerFlush();
    ProfilerEnable();
    ProfilerDisable();
    expect_off();
    CHECK(ProfilerStart(file("prof")) != 0);
    ProfilerEnable();
    ticks(2);
    ProfilerDisable();
    ticks(2);
    expect_on(file("prof"), 4);
    ProfilerStop();
    ProfilerStop();
    ProfilerRegisterThread();
    expect_off();
}

/* A thread's own timer expires for the first time at random: ticks of its own may come at any moment. */
static void registered_thread(void) {
    CHECK(ProfilerStart(file("prof")) != 0);
    ProfilerRegisterThread();
    ProfilerRegisterThread();
    ticks(4);
    CHECK(ProfilingIsEnabledForAllThreads() != 0 && state_now().samples_gathered >= 4);
    ProfilerStop();
    expect_off();
}

static void refused_starts(void) {
    CHECK(ProfilerStart(NULL) == 0);
    CHECK(ProfilerStart("") == 0);
    CHECK(ProfilerStart("/nonexistent-directory/prof") == 0);
    CHECK(ProfilerStart(directory) == 0);
    CHECK(ProfilerStartWithOptions(NULL, NULL) == 0);
    expect_off();
    CHECK(ProfilerStart(file("prof")) != 0);
    ticks(3);
    CHECK(ProfilerStart(file("second")) == 0);
    CHECK(ProfilerStart(file("prof")) == 0);
    CHECK(ProfilerStart(NULL) == 0);
    expect_on(file("prof"), 3);
    ticks(1);
    ProfilerStop();
}

static void live_counter(void) {
    const struct ProfilerState off = state_now();
    CHECK(off.profile_name[0] == '\0' && tick_counter(&off) != NULL);
    CHECK(ProfilerStart(file("prof")) != 0);
    const struct ProfilerState on = state_now();
    volatile int *counter = tick_counter(&on);
    CHECK(counter != NULL && counter == tick_counter(&off));
    const int begin = *counter;
    for (int i = 1; i <= 10; i++) {
        ticks(1);
        CHECK(*counter == begin + i);
    }
    ProfilerStop();
    CHECK(*counter == begin + 10);
}

/* A copy of the profile as it is on disk at this moment. */
static void copy_profile(const char *from, const char *to) {
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    CHECK(in != NULL && out != NULL);
    for (int byte = getc(in); byte != EOF; byte = getc(in)) putc(byte, out);
    CHECK(fclose(in) == 0 && fclose(out) == 0);
}

static void flush(void) {
    CHECK(ProfilerStart(file("prof")) != 0);
    ticks(4);
    ProfilerFlush();
    copy_profile(file("prof"), file("flushed"));
    expect_on(file("prof"), 4);
    ticks(3);
    ProfilerFlush();
    ProfilerFlush();
    copy_profile(file("prof"), file("flushed-again"));
    ticks(2);
    expect_on(file("prof"), 9);
    ProfilerStop();
}

static void restart(void) {
    CHECK(ProfilerStart(file("prof")) != 0);
    ticks(6);
    ProfilerStop();
    copy_profile(file("prof"), file("first"));
    CHECK(ProfilerStart(file("prof")) != 0);
    expect_on(file("prof"), 0);
    ticks(2);
    ProfilerStop();
}

/* Volatile, since libc's headers let the compiler believe that raise runs no code of this file. */
static volatile int filter_calls;

static int filter_says(void *answer) {
    filter_calls = filter_calls + 1;
    return *(volatile int *)answer;
}

static void filter(void) {
    int answer = 0;
    struct ProfilerOptions options;
    memset(&options, 0, sizeof options);
    options.filter_in_thread = filter_says;
    options.filter_in_thread_arg = &answer;
    CHECK(ProfilerStartWithOptions(file("prof"), &options) != 0);
    ticks(3);
    CHECK(filter_calls == 3);
    expect_on(file("prof"), 0);
    answer = -7;
    ticks(4);
    CHECK(filter_calls == 7);
    expect_on(file("prof"), 4);
    ProfilerStop();

    memset(&options, 0, sizeof options);
    CHECK(ProfilerStartWithOptions(file("unfiltered"), &options) != 0);
    ticks(2);
    ProfilerStop();
    CHECK(ProfilerStartWithOptions(file("defaults"), NULL) != 0);
    ticks(1);
    ProfilerStop();
    CHECK(filter_calls == 7);
}

enum { THREADS = 4, TICKS_PER_THREAD = 500 };

static void *ticking_thread(void *unused) {
    (void)unused;
    for (int i = 0; i < TICKS_PER_THREAD; i++) CHECK(pthread_kill(pthread_self(), SIGPROF) == 0);
    return NULL;
}

/* Ticks of several threads at once: none is lost, each weighs 1. */
static void threads(void) {
    pthread_t thread[THREADS];
    CHECK(ProfilerStart(file("prof")) != 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, ticking_thread, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    expect_on(file("prof"), THREADS * TICKS_PER_THREAD);
    ProfilerStop();
}

static pthread_t chosen;
static pthread_barrier_t all_there;

static int is_chosen(void *unused) {
    (void)unused;
    return pthread_equal(pthread_self(), chosen);
}

static void *others_ticks(void *unused) {
    pthread_barrier_wait(&all_there);
    return ticking_thread(unused);
}

/* The filter accepts one thread of several. */
static void filter_of_one_thread(void) {
    pthread_t thread[THREADS];
    struct ProfilerOptions options;
    CHECK(pthread_barrier_init(&all_there, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, others_ticks, NULL) == 0);
    chosen = thread[1];
    memset(&options, 0, sizeof options);
    options.filter_in_thread = is_chosen;
    CHECK(ProfilerStartWithOptions(file("prof"), &options) != 0);
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    expect_on(file("prof"), TICKS_PER_THREAD);
    ProfilerStop();
}

static void stopped_at_exit(void) {
    CHECK(ProfilerStart(file("prof")) != 0);
    ticks(7);
}

/* A name longer than the field is cut, not run over. */
static void long_name(void) {
    char name[1400];
    size_t length = (size_t)snprintf(name, sizeof name, "%s", directory);
    while (length < 1200) length += (size_t)snprintf(name + length, sizeof name - length, "/.");
    snprintf(name + length, sizeof name - length, "/prof");
    CHECK(ProfilerStart(name) != 0);
    struct { struct ProfilerState state; char canary[64]; } guarded;
    memset(&guarded, 0x5a, sizeof guarded);
    ProfilerGetCurrentState(&guarded.state);
    CHECK(memchr(guarded.state.profile_name, '\0', sizeof guarded.state.profile_name) != NULL);
    CHECK(strncmp(guarded.state.profile_name, name, strlen(guarded.state.profile_name)) == 0);
    for (size_t i = 0; i < sizeof guarded.canary; i++) CHECK(guarded.canary[i] == 0x5a);
    ticks(1);
    ProfilerStop();
}

enum { DEPTH = 64 };
static void *stack[DEPTH + 1];
static volatile int stack_depth;
static void *volatile interrupted_pc;
static volatile int skip_in_handler;

static void handler(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
#if defined(__x86_64__)
    interrupted_pc = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
    interrupted_pc = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_EIP];
#elif defined(__aarch64__)
    interrupted_pc = (void *)((ucontext_t *)context)->uc_mcontext.pc;
#endif
    stack_depth = ProfilerGetStackTrace(stack, DEPTH, skip_in_handler, context);
}

NOINLINE static void trace_here(int max_depth, int skip) {
    stack_depth = ProfilerGetStackTrace(stack, max_depth, skip, NULL);
    __asm__ volatile("" ::: "memory");
}

/* The name of the function that made the call. */
static const char *function_of(void *return_address) {
    Dl_info information;
    if (dladdr((char *)return_address - 1, &information) == 0 || information.dli_sname == NULL) return "?";
    return information.dli_sname;
}

/* Two callers with names that dladdr can see. */
NOINLINE void inner_caller(void (*what)(int), int argument) {
    what(argument);
    __asm__ volatile("" ::: "memory");
}

NOINLINE void outer_caller(void (*what)(int), int argument) {
    inner_caller(what, argument);
    __asm__ volatile("" ::: "memory");
}

NOINLINE void send_usr1(int unused) {
    (void)unused;
    CHECK(raise(SIGUSR1) == 0);
}

NOINLINE void trace_skipping(int skip) {
    stack_depth = ProfilerGetStackTrace(stack, DEPTH, skip, NULL);
    __asm__ volatile("" ::: "memory");
}

/* The three calls of a trace case, from `first` outwards. */
static void expect_callers_from(int first, const char *case_function) {
    CHECK(strcmp(function_of(stack[first]), "inner_caller") == 0);
    CHECK(strcmp(function_of(stack[first + 1]), "outer_caller") == 0);
    CHECK(strcmp(function_of(stack[first + 2]), case_function) == 0);
}

static int position_of(const char *function) {
    for (int i = 0; i < stack_depth; i++)
        if (strcmp(function_of(stack[i]), function) == 0) return i;
    return -1;
}

NOINLINE void trace_of_context(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (skip_in_handler = 0; skip_in_handler < 3; skip_in_handler++) {
        outer_caller(send_usr1, 0);
        CHECK(stack_depth > 4 && stack[0] == interrupted_pc);
        const int first = position_of("send_usr1");
        CHECK(first > 0);
        expect_callers_from(first + 1, "trace_of_context");
    }
}

NOINLINE void trace_of_caller(void) {
    outer_caller(trace_skipping, 0);
    CHECK(stack_depth > 4 && strcmp(function_of(stack[0]), "trace_skipping") == 0);
    expect_callers_from(1, "trace_of_caller");
    outer_caller(trace_skipping, 1);
    CHECK(stack_depth > 3);
    expect_callers_from(0, "trace_of_caller");
    outer_caller(trace_skipping, 2);
    CHECK(stack_depth > 2 && strcmp(function_of(stack[0]), "outer_caller") == 0);
}

static void depth_limits(void) {
    memset(stack, 0, sizeof stack);
    trace_here(2, 0);
    CHECK(stack_depth == 2 && stack[0] != NULL && stack[1] != NULL && stack[2] == NULL);
    trace_here(0, 0);
    CHECK(stack_depth == 0);
    trace_here(DEPTH, 1000);
    CHECK(stack_depth == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"lifecycle", lifecycle},
    {"idle-calls", idle_calls},
    {"registered-thread", registered_thread},
    {"refused-starts", refused_starts},
    {"live-counter", live_counter},
    {"flush", flush},
    {"restart", restart},
    {"filter", filter},
    {"threads", threads},
    {"filter-of-one-thread", filter_of_one_thread},
    {"stopped-at-exit", stopped_at_exit},
    {"long-name", long_name},
    {"trace-of-context", trace_of_context},
    {"trace-of-caller", trace_of_caller},
    {"depth-limits", depth_limits},
};

int main(int argc, char **argv) {
    CHECK(argc == 3);
    directory = argv[2];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    CHECK(!"a known case");
}
