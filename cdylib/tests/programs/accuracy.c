/* Programs that say how much CPU time each of their parts has used, so that a profile can be compared with it.
 *
 *   accuracy threads SECONDS SHARE...      a thread for each share, with that part of the seconds
 *   accuracy short COUNT pthread|raw|both  threads of a millisecond each, two at a time
 *   accuracy mixed COUNT SECONDS           such threads beside one that computes for seconds
 *   accuracy before SECONDS FILE           threads that are there when the program starts its profiler
 *   accuracy blocked SECONDS               a thread that blocks all signals, beside one that does not
 *   accuracy in-step SECONDS PERIOD_US     a function that runs in the first quarter of each period, and one in the rest
 *   accuracy timers COUNT                  threads of five milliseconds, then work, then how many timers there are
 *   accuracy crowd COUNT                   threads that are all there at the same time
 *
 * It prints for each part `NAME SECONDS`. `all SECONDS` is the process's, from main's first line (or the session's begin, where that
 * is later) to its last.
 *
 * With PROFILE=FILE in the environment it starts the profiler itself, as it does in `before`, with a filter that accepts all ticks
 * and notes when they come. Each part then goes on until it has had a tick behind its goal, and `NAME_first` and `NAME_last` are
 * the thread's clock at its first and its last tick, `NAME_others` what the process had used at the first, and `NAME_preempted`
 * how often others had taken the processor from it until then.
 *
 * Where the whole is compared with the profile a thread is made last that ends when a tick has met it. Such a tick stands for all
 * that ended threads have left. `until_told SECONDS` is what that thread used, `told_until SECONDS` the process's clock before
 * the tick, and `first SECONDS` what the first thread had used in the end, whose own next tick nobody waits for. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

#define MOST_PARTS 8

static double part_seconds[MOST_PARTS];
static double part_goals[MOST_PARTS];
static pthread_barrier_t begin;

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long preempted(int whose) {
    struct rusage usage;
    CHECK(getrusage(whose, &usage) == 0);
    return usage.ru_nivcsw;
}

static int gathered(void) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

/* A thread's ticks, in seconds of its clock. A thread that the C library knows nothing of shares the first one's. */
struct ticks {
    double first, last, others;
    long preempted;
};
static __thread volatile struct ticks ticks;
static struct ticks part_ticks[MOST_PARTS];
static int are_noted;
/* A thread that blocks the signal has no ticks. */
static __thread int is_hidden;
static double began;

static int note_tick(void *unused) {
    (void)unused;
    const double now = seconds(CLOCK_THREAD_CPUTIME_ID);
    if (ticks.first == 0) {
        ticks.first = now;
        ticks.others = seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
        ticks.preempted = preempted(RUSAGE_THREAD);
    }
    ticks.last = now;
    return 1;
}

static void start_noting(const char *path) {
    const struct ProfilerOptions options = {.filter_in_thread = note_tick};
    are_noted = 1;
    began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    CHECK(ProfilerStartWithOptions(path, &options) != 0);
}

static inline __attribute__((always_inline)) void compute(int rounds) {
    volatile unsigned long work = 0;
    for (int i = 0; i < rounds; i++) work = work * 5 + 3;
}

/* Until the calling thread has used so much. */
static inline __attribute__((always_inline)) void compute_until(double goal) {
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < goal) compute(2000);
}

/* And has had a tick behind that, where they are noted: the kernel sends it sooner or later. */
static inline __attribute__((always_inline)) void compute_until_met(double goal) {
    compute_until(goal);
    while (are_noted && !is_hidden && ticks.last < goal) {
        CHECK(seconds(CLOCK_THREAD_CPUTIME_ID) < goal + 60);
        compute(2000);
    }
}

static double part_begins[MOST_PARTS];

#define PART(number)                                                              \
    static __attribute__((noinline)) void part_##number(void) {                   \
        part_begins[number] = seconds(CLOCK_THREAD_CPUTIME_ID);                   \
        compute_until_met(part_goals[number]);                                    \
        part_seconds[number] = seconds(CLOCK_THREAD_CPUTIME_ID);                  \
        part_ticks[number] = ticks;                                               \
    }
PART(0)
PART(1)
PART(2)
PART(3)

static void (*const parts[])(void) = {part_0, part_1, part_2, part_3};

static void *run_part(void *number) {
    parts[(size_t)number]();
    return NULL;
}

static void *run_registered_part(void *number) {
    if (ProfilerRegisterThread != NULL) ProfilerRegisterThread();
    return run_part(number);
}

static void *run_part_behind_barrier(void *number) {
    pthread_barrier_wait(&begin);
    return run_part(number);
}

static void run_threads(int count, void *(*body)(void *)) {
    pthread_t threads[MOST_PARTS];
    for (size_t i = 0; i < (size_t)count; i++) CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void print_parts(int count) {
    for (int i = 0; i < count; i++) {
        const struct ticks *of = &part_ticks[i];
        printf("part_%d %.6f\npart_%d_begins %.6f\n", i, part_seconds[i], i, part_begins[i]);
        printf("part_%d_first %.6f\npart_%d_last %.6f\n", i, of->first, i, of->last);
        printf("part_%d_others %.6f\npart_%d_preempted %ld\n", i, of->others, i, of->preempted);
    }
}

/* The parts of `seconds` that the shares say. */
static int take_shares(double total, char **shares) {
    int count = 0;
    double sum = 0;
    while (shares[count] != NULL && count < 4) sum += atof(shares[count++]);
    for (int i = 0; i < count; i++) part_goals[i] = total * atof(shares[i]) / sum;
    return count;
}

static __attribute__((noinline)) void millisecond(void) { compute_until(0.001); }

static void *run_millisecond(void *unused) {
    (void)unused;
    millisecond();
    return NULL;
}

/* A thread that the C library knows nothing of. It may use nothing of a thread's own, which is the first thread's. */
static int run_raw(void *unused) {
    (void)unused;
    millisecond();
    syscall(SYS_exit, 0);
    return 0;
}

enum { RAW_STACK = 64 << 10 };

static void start_raw(char *stack, atomic_int *left) {
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    atomic_store(left, 1);
    CHECK(clone(run_raw, stack + RAW_STACK, flags, NULL, NULL, NULL, left) > 0);
}

static void wait_raw(atomic_int *left) {
    while (atomic_load(left) != 0) syscall(SYS_futex, left, FUTEX_WAIT, 1, NULL, NULL, 0);
}

static void run_short(int count, const char *kind) {
    char *stacks[2];
    for (int i = 0; i < 2; i++) {
        stacks[i] = mmap(NULL, RAW_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stacks[i] != MAP_FAILED);
    }
    for (int i = 0; i < count; i += 2) {
        const int is_raw = strcmp(kind, "raw") == 0 || (strcmp(kind, "both") == 0 && i % 4 == 0);
        pthread_t threads[2];
        atomic_int left[2];
        for (int j = 0; j < 2; j++)
            if (is_raw)
                start_raw(stacks[j], &left[j]);
            else
                CHECK(pthread_create(&threads[j], NULL, run_millisecond, NULL) == 0);
        for (int j = 0; j < 2; j++)
            if (is_raw)
                wait_raw(&left[j]);
            else
                pthread_join(threads[j], NULL);
    }
}

static clockid_t first_clock;
static double told_until;

/* Until a tick has come while the first thread used nothing: it was the calling thread's. The kernel sends it sooner or later. */
static inline __attribute__((always_inline)) void compute_until_sampled(void) {
    const double limit = seconds(CLOCK_THREAD_CPUTIME_ID) + 60;
    double first;
    int before;
    do {
        CHECK(seconds(CLOCK_THREAD_CPUTIME_ID) < limit);
        first = seconds(first_clock);
        told_until = seconds(CLOCK_PROCESS_CPUTIME_ID);
        before = gathered();
        compute(20000);
    } while (gathered() == before || seconds(first_clock) != first);
}

static __attribute__((noinline, no_icf)) void until_told(void) { compute_until_sampled(); }
static __attribute__((noinline, no_icf)) void until_met(void) { compute_until_sampled(); }

/* The only part, which leaves nothing behind but what it prints: it ends when a tick of its own has come. */
static void *run_only_part(void *number) {
    run_part(number);
    until_met();
    return NULL;
}

static void *run_until_told(void *used) {
    until_told();
    *(double *)used += seconds(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* A thread's first tick represents what ended threads have left, but not just after a survey of many threads. */
enum { ENDED_PER_THREAD = 32 };

/* With `threads` threads that have ended before. No tick comes without a profiler. */
static void tell_the_rest(int threads) {
    if (ProfilerGetCurrentState == NULL) return;
    double used = 0;
    for (int i = 0; i <= threads; i += ENDED_PER_THREAD) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_until_told, &used) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    printf("until_told %.6f\ntold_until %.6f\n", used, told_until);
}

/* What is used before the other thread has a timer of its own may be in the tick that gives it one, whoever's it is. */
static void *run_blocked_part(void *number) {
    if (number == (void *)0) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        is_hidden = 1;
        pthread_barrier_wait(&begin);
    } else {
        until_told();
        part_goals[1] += seconds(CLOCK_THREAD_CPUTIME_ID);
        pthread_barrier_wait(&begin);
    }
    return run_part(number);
}

static double in_step_seconds[2];

/* gcc makes one function of two that are alike. */
static __attribute__((noinline, no_icf)) void first_quarter(double end) { compute_until(end); }
static __attribute__((noinline, no_icf)) void the_rest(double end) { compute_until(end); }

static void run_in_step(double total, double period) {
    const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    double last = start;
    for (long i = 0; last - start < total; i++) {
        first_quarter(start + ((double)i + 0.25) * period);
        double now = seconds(CLOCK_THREAD_CPUTIME_ID);
        in_step_seconds[0] += now - last;
        last = now;
        the_rest(start + (double)(i + 1) * period);
        now = seconds(CLOCK_THREAD_CPUTIME_ID);
        in_step_seconds[1] += now - last;
        last = now;
    }
    printf("first_quarter %.6f\nthe_rest %.6f\n", in_step_seconds[0], in_step_seconds[1]);
}

static __attribute__((noinline)) void five_milliseconds(void) { compute_until(0.005); }

static void *run_five(void *unused) {
    (void)unused;
    five_milliseconds();
    return NULL;
}

/* Timers of this process, as the kernel lists them; -1 where it does not. */
static int timers(void) {
    FILE *list = fopen("/proc/self/timers", "r");
    if (list == NULL) return -1;
    char line[256];
    int count = 0;
    while (fgets(line, sizeof line, list) != NULL) count += strncmp(line, "ID:", 3) == 0;
    fclose(list);
    return count;
}

static void run_timers(int count) {
    int most = 0;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_five, NULL) == 0);
        pthread_join(thread, NULL);
        const int now = timers();
        if (now > most) most = now;
    }
    /* Each tick looks at one. */
    const double limit = seconds(CLOCK_THREAD_CPUTIME_ID) + 60;
    int left = timers();
    for (double now; left > 1 && (now = seconds(CLOCK_THREAD_CPUTIME_ID)) < limit; left = timers()) compute_until(now + 0.01);
    printf("most %d\nleft %d\n", most, left);
}

static pthread_mutex_t crowd = PTHREAD_MUTEX_INITIALIZER;
static double left_by_crowd;

/* Until a tick has found it, and one of its own has come. */
static void *run_in_crowd(void *unused) {
    (void)unused;
    compute_until_met(0.01);
    compute_until_met(ticks.first + 1e-6);
    pthread_mutex_lock(&crowd);
    left_by_crowd += seconds(CLOCK_THREAD_CPUTIME_ID) - ticks.last;
    pthread_mutex_unlock(&crowd);
    pthread_barrier_wait(&begin);
    return NULL;
}

static void run_crowd(int count) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_barrier_init(&begin, NULL, (unsigned)count);
    int made = 0;
    while (made < count && pthread_create(&threads[made], &attributes, run_in_crowd, NULL) == 0) made++;
    CHECK(made == count);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    free(threads);
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    const char *what = argv[1];
    began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double ended = 0;
    if (getenv("PROFILE") != NULL) {
        start_noting(getenv("PROFILE"));
        began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    }
    CHECK(pthread_getcpuclockid(pthread_self(), &first_clock) == 0);
    if (strcmp(what, "threads") == 0) {
        const int count = take_shares(atof(argv[2]), argv + 3);
        run_threads(count, count == 1 ? run_only_part : getenv("REGISTER") != NULL ? run_registered_part : run_part);
        if (count == 1) printf("met_until %.6f\n", told_until);
        tell_the_rest(count);
        print_parts(count);
    } else if (strcmp(what, "short") == 0) {
        run_short(atoi(argv[2]), argv[3]);
        tell_the_rest(ENDED_PER_THREAD);
    } else if (strcmp(what, "mixed") == 0) {
        part_goals[0] = atof(argv[3]);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_part, (void *)0) == 0);
        run_short(atoi(argv[2]), "both");
        pthread_join(thread, NULL);
        tell_the_rest(ENDED_PER_THREAD);
        print_parts(1);
    } else if (strcmp(what, "before") == 0) {
        char *shares[] = {"1", "2", "3", "4", NULL};
        take_shares(atof(argv[2]), shares);
        pthread_t threads[4];
        pthread_barrier_init(&begin, NULL, 5);
        for (size_t i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, run_part_behind_barrier, (void *)i) == 0);
        start_noting(argv[3]);
        began = seconds(CLOCK_PROCESS_CPUTIME_ID);
        pthread_barrier_wait(&begin);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        tell_the_rest(4);
        ended = seconds(CLOCK_PROCESS_CPUTIME_ID);
        ProfilerStop();
        print_parts(4);
    } else if (strcmp(what, "blocked") == 0) {
        part_goals[0] = part_goals[1] = atof(argv[2]) / 2;
        pthread_barrier_init(&begin, NULL, 2);
        /* So has this one, which runs again when they have ended. */
        for (const int before = gathered(); gathered() == before;) compute(20000);
        run_threads(2, run_blocked_part);
        print_parts(2);
    } else if (strcmp(what, "in-step") == 0) {
        run_in_step(atof(argv[2]), atof(argv[3]) / 1e6);
    } else if (strcmp(what, "timers") == 0) {
        run_timers(atoi(argv[2]));
    } else if (strcmp(what, "crowd") == 0) {
        run_crowd(atoi(argv[2]));
        printf("left %.6f\n", left_by_crowd);
        tell_the_rest(atoi(argv[2]));
    } else {
        CHECK(!"a known case");
    }
    if (ended == 0) ended = seconds(CLOCK_PROCESS_CPUTIME_ID);
    printf("all %.6f\nfirst %.6f\n", ended - began, seconds(CLOCK_THREAD_CPUTIME_ID));
    return 0;
}
