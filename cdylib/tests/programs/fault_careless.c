/* A profiler with one of the faults that the tests of failing calls look for, named by CARELESS; without it a correct one,
 * which counts SIGPROF, and has its own handler for the only chain. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gperftools/profiler.h>

static char name[4096], temporary[4200];
static volatile sig_atomic_t ticks;
static int runs;

static int is(const char *fault) {
    const char *const chosen = getenv("CARELESS");
    return chosen != NULL && strcmp(chosen, fault) == 0;
}

static void on_tick(int number) {
    ticks += number == SIGPROF;
    if (is("changes errno")) errno = ENOANO;
}

/* What is to be done where a call has failed. */
static void fail(const char *cause) {
    if (is("ends the application")) abort();
    if (is("hangs"))
        for (;;) pause();
    if (is("says nothing")) return;
    dprintf(2, "careless: no profile at %s: %s\n", is("hides the path") ? "" : name, is("hides the cause") ? "" : cause);
}

static int write_all(int file, const void *bytes, size_t length) {
    const char *next = bytes;
    while (length > 0) {
        const ssize_t written = write(file, next, length);
        if (written < 0 && errno == EINTR && !is("gives up")) continue;
        if (written < 0) return -1;
        if (is("is content with less")) return 0;
        next += written;
        length -= (size_t)written;
    }
    return 0;
}

static int write_profile(int file) {
    const uintptr_t words[] = {0, 3, 0, 10000, 0, (uintptr_t)ticks, 1, (uintptr_t)&on_tick, 0, 1, 0};
    char text[1 << 16];
    size_t length = 0;
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return -1;
    for (;;) {
        const ssize_t got = read(maps, text + length, sizeof text - length);
        if (got < 0 && errno == EINTR && !is("gives up")) continue;
        if (got < 0) {
            const int cause = errno;
            close(maps);
            errno = cause;
            return -1;
        }
        if (got == 0) break;
        length += (size_t)got;
    }
    close(maps);
    return write_all(file, words, sizeof words) == 0 && write_all(file, text, length) == 0 ? 0 : -1;
}

static int open_again(const char *path, int flags) {
    int file;
    do
        file = open(path, flags, 0666);
    while (file < 0 && errno == EINTR && !is("gives up"));
    return file;
}

void ProfilerFlush(void) {
    const int in_place = is("writes in place");
    const int file = open_again(in_place ? name : temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    if (file < 0) {
        fail(strerror(errno));
        return;
    }
    const int written = write_profile(file), cause = errno;
    if (!is("leaves files open")) close(file);
    if (written == 0 && (in_place || rename(temporary, name) == 0)) return;
    fail(strerror(written == 0 ? errno : cause));
    if (!in_place && !is("leaves files")) unlink(temporary);
}

int ProfilerStart(const char *profile) {
    const struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    snprintf(name, sizeof name, "%s", profile);
    snprintf(temporary, sizeof temporary, "%s.new", profile);
    if (sigaction(SIGPROF, &action, NULL) != 0) {
        fail(strerror(errno));
        return 0;
    }
    return runs = 1;
}

void ProfilerStop(void) {
    if (!runs) return;
    if (is("loses ticks")) ticks--;
    ProfilerFlush();
    runs = 0;
    sigset_t all;
    sigfillset(&all);
    if (is("blocks signals")) sigprocmask(SIG_SETMASK, &all, NULL);
}

int ProfilingIsEnabledForAllThreads(void) { return runs; }
