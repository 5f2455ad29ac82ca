/* An application that does all at once that harms profilers, and checks each result: see the workers below.
 * usage: torture SECONDS PAGE LIBRARIES [ORDER...]
 *
 * PAGE is a file of 4096 bytes that takes the workers' progress, LIBRARIES the directory of libplugin0.so and so on. Orders:
 * realtime (the profiling signal is SIGALRM, not SIGPROF), locked (mlockall), tight (memory may run out), handler (a handler
 * of the profiling signal of its own), switched (SIGUSR2 switches profiling), profile=PROFILE (the
 * profiler was told to write there), children (each child that ticks leaves one beside it), started=PROFILE (the program starts
 * and stops the profiler). Prints "sent N", "own N" and "diverted N", and ends with 0; or says what was wrong, and ends with 97. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

struct orders orders;
atomic_int over;
atomic_long signals_sent, ticks_of_own, ticks_diverted;
_Thread_local struct progress *mine;

static pthread_rwlock_t loading;

static const struct worker {
    const char *name;
    void (*round)(unsigned long number);
    size_t stack_kib;
} workers[] = {
    {"exceptions", round_of_exceptions, 512},
    {"exceptions too", round_of_exceptions, 512},
    {"loading", round_of_loading, 256},
    {"loading too", round_of_loading, 256},
    {"heap", round_of_heap, 256},
    {"heap too", round_of_heap, 256},
    {"forks", round_of_forks, 256},
    {"spawns", round_of_spawns, 256},
    {"jumps", round_of_jumps, 256},
    {"alarms", round_of_alarms, 256},
    {"alternate stacks", round_of_alternate_stacks, 256},
    {"fibers", round_of_fibers, 256},
    {"tiny threads", round_of_tiny_threads, 256},
    {"cancellation", round_of_cancellation, 256},
    {"recursion", round_of_recursion, 8192},
    {"pipes", round_of_pipes, 256},
    {"registers", round_of_registers, 256},
    {"masks", round_of_masks, 256},
    {"timers", round_of_timers, 256},
    {"mappings", round_of_mappings, 256},
    {"control", round_of_control, 256},
    {"storm", round_of_storm, 256},
    {"own ticks", round_of_own_ticks, 256},
};
enum { WORKERS = sizeof workers / sizeof workers[0] };
_Static_assert(sizeof workers / sizeof workers[0] * sizeof(struct progress) <= PAGE_BYTES, "the page has room for all");
_Static_assert(sizeof(struct progress) == 128, "as the watcher reads it");

static struct progress *page;

_Noreturn void fail(const char *file, int line, const char *what) {
    const int number = errno;
    const struct progress *const me = mine;
    dprintf(2, "torture: %s, %s: %s:%d: not so: %s (errno %d)\n", me ? me->name : "a thread or child", me ? me->step : "",
            file, line, what, number);
    for (;;) syscall(SYS_exit_group, 97);
}

void rest(long micros) {
    struct timespec left = {micros / 1000000, micros % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0) CHECK(errno == EINTR);
}

void begin_loading(void) { CHECK(pthread_rwlock_rdlock(&loading) == 0); }
void end_loading(void) { CHECK(pthread_rwlock_unlock(&loading) == 0); }
void begin_quiet(void) { CHECK(pthread_rwlock_wrlock(&loading) == 0); }
void end_quiet(void) { CHECK(pthread_rwlock_unlock(&loading) == 0); }

static void *work(void *argument) {
    const struct worker *const worker = argument;
    mine = &page[worker - workers];
    mine->thread = (unsigned long)gettid();
    do {
        worker->round(mine->rounds);
        mine->rounds++;
    } while (!over);
    step("over");
    return NULL;
}

static void start_worker(pthread_t *thread, int i) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, workers[i].stack_kib << 10) == 0);
    strcpy(page[i].name, workers[i].name);
    CHECK(pthread_create(thread, &attributes, work, (void *)&workers[i]) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

static void take_order(const char *order) {
    if (strcmp(order, "locked") == 0) orders.is_locked = 1;
    if (strcmp(order, "realtime") == 0) {
        orders.signal = SIGALRM;
        orders.other_signal = SIGPROF;
    }
    if (strcmp(order, "tight") == 0) orders.is_tight = 1;
    if (strcmp(order, "handler") == 0) orders.has_handler = 1;
    if (strcmp(order, "switched") == 0) orders.is_switched = 1;
    if (strncmp(order, "started=", 8) == 0) {
        orders.is_started = 1;
        orders.profile = order + 8;
    }
    if (strcmp(order, "children") == 0) orders.checks_children = 1;
    if (strncmp(order, "profile=", 8) == 0) orders.profile = order + 8;
}

static void prepare_loading(void) {
    pthread_rwlockattr_t attributes;
    CHECK(pthread_rwlockattr_init(&attributes) == 0);
    CHECK(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    CHECK(pthread_rwlock_init(&loading, &attributes) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    const long seconds = atol(argv[1]);
    orders.signal = SIGPROF;
    orders.other_signal = SIGALRM;
    orders.libraries = argv[3];
    for (int i = 4; i < argc; i++) take_order(argv[i]);
    const int file = open(argv[2], O_RDWR | O_CLOEXEC);
    page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(file >= 0 && page != MAP_FAILED && close(file) == 0);
    /* One who may not lock memory runs as well without. */
    if (orders.is_locked && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) printf("not locked\n");
    prepare_loading();
    prepare_control();
    prepare_masks();
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) start_worker(&threads[i], i);
    struct timespec now, end;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
    end.tv_sec += seconds;
    do {
        rest(20000);
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
    over = 1;
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    finish_control();
    printf("sent %ld\nown %ld\ndiverted %ld\n", signals_sent, ticks_of_own, ticks_diverted);
    return 0;
}
