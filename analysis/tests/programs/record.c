/* Does what it is told, one order after another:
 *   burn MS          uses so much CPU time, and then more until the profiler, if it runs, has a sample for each 50 ms
 *   sampled N        uses CPU time until the profiler has so many samples of it
 *   cpu              prints how many seconds of it this process has used, and the children that it has waited for
 *   threads N MS     does so in N more threads, called worker-1, worker-2, ... at once
 *   fork MS          does so in a child, and waits for it
 *   child ORDER...   lets a child do all that follows, waits for it, and ends as it does
 *   daemon MS        does so in a child in a session of its own, which says so and waits for ever; goes on when it has
 *   count SIGNAL     says that such signals came, until the first SIGTERM, and prints how many did
 *   wait             waits for ever
 *   say TEXT         prints a line
 *   signal SIGNAL    sends itself that signal
 *   parent SIGNAL    sends its parent that signal
 *   segv             writes to where nothing is
 *   exec PROGRAM...  becomes another program
 *   exit N           ends
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* As in google/perftools/profiler.h; NULL where the library is not preloaded. */
struct profiler_state {
    int enabled;
    time_t start_time;
    char profile_name[1024];
    int samples_gathered;
};
void ProfilerGetCurrentState(struct profiler_state *) __attribute__((weak));

static volatile unsigned long sink;

/* Called by its own name in a profile. */
__attribute__((noinline)) void burn_for(long ms) {
    struct timespec now;
    long until = 0;
    for (;;) {
        for (int i = 0; i < 20000; i++) sink += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        long nanos = now.tv_sec * 1000000000L + now.tv_nsec;
        if (until == 0) until = nanos + ms * 1000000L;
        if (nanos >= until) return;
    }
}

static long samples(void) {
    struct profiler_state state = {0};
    if (!ProfilerGetCurrentState) exit(98);
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

/* When ticks come is the scheduler's choice. */
static void burn_until_sampled(long ms) {
    struct profiler_state state = {0};
    if (ProfilerGetCurrentState) ProfilerGetCurrentState(&state);
    const long goal = state.samples_gathered + ms / 50;
    burn_for(ms);
    while (state.enabled && samples() < goal) burn_for(1);
}

static double cpu(void) {
    struct timespec own;
    struct rusage children;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    return own.tv_sec + own.tv_nsec / 1e9 + children.ru_utime.tv_sec + children.ru_stime.tv_sec +
           (children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6;
}

static long thread_ms;

static void *work(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", (long)argument);
    pthread_setname_np(pthread_self(), name);
    burn_for(thread_ms);
    return NULL;
}

static volatile sig_atomic_t counted, ended;

static void count(int number) {
    if (number == SIGTERM)
        ended = 1;
    else
        counted++;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *order = argv[i];
        long number = i + 1 < argc ? atol(argv[i + 1]) : 0;
        if (!strcmp(order, "burn")) {
            burn_until_sampled(number), i++;
        } else if (!strcmp(order, "sampled")) {
            while (samples() < number) burn_for(1);
            i++;
        } else if (!strcmp(order, "cpu")) {
            printf("cpu %.6f\n", cpu());
            fflush(stdout);
        } else if (!strcmp(order, "threads")) {
            pthread_t threads[64];
            thread_ms = atol(argv[i + 2]);
            for (long n = 0; n < number; n++) pthread_create(&threads[n], NULL, work, (void *)(n + 1));
            for (long n = 0; n < number; n++) pthread_join(threads[n], NULL);
            i += 2;
        } else if (!strcmp(order, "fork")) {
            pid_t child = fork();
            if (child == 0) burn_until_sampled(number), exit(0);
            waitpid(child, NULL, 0), i++;
        } else if (!strcmp(order, "child")) {
            int status = 0;
            pid_t child = fork();
            if (child != 0) {
                waitpid(child, &status, 0);
                return WEXITSTATUS(status);
            }
        } else if (!strcmp(order, "daemon")) {
            int said[2];
            char byte = 0;
            if (pipe(said) != 0) return 97;
            if (fork() == 0) {
                setsid();
                burn_until_sampled(number);
                printf("daemon %d\n", getpid());
                fflush(stdout);
                freopen("/dev/null", "w", stdout);
                freopen("/dev/null", "w", stderr);
                while (write(said[1], &byte, 1) != 1) continue;
                for (;;) pause();
            }
            close(said[1]);
            while (read(said[0], &byte, 1) < 0) continue;
            close(said[0]), i++;
        } else if (!strcmp(order, "count")) {
            sigset_t none;
            struct sigaction action = {.sa_handler = count};
            sigset_t both;
            sigemptyset(&both);
            sigaddset(&both, number);
            sigaddset(&both, SIGTERM);
            sigprocmask(SIG_BLOCK, &both, NULL);
            sigaction(number, &action, NULL);
            sigaction(SIGTERM, &action, NULL);
            printf("ready\n");
            fflush(stdout);
            sigemptyset(&none);
            while (!ended) {
                sig_atomic_t before = counted;
                /* A tick's handler ends it, too. */
                sigsuspend(&none);
                if (counted != before) printf("came\n"), fflush(stdout);
            }
            printf("counted %d\n", (int)counted), i++;
        } else if (!strcmp(order, "wait")) {
            for (;;) pause();
        } else if (!strcmp(order, "say")) {
            printf("%s\n", argv[++i]);
            fflush(stdout);
        } else if (!strcmp(order, "signal")) {
            raise(number), i++;
        } else if (!strcmp(order, "parent")) {
            kill(getppid(), number), i++;
        } else if (!strcmp(order, "segv")) {
            *(volatile int *)8 = 1;
        } else if (!strcmp(order, "exec")) {
            execvp(argv[i + 1], argv + i + 1);
            return 99;
        } else if (!strcmp(order, "exit")) {
            exit(number);
        }
    }
    return 0;
}
