/* Ticks under the eyes of detector.c. usage: watched CASE FILE
 *   everywhere   ticks at hundreds of new code addresses, in callbacks from libc, on new threads, and while another
 *                thread asks for the state and flushes all the time
 *   errno        ticks in all these places keep errno
 *   allocating   a filter callback allocates: must be detected
 *   locking      a filter callback takes a mutex: must be detected
 *   waiting      a filter callback waits on a futex: must be detected */
#define _GNU_SOURCE
#include <errno.h>
#include <gperftools/profiler.h>
#include <linux/futex.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "raw_tick.h"

/* Defined by detector.c; absent when it is not preloaded. */
extern void detector_enter(void) __attribute__((weak));
extern void detector_leave(void) __attribute__((weak));

enum { CANARY = 4242 };

static int check_errno;
static volatile int ticks_sent;

/* Inlined, so that each use is a code address of its own. */
static inline __attribute__((always_inline)) void watched_tick(void) {
    const long process = getpid();
    const long thread = gettid();
    errno = CANARY;
    if (detector_enter != NULL) detector_enter();
    raw_tick(process, thread);
    if (detector_leave != NULL) detector_leave();
    if (check_errno && errno != CANARY) {
        fprintf(stderr, "errno became %d in tick %d\n", errno, ticks_sent);
        exit(1);
    }
    ticks_sent++;
}

#define BODY(number)                                                       \
    if (depth > 0) depth += functions[(number * 7 + depth) % 256](depth - 1); \
    watched_tick();
static long (*const functions[256])(long);
#include "many_functions.h"

static int compare(const void *a, const void *b) {
    watched_tick();
    return *(const int *)a - *(const int *)b;
}

static void from_libc(void) {
    int numbers[16] = {9, 3, 7, 1, 8, 2, 6, 4, 5, 0, 11, 15, 13, 12, 14, 10};
    qsort(numbers, 16, sizeof numbers[0], compare);
    const int key = 7;
    if (bsearch(&key, numbers, 16, sizeof numbers[0], compare) == NULL) exit(1);
}

static void everywhere_once(void) {
    for (int i = 0; i < FUNCTION_COUNT; i++) functions[i](i % 5);
    from_libc();
}

static void *on_a_thread(void *unused) {
    watched_tick();
    everywhere_once();
    return unused;
}

static volatile int finished;

static void *nosy_thread(void *unused) {
    struct ProfilerState state;
    while (!finished) {
        ProfilerGetCurrentState(&state);
        ProfilerFlush();
    }
    return unused;
}

static void start(const char *file, int (*filter)(void *)) {
    struct ProfilerOptions options = {filter, NULL};
    if (!ProfilerStartWithOptions(file, &options)) {
        fputs("the profiler does not start\n", stderr);
        exit(1);
    }
}

static void run_thread(void *(*body)(void *), pthread_t *thread) {
    if (pthread_create(thread, NULL, body, NULL) != 0) exit(1);
}

static void everywhere(const char *file) {
    pthread_t nosy, thread;
    start(file, NULL);
    everywhere_once();
    run_thread(nosy_thread, &nosy);
    for (int i = 0; i < 5; i++) {
        everywhere_once();
        run_thread(on_a_thread, &thread);
        pthread_join(thread, NULL);
    }
    finished = 1;
    pthread_join(nosy, NULL);
    ProfilerStop();
    printf("%d %ld\n", ticks_sent, 1 + (long)(clock() / CLOCKS_PER_SEC));
}

static int allocating_filter(void *unused) {
    (void)unused;
    void *volatile block = malloc(32);
    free(block);
    return 1;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int locking_filter(void *unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 1;
}

static int waiting_filter(void *unused) {
    (void)unused;
    static int word = 1;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const char *name = argv[1];
    check_errno = strcmp(name, "errno") == 0;
    if (check_errno || strcmp(name, "everywhere") == 0) {
        everywhere(argv[2]);
        return 0;
    }
    if (strcmp(name, "allocating") == 0) start(argv[2], allocating_filter);
    else if (strcmp(name, "locking") == 0) start(argv[2], locking_filter);
    else if (strcmp(name, "waiting") == 0) start(argv[2], waiting_filter);
    else return 2;
    watched_tick();
    return 0;
}
