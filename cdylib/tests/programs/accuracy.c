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
 * It prints `NAME SECONDS` for each part, and `all SECONDS` last. */
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

static double used_by_all(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static inline __attribute__((always_inline)) void compute(int rounds) {
    volatile unsigned long work = 0;
    for (int i = 0; i < rounds; i++) work = work * 5 + 3;
}

/* Until the calling thread has used so much. */
static inline __attribute__((always_inline)) void compute_until(double goal) {
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < goal) compute(2000);
}

#define PART(number)                                                              \
    static __attribute__((noinline)) void part_##number(void) {                   \
        compute_until(part_goals[number]);                                        \
        part_seconds[number] = seconds(CLOCK_THREAD_CPUTIME_ID);                  \
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
    for (int i = 0; i < count; i++) printf("part_%d %.6f\n", i, part_seconds[i]);
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

static void *run_blocked_part(void *number) {
    sigset_t all;
    sigfillset(&all);
    if (number == (void *)0) pthread_sigmask(SIG_SETMASK, &all, NULL);
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
    const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    compute_until(start + 2);
    printf("most %d\nleft %d\n", most, timers());
}

static void *run_in_crowd(void *unused) {
    (void)unused;
    compute_until(0.01);
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
    if (strcmp(what, "threads") == 0) {
        const int count = take_shares(atof(argv[2]), argv + 3);
        run_threads(count, getenv("REGISTER") != NULL ? run_registered_part : run_part);
        print_parts(count);
    } else if (strcmp(what, "short") == 0) {
        run_short(atoi(argv[2]), argv[3]);
    } else if (strcmp(what, "mixed") == 0) {
        part_goals[0] = atof(argv[3]);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_part, (void *)0) == 0);
        run_short(atoi(argv[2]), "both");
        pthread_join(thread, NULL);
        print_parts(1);
    } else if (strcmp(what, "before") == 0) {
        char *shares[] = {"1", "2", "3", "4", NULL};
        take_shares(atof(argv[2]), shares);
        pthread_t threads[4];
        pthread_barrier_init(&begin, NULL, 5);
        for (size_t i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, run_part_behind_barrier, (void *)i) == 0);
        CHECK(ProfilerStart(argv[3]) != 0);
        pthread_barrier_wait(&begin);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        ProfilerStop();
        print_parts(4);
    } else if (strcmp(what, "blocked") == 0) {
        part_goals[0] = part_goals[1] = atof(argv[2]) / 2;
        run_threads(2, run_blocked_part);
        print_parts(2);
    } else if (strcmp(what, "in-step") == 0) {
        run_in_step(atof(argv[2]), atof(argv[3]) / 1e6);
    } else if (strcmp(what, "timers") == 0) {
        run_timers(atoi(argv[2]));
    } else if (strcmp(what, "crowd") == 0) {
        run_crowd(atoi(argv[2]));
    } else {
        CHECK(!"a known case");
    }
    printf("all %.6f\n", used_by_all());
    return 0;
}
