/* Programs whose threads wait, for profiles of elapsed time.
 *
 *   wall waits SAMPLES    a thread in each kind of wait that the kernel goes on with behind a handler; says which ended with EINTR
 *   wall short COUNT      threads of some milliseconds, one after another; says how long they were there in all
 *   wall other-ways SAMPLES  a thread that `pthread_create` does not make
 *   wall crowd COUNT SAMPLES  so many threads that wait; says how long they were there in all
 *   wall handles          threads that wait, in a program that handles SIGALRM from some moment on and sets an alarm
 *   wall leader-ends      the first thread ends, and another goes on
 *   wall forks            the same wait in a child
 *
 * Each goes on until the profile has so many samples that its test can tell, and prints `all SECONDS` last: how long it was there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Until the profile has so many samples more. */
static __attribute__((noinline)) void until_sampled(int samples) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    const int goal = state.samples_gathered + samples;
    do {
        const struct timespec pause = {0, 5000000};
        /* A tick may end it. */
        nanosleep(&pause, NULL);
        ProfilerGetCurrentState(&state);
        CHECK(state.enabled);
    } while (state.samples_gathered < goal);
}

static int read_end, write_end, fifo_end, lock_file, listener, datagrams;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t cond_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static atomic_int is_over;
static pid_t child;
static char fifo[64], path[64];

/* Threads that are in their functions. */
static atomic_int entered;

/* Each gives 0, or -1 with errno. */
static __attribute__((noinline)) int waits_in_read(void) {
    entered++;
    char byte;
    return read(read_end, &byte, 1) == 1 ? 0 : -1;
}
static __attribute__((noinline)) int waits_in_waitpid(void) {
    entered++;
    return waitpid(child, NULL, 0) == child ? 0 : -1;
}
static __attribute__((noinline)) int waits_in_mutex(void) {
    entered++;
    errno = pthread_mutex_lock(&mutex);
    return errno == 0 ? pthread_mutex_unlock(&mutex) : -1;
}
static __attribute__((noinline)) int waits_in_cond(void) {
    entered++;
    pthread_mutex_lock(&cond_mutex);
    while (!is_over && (errno = pthread_cond_wait(&cond, &cond_mutex)) == 0) {}
    const int failed = !is_over;
    pthread_mutex_unlock(&cond_mutex);
    return failed ? -1 : 0;
}
static __attribute__((noinline)) int waits_in_semaphore(void) {
    entered++;
    return sem_wait(&semaphore) == 0 ? 0 : -1;
}
static __attribute__((noinline)) int waits_in_flock(void) {
    entered++;
    const int file = open(path, O_RDWR);
    return file >= 0 && flock(file, LOCK_EX) == 0 ? close(file) : -1;
}
static __attribute__((noinline)) int waits_in_open(void) {
    entered++;
    const int file = open(fifo, O_RDONLY);
    return file >= 0 ? close(file) : -1;
}
static __attribute__((noinline)) int waits_in_accept(void) {
    entered++;
    const int taken = accept(listener, NULL, NULL);
    return taken >= 0 ? close(taken) : -1;
}
static __attribute__((noinline)) int waits_in_recv(void) {
    entered++;
    char byte;
    return recv(datagrams, &byte, 1, 0) == 1 ? 0 : -1;
}

static const struct {
    const char *name;
    int (*wait)(void);
} kinds[] = {
    {"read", waits_in_read},           {"waitpid", waits_in_waitpid}, {"mutex", waits_in_mutex},
    {"cond", waits_in_cond},           {"semaphore", waits_in_semaphore}, {"flock", waits_in_flock},
    {"open", waits_in_open},           {"accept", waits_in_accept},   {"recv", waits_in_recv},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
static int errors[KINDS];

static void *wait_in(void *kind) {
    const size_t i = (size_t)kind;
    errors[i] = kinds[i].wait() == 0 ? 0 : errno;
    return NULL;
}

static void waits(int samples) {
    int ends[2], sockets[2];
    CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
    read_end = ends[0], write_end = ends[1], datagrams = sockets[0];
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    snprintf(path, sizeof path, "lock-%d", getpid());
    snprintf(fifo, sizeof fifo, "fifo-%d", getpid());
    lock_file = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(lock_file >= 0 && flock(lock_file, LOCK_EX) == 0 && mkfifo(fifo, 0600) == 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "socket-%d", getpid());
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
    int of_child[2];
    CHECK(pipe(of_child) == 0);
    child = fork();
    if (child == 0) {
        char byte;
        close(of_child[1]);
        _exit((int)read(of_child[0], &byte, 1));
    }
    CHECK(child > 0 && pthread_mutex_lock(&mutex) == 0);
    pthread_t threads[KINDS];
    for (size_t i = 0; i < KINDS; i++) CHECK(pthread_create(&threads[i], NULL, wait_in, (void *)i) == 0);
    while (entered < KINDS) sched_yield();
    until_sampled(KINDS * samples);
    is_over = 1;
    CHECK(write(write_end, "x", 1) == 1 && write(of_child[1], "x", 1) == 1);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&cond_mutex);
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&cond_mutex);
    sem_post(&semaphore);
    flock(lock_file, LOCK_UN);
    do fifo_end = open(fifo, O_WRONLY);
    while (fifo_end < 0 && errno == EINTR);
    int caller;
    do {
        caller = socket(AF_UNIX, SOCK_STREAM, 0);
    } while (connect(caller, (struct sockaddr *)&address, sizeof address) != 0 && errno == EINTR && close(caller) == 0);
    CHECK(send(sockets[1], "x", 1, 0) == 1);
    for (size_t i = 0; i < KINDS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        if (errors[i] != 0) printf("%s %s\n", kinds[i].name, strerror(errors[i]));
    }
    unlink(path), unlink(fifo), unlink(address.sun_path);
}

static double short_lives[4];

static __attribute__((noinline)) void *short_life(void *place) {
    const double begin = now();
    /* Different lengths, none a multiple of the period. */
    const struct timespec length = {0, 1000000 + 1100000 * (long)(size_t)place};
    struct timespec left = length;
    while (nanosleep(&left, &left) != 0) {}
    short_lives[(size_t)place] += now() - begin;
    return NULL;
}

static void shorts(long count) {
    for (long i = 0; i < count; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, short_life, (void *)(size_t)(i % 4)) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    printf("short %.6f\n", short_lives[0] + short_lives[1] + short_lives[2] + short_lives[3]);
}

static __attribute__((noinline)) int made_otherwise(void *unused) {
    (void)unused;
    char byte;
    return read(read_end, &byte, 1) == 1 ? 0 : -1;
}

/* A thread that waits, by a pipe of its own: of those that wait for one pipe the kernel wakes who has waited for longest without
 * being interrupted, so whose tick would come next. */
struct waiting {
    pthread_t thread;
    int ends[2];
    double lived;
};

/* Notes how long it was there. */
static __attribute__((noinline)) void *waits_with_others(void *argument) {
    struct waiting *const waiting = argument;
    const double begin = now();
    char byte;
    CHECK(read(waiting->ends[0], &byte, 1) == 1);
    waiting->lived = now() - begin;
    return NULL;
}

static void let_wait(struct waiting *waiting) {
    CHECK(pipe(waiting->ends) == 0);
    CHECK(pthread_create(&waiting->thread, NULL, waits_with_others, waiting) == 0);
}

static void release(struct waiting *waiting) { CHECK(write(waiting->ends[1], "x", 1) == 1); }

static void join(struct waiting *waiting) {
    CHECK(pthread_join(waiting->thread, NULL) == 0);
    close(waiting->ends[0]), close(waiting->ends[1]);
}

static void other_ways(int samples) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    read_end = ends[0];
    thrd_t thread;
    const double begin = now();
    CHECK(thrd_create(&thread, made_otherwise, NULL) == thrd_success);
    until_sampled(samples);
    CHECK(write(ends[1], "x", 1) == 1);
    int result;
    CHECK(thrd_join(thread, &result) == thrd_success && result == 0);
    printf("otherwise %.6f\n", now() - begin);
}

static void crowd(long count, int samples) {
    struct waiting *crowd = calloc((size_t)count, sizeof *crowd);
    const double begin = now();
    for (long i = 0; i < count; i++) let_wait(&crowd[i]);
    until_sampled(samples);
    for (long i = 0; i < count; i++) release(&crowd[i]);
    double all = 0;
    for (long i = 0; i < count; i++) join(&crowd[i]), all += crowd[i].lived;
    printf("crowd %.6f\nmeanwhile %.6f\n", all, now() - begin);
    free(crowd);
}

static volatile sig_atomic_t alarms;
static void on_alarm(int number) { alarms += number == SIGALRM; }

static void handles(void) {
    struct waiting other;
    let_wait(&other);
    until_sampled(200);
    /* The kernel gives it to another thread where this one has a tick pending: whose wait is to go on. */
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, old;
    CHECK(sigaction(SIGALRM, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    alarm(1);
    /* Not by `pause`: who got the alarm may have been the other thread, before. */
    while (alarms == 0) until_sampled(1);
    until_sampled(50);
    CHECK(alarms == 1);
    release(&other), join(&other);
}

static double main_began;
static void *outlives(void *unused) {
    until_sampled(400);
    printf("all %.6f\n", now() - main_began);
    exit(0);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc >= 2 && ProfilerGetCurrentState);
    const double begin = now();
    if (strcmp(argv[1], "waits") == 0 && argc == 3) {
        waits(atoi(argv[2]));
    } else if (strcmp(argv[1], "short") == 0 && argc == 3) {
        shorts(atol(argv[2]));
    } else if (strcmp(argv[1], "other-ways") == 0 && argc == 3) {
        other_ways(atoi(argv[2]));
    } else if (strcmp(argv[1], "crowd") == 0 && argc == 4) {
        crowd(atol(argv[2]), atoi(argv[3]));
    } else if (strcmp(argv[1], "handles") == 0) {
        handles();
    } else if (strcmp(argv[1], "leader-ends") == 0) {
        pthread_t thread;
        main_began = begin;
        CHECK(pthread_create(&thread, NULL, outlives, NULL) == 0);
        pthread_exit(NULL);
    } else if (strcmp(argv[1], "forks") == 0) {
        const pid_t forked = fork();
        if (forked == 0) {
            crowd(2, 1000);
            return 0;
        }
        int status;
        CHECK(waitpid(forked, &status, 0) == forked && status == 0);
    } else {
        CHECK(!"a known order");
    }
    printf("all %.6f\n", now() - begin);
    return 0;
}
