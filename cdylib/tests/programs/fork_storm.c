/* Forks while other threads do all they can do to the profiler. usage: fork_storm FORKS PLUGIN
 *
 * Threads send ticks to themselves, flush, ask for the state, open and close PLUGIN and call what is in it, and switch
 * the toggle if CPUPROFILESIGNAL is set. Each child switches it on, too, sends itself ticks, uses the interface, and ends
 * by _exit: exit would wait for the loader's lock, which a thread of the parent may have held. The program prints the
 * ticks of the parent, "ticks N", and its children, "child PID". A child that hangs is ended by an alarm. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "weak_profiler.h"

enum { PATIENCE_SECONDS = 540, TICKS_OF_A_CHILD = 5 };

static atomic_int over;
static atomic_long ticks;
static const char *plugin;

static void tick(void) {
    CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF) == 0);
}

static void *send_ticks(void *unused) {
    while (!over) {
        tick();
        ticks++;
    }
    return unused;
}

static void *flush(void *unused) {
    while (!over) ProfilerFlush();
    return unused;
}

static void *ask(void *unused) {
    struct ProfilerState state;
    while (!over) ProfilerGetCurrentState(&state);
    return unused;
}

static void *switch_profiling(void *unused) {
    /* Each period of profiling is a file. */
    while (!over) {
        raise(SIGUSR2);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return unused;
}

/* A handler meets an object that comes and goes. */
static void *use_plugin(void *unused) {
    while (!over) {
        void *const library = dlopen(plugin, RTLD_NOW);
        CHECK(library != NULL);
        int (*const plugin_tick)(void) = (int (*)(void))(size_t)dlsym(library, "plugin_tick");
        CHECK(plugin_tick != NULL && plugin_tick() == 0);
        ticks++;
        CHECK(dlclose(library) == 0);
    }
    return unused;
}

static void be_a_child(void) {
    alarm(PATIENCE_SECONDS);
    if (getenv("CPUPROFILESIGNAL")) raise(SIGUSR2);
    for (int i = 0; i < TICKS_OF_A_CHILD; i++) tick();
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    ProfilerFlush();
    ProfilerStop();
    _exit(0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    plugin = argv[2];
    void *(*const works[])(void *) = {send_ticks, send_ticks, flush, ask, use_plugin, switch_profiling};
    enum { WORKS = sizeof works / sizeof works[0] };
    const int threads = getenv("CPUPROFILESIGNAL") ? WORKS : WORKS - 1;
    /* Before the first period of profiling a tick would end the program: nobody handles the signal. */
    if (getenv("CPUPROFILESIGNAL")) raise(SIGUSR2);
    pthread_t thread[WORKS];
    for (int i = 0; i < threads; i++) CHECK(pthread_create(&thread[i], NULL, works[i], NULL) == 0);
    for (int i = 0; i < atoi(argv[1]); i++) {
        int status = 0;
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) be_a_child();
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFSIGNALED(status)) dprintf(2, "child %d was ended by signal %d\n", i, WTERMSIG(status));
        CHECK(status == 0);
        printf("child %d\n", (int)child);
        fflush(stdout);
    }
    over = 1;
    for (int i = 0; i < threads; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    printf("ticks %ld\n", ticks);
    return 0;
}
