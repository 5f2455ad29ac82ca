/* An application that loads libraries as its arguments say, in order.
 *
 *   open FILE MODE   loads the library: local, deep (RTLD_DEEPBIND), global, or apart (a namespace of its own)
 *   start FILE       calls the ProfilerStart of the library loaded last, and prints what it answered
 *   stop             calls its ProfilerStop
 *   call NAME        calls its function NAME, which takes and gives nothing
 *   tick N           sends itself SIGPROF N times
 *   burn N           computes until the session that ProfilerGetCurrentState tells of has N samples
 *   close            lets go of the library loaded last
 *   default          from now on the functions called are those that the loader finds first
 *   environment NAME prints the variable
 *   times N          does the rest N times
 *   thread           does the rest in a thread, while the first one waits for it
 *   beside           computes in a thread for the rest of the program
 *   fork             does the rest in a child as well, first there
 *   print TEXT       a line on standard output
 *   exit N           ends; without it the status is 0
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gperftools/profiler.h>

/* Ends an application that hangs, long before the tests' own limit. */
enum { PATIENCE_SECONDS = 540 };

static void *library;

static void die(const char *what, const char *why) {
    fprintf(stderr, "loading: %s: %s\n", what, why);
    exit(99);
}

static void *symbol(const char *name) {
    void *const found = library != NULL ? dlsym(library, name) : dlsym(RTLD_DEFAULT, name);
    if (found == NULL) die(name, dlerror());
    return found;
}

static void run(char **orders);

static void do_open(char **operands) {
    const char *const mode = operands[1];
    if (strcmp(mode, "apart") == 0)
        library = dlmopen(LM_ID_NEWLM, operands[0], RTLD_NOW);
    else if (strcmp(mode, "deep") == 0)
        library = dlopen(operands[0], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    else
        library = dlopen(operands[0], RTLD_NOW | (strcmp(mode, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == NULL) die(operands[0], dlerror());
}

static void do_start(char **operands) {
    int (*start)(const char *);
    *(void **)&start = symbol("ProfilerStart");
    printf("started %d\n", start(operands[0]) != 0);
    fflush(stdout);
}

static void do_call(char **operands) {
    void (*function)(void);
    *(void **)&function = symbol(operands[0]);
    function();
}

static void do_stop(char **operands) {
    (void)operands;
    do_call((char *[]){"ProfilerStop"});
}

static void do_tick(char **operands) {
    for (int i = atoi(operands[0]); i > 0; i--)
        if (syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF) != 0) die("tgkill", "failed");
}

static void do_burn(char **operands) {
    struct ProfilerState state = {0};
    void (*ask)(struct ProfilerState *);
    *(void **)&ask = symbol("ProfilerGetCurrentState");
    volatile unsigned long work = 0;
    do {
        for (int i = 0; i < 100000; i++) work = work * 3 + 1;
        ask(&state);
        if (!state.enabled) die("burn", "no session runs");
    } while (state.samples_gathered < atoi(operands[0]));
}

static void do_close(char **operands) {
    (void)operands;
    if (dlclose(library) != 0) die("dlclose", dlerror());
    library = NULL;
}

static void do_default(char **operands) {
    (void)operands;
    library = NULL;
}

static void do_environment(char **operands) {
    const char *const value = getenv(operands[0]);
    printf("%s is %s\n", operands[0], value != NULL ? value : "not set");
}

static void *run_in_thread(void *orders) {
    run(orders);
    return NULL;
}

static void *compute(void *unused) {
    for (volatile unsigned long work = 0;; work = work * 3 + 1) continue;
    return unused;
}

static void do_thread(char **orders) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_in_thread, orders) != 0) die("thread", "cannot be made");
    pthread_join(thread, NULL);
}

static void do_beside(char **operands) {
    pthread_t thread;
    (void)operands;
    if (pthread_create(&thread, NULL, compute, NULL) != 0) die("thread", "cannot be made");
}

static void do_fork(char **operands) {
    (void)operands;
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) die("fork", "failed");
    if (child == 0) return;
    if (waitpid(child, &status, 0) != child || status != 0) die("fork", "the child came to a bad end");
}

static void do_print(char **operands) { puts(operands[0]); }

static void do_exit(char **operands) { exit(atoi(operands[0])); }

static void do_times(char **orders) {
    for (int i = atoi(orders[0]); i > 0; i--) run(orders + 1);
}

static const struct order {
    const char *name;
    int operands;
    void (*run)(char **operands);
    /* Whether it does what follows itself. */
    int has_rest;
} orders[] = {
    {"open", 2, do_open, 0},         {"start", 1, do_start, 0},   {"stop", 0, do_stop, 0},
    {"call", 1, do_call, 0},         {"tick", 1, do_tick, 0},     {"burn", 1, do_burn, 0},
    {"close", 0, do_close, 0},       {"times", 1, do_times, 1},   {"thread", 0, do_thread, 1},
    {"default", 0, do_default, 0},   {"beside", 0, do_beside, 0}, {"fork", 0, do_fork, 0},
    {"environment", 1, do_environment, 0}, {"print", 1, do_print, 0}, {"exit", 1, do_exit, 0},
};

static void run(char **words) {
    while (*words != NULL) {
        const struct order *order = orders;
        while (strcmp(order->name, *words) != 0)
            if (++order == orders + sizeof orders / sizeof orders[0]) die(*words, "no such order");
        order->run(++words);
        if (order->has_rest) return;
        words += order->operands;
    }
}

int main(int argc, char **argv) {
    (void)argc;
    alarm(PATIENCE_SECONDS);
    run(argv + 1);
    return 0;
}
