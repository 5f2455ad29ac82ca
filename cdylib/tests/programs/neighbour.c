/* A library beside the profiler in a program, which does what EARLY says when it is initialised, and what LATE says at the end:
 *
 *   threads  starts a thread that computes for the rest of the program
 *   fork     has a child, which ends by exit or _exit, and waits for it
 *   exec     replaces the program by itself, without the variable
 *   open     opens and closes a library, NEIGHBOUR
 *   signal   asks for the handlers of all signals
 *   exit     ends the program with status 3 and a word
 *   start    starts the profiler, to write to STARTED
 *   stop     stops it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weak_profiler.h"

static void die(const char *what) {
    fprintf(stderr, "neighbour: %s\n", what);
    _exit(97);
}

static void *compute(void *unused) {
    for (volatile unsigned long work = 0;; work = work * 3 + 1) continue;
    return unused;
}

static void start_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, compute, NULL) != 0) die("no thread");
}

static void have_child(int by_exit) {
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        unsetenv("LATE");
        if (by_exit) exit(0);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) die("the child came to a bad end");
}

static void have_children(void) {
    have_child(0);
    have_child(1);
}

/* The arguments are those of the program, as the kernel keeps them. */
static void replace(void) {
    static char text[65536];
    char *arguments[64] = {0};
    FILE *const file = fopen("/proc/self/cmdline", "re");
    if (file == NULL) die("no arguments");
    const size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    size_t place = 0;
    for (int i = 0; place < length && i < 63; i++, place += strlen(text + place) + 1) arguments[i] = text + place;
    unsetenv("EARLY");
    execv("/proc/self/exe", arguments);
    die("exec failed");
}

static void open_and_close(void) {
    void *const library = dlopen(getenv("NEIGHBOUR"), RTLD_NOW);
    if (library == NULL || dlclose(library) != 0) die(dlerror());
}

static void ask_for_handlers(void) {
    struct sigaction action;
    for (int number = 1; number < 32; number++)
        if (sigaction(number, NULL, &action) != 0) die("sigaction");
}

static void end(void) {
    puts("hello");
    exit(3);
}

static void start(void) {
    if (ProfilerStart == NULL || ProfilerStart(getenv("STARTED")) == 0) die("not started");
}

static void stop(void) {
    if (ProfilerStop == NULL) die("no profiler");
    ProfilerStop();
}

static const struct {
    const char *name;
    void (*run)(void);
} actions[] = {
    {"threads", start_thread},   {"fork", have_children}, {"exec", replace}, {"open", open_and_close},
    {"signal", ask_for_handlers}, {"exit", end},           {"start", start},  {"stop", stop},
};

static void act(const char *variable) {
    const char *const name = getenv(variable);
    for (size_t i = 0; name != NULL && i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, name) == 0) actions[i].run();
}

__attribute__((constructor)) static void early(void) { act("EARLY"); }

__attribute__((destructor)) static void late(void) { act("LATE"); }
