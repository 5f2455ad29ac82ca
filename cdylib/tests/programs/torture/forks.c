/* Children of all kinds: what each does, how it ends, and its profile. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

extern char **environ;

enum { TICKS_OF_A_CHILD = 5 };

static char *const nothing[] = {NULL};

/* System calls go on behind the profiling signal: so does this one. */
static int status_of(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void expect_exit(pid_t child, int code) {
    const int status = status_of(child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code) dprintf(2, "a child's status is %#x\n", (unsigned)status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void send_ticks(void) {
    const long thread = gettid();
    for (int i = 0; i < TICKS_OF_A_CHILD; i++) CHECK(syscall(SYS_tgkill, getpid(), thread, orders.signal) == 0);
}

/* The profiles of a process, by their names, and of the program that replaced it: each is whole if it is there, and the first
 * has so many samples at least. They are removed, so that there are never many. */
static void expect_profiles(pid_t process, int samples) {
    if (orders.profile == NULL || orders.is_started) return;
    for (int i = 1; i <= 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, i == 1 ? "%s_%d" : "%s_%d.2", orders.profile, (int)process);
        const int is_there = access(path, F_OK) == 0, is_due = i == 1 && samples > 0 && orders.checks_children;
        const long found = is_there ? samples_of(path) : 0;
        if (found < (is_due ? samples : 0)) dprintf(2, "%s has %ld samples of %d\n", path, found, samples);
        CHECK(found >= (is_due ? samples : 0));
        CHECK(!is_there || unlink(path) == 0);
    }
}

static void be_a_child(unsigned long number) {
    char *const arguments[] = {"true", NULL};
    mine = NULL; /* The page is the parent's. */
    switch (number % 8) {
    case 0: _exit(7);
    case 1:
        execve("/bin/true", arguments, nothing);
        _exit(1);
    case 2:
        CHECK(throw_through_frames(number, 40));
        _exit(7);
    case 3:
        use_plugin(number);
        _exit(7);
    case 4:
        send_ticks();
        _exit(7);
    case 5: {
        void *const memory = malloc(100000);
        CHECK(memory != NULL || orders.is_tight);
        free(memory);
        const pid_t child = fork();
        CHECK(child >= 0 || orders.is_tight);
        if (child == 0) _exit(8);
        if (child > 0) expect_exit(child, 8);
        _exit(7);
    }
    case 6: {
        char *const arguments_of_shell[] = {"sh", "-c", "kill -9 $$", NULL};
        execve("/bin/sh", arguments_of_shell, nothing);
        _exit(1);
    }
    default:
        execv("/bin/true", arguments);
        _exit(1);
    }
}

void round_of_forks(unsigned long number) {
    const int kind = (int)(number % 8), calls_loader = kind == 3;
    if (calls_loader) begin_quiet();
    step("fork");
    const pid_t child = fork();
    if (child == 0) be_a_child(number);
    if (calls_loader) end_quiet();
    if (child < 0 && orders.is_tight) return;
    CHECK(child > 0);
    char what[64];
    static const char *const kinds[] = {"_exit", "exec", "throw", "dlopen", "ticks", "fork", "sh", "exec profiled"};
    snprintf(what, sizeof what, "wait for child %d: %s", (int)child, kinds[kind]);
    step(what);
    if (kind == 6) {
        const int status = status_of(child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    } else {
        expect_exit(child, kind == 1 || kind == 7 ? 0 : 7);
    }
    expect_profiles(child, kind == 4 ? TICKS_OF_A_CHILD : 0);
}

void round_of_spawns(unsigned long number) {
    pid_t child;
    char *const arguments[] = {"sh", "-c", "exit 5", NULL};
    if (number % 2 == 0) {
        step("vfork");
        child = vfork();
        if (child == 0) {
            execve("/bin/sh", arguments, nothing);
            _exit(1);
        }
        if (child < 0 && orders.is_tight) return;
        CHECK(child > 0);
    } else {
        step("posix_spawn");
        const int error = posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, nothing);
        if (error != 0 && orders.is_tight) return;
        CHECK(error == 0);
    }
    step("wait for sh");
    expect_exit(child, 5);
    if (number % 16 == 0) {
        step("vfork and _exit");
        child = vfork();
        if (child == 0) _exit(6);
        if (child > 0) expect_exit(child, 6);
    }
    rest(2000);
}
