/* An application whose threads have names, and send themselves ticks.
 *
 *   named_threads threads END NAME COUNT...   a thread for each name, which sends itself so many ticks in `common_work`. One whose
 *                                             name begins with `late-` has it only when its ticks are sent; one whose name begins
 *                                             with `twice-` gets it behind its first tick; the others begin with it
 *   named_threads crowd END COUNT             so many threads, one behind another, with one tick each
 *   named_threads ways END THREADS COUNT      so many threads, one behind another, with a tick in each of so many chains, the same
 *                                             for each thread; they are called `way-0` and so on
 *   named_threads deep END FRAMES             a tick of the first thread in a chain of so many frames
 *   named_threads fork END                    a thread `parent` with 3 ticks, and a child with a thread `child` and 5, for which
 *                                             the end is; the parent's is `exit`
 *   named_threads work SECONDS NAME SHARE...  threads that compute, for that part of the seconds each; prints `NAME ID SECONDS
 *                                             PREEMPTED`, the last how often others took the processor from it
 *
 * When the end comes the threads are still there, but for those that come one behind another. It is one of:
 *   exit  kill  flush (which then waits for a byte on standard input)
 * The id of each thread is printed as `NAME ID`, and `done` last. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

struct job {
    const char *name;
    int count;
    double seconds;
    long preempted;
    pid_t id;
};

static pthread_barrier_t done, end;

__attribute__((noinline, noclone)) static int common_work(int ticks) {
    int sent = 0;
    for (; sent < ticks; sent++) CHECK(syscall(SYS_tgkill, getpid(), gettid(), SIGPROF) == 0);
    return sent;
}

static void call_it(const char *name) { CHECK(pthread_setname_np(pthread_self(), name) == 0); }

static void *run_job(void *argument) {
    struct job *job = argument;
    const int is_late = strncmp(job->name, "late-", 5) == 0, is_twice = strncmp(job->name, "twice-", 6) == 0;
    job->id = gettid();
    if (is_late || is_twice)
        call_it("unnamed");
    else
        call_it(job->name);
    int left = job->count;
    if (is_twice) {
        left -= common_work(1);
        call_it(job->name);
    }
    if (common_work(left) != left) return NULL;
    if (is_late) call_it(job->name);
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&end);
    return NULL;
}

static double used(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *compute_job(void *argument) {
    struct job *job = argument;
    call_it(job->name);
    job->id = gettid();
    volatile unsigned long work = 0;
    while (used() < job->seconds)
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
    job->seconds = used();
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    job->preempted = usage.ru_nivcsw;
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&end);
    return NULL;
}

static void *run_one(void *unused) {
    (void)unused;
    common_work(1);
    return NULL;
}

static int left(unsigned way, int depth);
static int right(unsigned way, int depth);

/* Goes down one of two ways at each step, as the bits of `way` say. */
static int descend(unsigned way, int depth) {
    if (depth == 0) return common_work(1);
    return way & 1 ? right(way >> 1, depth - 1) : left(way >> 1, depth - 1);
}

__attribute__((noinline, noclone, no_icf)) static int left(unsigned way, int depth) { return descend(way, depth) + 1; }
__attribute__((noinline, noclone, no_icf)) static int right(unsigned way, int depth) { return descend(way, depth) + 2; }

static void *run_ways(void *argument) {
    const struct job *job = argument;
    call_it(job->name);
    for (int way = 0; way < job->count; way++) CHECK(descend((unsigned)way, 16) >= 16);
    return NULL;
}

__attribute__((noinline, noclone)) static int recurse(int frames) {
    if (frames == 0) return common_work(1);
    return recurse(frames - 1) + 1;
}

/* Returns when all jobs are done; their threads stay. */
static void start(struct job *jobs, int count, void *(*body)(void *)) {
    CHECK(pthread_barrier_init(&done, NULL, (unsigned)count + 1) == 0);
    CHECK(pthread_barrier_init(&end, NULL, (unsigned)count + 1) == 0);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, body, &jobs[i]) == 0);
    }
    pthread_barrier_wait(&done);
}

static void run_crowd(int count) {
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_one, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static void end_by(const char *how) {
    puts("done");
    fflush(stdout);
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "flush") == 0) {
        ProfilerFlush();
        puts("flushed");
        fflush(stdout);
        CHECK(getchar() != EOF);
    }
    exit(0);
}

int main(int argc, char **argv) {
    enum { MOST = 64 };
    static struct job jobs[MOST];
    CHECK(argc >= 3);
    const char *what = argv[1], *how = argv[2];
    if (strcmp(what, "work") != 0) {
        /* Ticks come from here alone, and on a busy machine there may be a second of CPU time. By system call, for the library
         * keeps its ticks otherwise. */
        const struct itimerval never = {{0, 0}, {0, 0}};
        CHECK(syscall(SYS_setitimer, ITIMER_PROF, &never, NULL) == 0);
    }
    if (strcmp(what, "threads") == 0 || strcmp(what, "work") == 0) {
        const int computes = strcmp(what, "work") == 0, count = (argc - 3) / 2;
        CHECK(count <= MOST);
        double shares = 0;
        for (int i = 0; i < count; i++) shares += atof(argv[4 + 2 * i]);
        for (int i = 0; i < count; i++) {
            jobs[i].name = argv[3 + 2 * i];
            jobs[i].count = atoi(argv[4 + 2 * i]);
            jobs[i].seconds = computes ? atof(how) * jobs[i].count / shares : 0;
        }
        start(jobs, count, computes ? compute_job : run_job);
        for (int i = 0; i < count; i++)
            if (computes)
                printf("%s %d %.6f %ld\n", jobs[i].name, jobs[i].id, jobs[i].seconds, jobs[i].preempted);
            else
                printf("%s %d\n", jobs[i].name, jobs[i].id);
        if (computes) how = "exit";
    } else if (strcmp(what, "crowd") == 0) {
        run_crowd(atoi(argv[3]));
    } else if (strcmp(what, "ways") == 0) {
        CHECK(argc == 5);
        for (int i = 0; i < atoi(argv[3]); i++) {
            char name[16];
            pthread_t thread;
            snprintf(name, sizeof name, "way-%d", i);
            jobs[0] = (struct job){.name = name, .count = atoi(argv[4])};
            CHECK(pthread_create(&thread, NULL, run_ways, &jobs[0]) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
        }
    } else if (strcmp(what, "deep") == 0) {
        CHECK(recurse(atoi(argv[3])) > 0);
    } else if (strcmp(what, "fork") == 0) {
        jobs[0] = (struct job){.name = "parent", .count = 3};
        start(jobs, 1, run_job);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            jobs[0] = (struct job){.name = "child", .count = 5};
            start(jobs, 1, run_job);
            end_by(how);
        }
        CHECK(waitpid(child, NULL, 0) == child);
        how = "exit";
    } else {
        CHECK(!"a known case");
    }
    end_by(how);
    return 0;
}
