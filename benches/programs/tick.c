/*
 * The program that the benches profile: it sends SIGPROF to itself from a known depth of calls.
 *
 *     tick own|preloaded throughout|innermost THREADS DEPTH PATHS SIGNALS PASSES
 *
 * Each thread walks PATHS different chains of DEPTH calls and sends itself SIGNALS signals at the end of
 * each; it does all of that PASSES times. The first pass warms caches and is not timed. "own" installs an
 * empty handler, the floor that nothing can beat; "preloaded" leaves the signal to the profiler under
 * LD_PRELOAD. The chains differ from each other throughout, or in their innermost calls only, as those of a
 * program with a long common trunk do.
 *
 * Prints one line: signals sent, signals timed, wall-clock nanoseconds of the timed ones.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Eight functions of eight call sites each: two octal digits of the path name a return address. */
#define DIGIT_BITS 3
#define DIGIT_MASK 7
/* The digits that make up a path. The outermost level has none and the next ones read them in turn, so that
   paths differ from a depth of DIGITS + 1 on. */
#define DIGITS 4
#define MOST_PATHS (1 << (DIGIT_BITS * DIGITS))
#define MOST_THREADS 64

struct plan {
    /* Levels with more calls than this below them take the same turn on every path. */
    unsigned trunk_above;
    unsigned threads, depth, paths, signals, passes;
};

struct sender {
    const struct plan *plan;
    unsigned index;
    pid_t process, thread;
};

static pthread_barrier_t warm, done;
/* Written by the first thread only. */
static long long timed_from, timed_to;

__attribute__((noipa)) static unsigned send_signals(const struct sender *sender)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < sender->plan->signals; i++)
        failed += syscall(SYS_tgkill, sender->process, sender->thread, SIGPROF) != 0;
    return failed;
}

#define DECLARE(name) static unsigned name(const struct sender *, unsigned path, unsigned left);
DECLARE(level_0) DECLARE(level_1) DECLARE(level_2) DECLARE(level_3)
DECLARE(level_4) DECLARE(level_5) DECLARE(level_6) DECLARE(level_7)

static unsigned turn(const struct sender *sender, unsigned path, unsigned left)
{
    unsigned octal = left > sender->plan->trunk_above ? left : path >> (left % DIGITS * DIGIT_BITS);
    return octal & DIGIT_MASK;
}

/*
 * One level of the chain. `room` gives each function a frame of its own size, so that only call frame
 * information can tell where the return address lies; the empty asm uses the result after the call, so that no
 * call becomes a jump or a loop.
 */
#define LEVEL(name, bytes)                                                                                  \
    __attribute__((noipa)) static unsigned name(const struct sender *sender, unsigned path, unsigned left)  \
    {                                                                                                       \
        char room[bytes];                                                                                   \
        unsigned failed;                                                                                    \
        __asm__ volatile("" : : "r"(room) : "memory");                                                      \
        if (left == 0)                                                                                      \
            failed = send_signals(sender);                                                                  \
        else                                                                                                \
            switch (turn(sender, path, left)) {                                                             \
            case 0: failed = level_0(sender, path, left - 1); break;                                        \
            case 1: failed = level_1(sender, path, left - 1); break;                                        \
            case 2: failed = level_2(sender, path, left - 1); break;                                        \
            case 3: failed = level_3(sender, path, left - 1); break;                                        \
            case 4: failed = level_4(sender, path, left - 1); break;                                        \
            case 5: failed = level_5(sender, path, left - 1); break;                                        \
            case 6: failed = level_6(sender, path, left - 1); break;                                        \
            default: failed = level_7(sender, path, left - 1); break;                                       \
            }                                                                                               \
        __asm__ volatile("" : "+r"(failed));                                                                \
        return failed;                                                                                      \
    }

LEVEL(level_0, 8) LEVEL(level_1, 24) LEVEL(level_2, 40) LEVEL(level_3, 56)
LEVEL(level_4, 72) LEVEL(level_5, 88) LEVEL(level_6, 104) LEVEL(level_7, 120)

__attribute__((noipa)) static void walk_paths(const struct sender *sender)
{
    const struct plan *plan = sender->plan;
    /* Threads start at different paths, so that they meet in the table of chains now and then, not always. */
    unsigned first = sender->index * (plan->paths / plan->threads);
    for (unsigned i = 0; i < plan->paths; i++) {
        if (level_0(sender, (first + i) % plan->paths, plan->depth - 1) != 0) {
            fputs("tick: tgkill failed\n", stderr);
            exit(1);
        }
    }
}

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* One call of walk_paths for warm and timed passes alike: a second one would double the number of chains. */
static void *run_passes(void *argument)
{
    struct sender *sender = argument;
    sender->thread = (pid_t)syscall(SYS_gettid);
    for (unsigned pass = 0; pass < sender->plan->passes; pass++) {
        if (pass == 1) {
            pthread_barrier_wait(&warm);
            if (sender->index == 0)
                timed_from = now_ns();
        }
        walk_paths(sender);
    }
    pthread_barrier_wait(&done);
    if (sender->index == 0)
        timed_to = now_ns();
    return NULL;
}

static void nothing(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
}

static void install_empty_handler(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = nothing;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGPROF, &action, NULL) != 0) {
        perror("tick: sigaction");
        exit(1);
    }
}

static unsigned number(const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "tick: '%s' is not a number from %u to %u\n", text, least, most);
        exit(2);
    }
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fputs("usage: tick own|preloaded throughout|innermost THREADS DEPTH PATHS SIGNALS PASSES\n", stderr);
        return 2;
    }
    struct plan plan = {
        .trunk_above = strcmp(argv[2], "innermost") == 0 ? DIGITS : UINT_MAX,
        .threads = number(argv[3], 1, MOST_THREADS),
        .depth = number(argv[4], DIGITS + 1, 10000),
        .paths = number(argv[5], 1, MOST_PATHS),
        .signals = number(argv[6], 1, 1000000),
        .passes = number(argv[7], 1, 1000000),
    };
    if (strcmp(argv[1], "own") == 0)
        install_empty_handler();

    /* The profiler's timer is slow already; stopped, it adds no tick of its own to those that are counted. */
    struct itimerval never = {{0, 0}, {0, 0}};
    syscall(SYS_setitimer, ITIMER_PROF, &never, NULL);

    struct sender senders[MOST_THREADS];
    for (unsigned i = 0; i < plan.threads; i++)
        senders[i] = (struct sender){.plan = &plan, .index = i, .process = getpid()};

    pthread_barrier_init(&warm, NULL, plan.threads);
    pthread_barrier_init(&done, NULL, plan.threads);
    if (plan.threads == 1) {
        run_passes(&senders[0]);
    } else {
        pthread_t threads[MOST_THREADS];
        for (unsigned i = 0; i < plan.threads; i++) {
            if (pthread_create(&threads[i], NULL, run_passes, &senders[i]) != 0) {
                fputs("tick: cannot start a thread\n", stderr);
                return 1;
            }
        }
        for (unsigned i = 0; i < plan.threads; i++)
            pthread_join(threads[i], NULL);
    }

    unsigned long long per_pass = 1ULL * plan.threads * plan.paths * plan.signals;
    long long timed_ns = plan.passes > 1 ? timed_to - timed_from : 0;
    printf("%llu %llu %lld\n", per_pass * plan.passes, per_pass * (plan.passes - 1), timed_ns);
    return 0;
}
