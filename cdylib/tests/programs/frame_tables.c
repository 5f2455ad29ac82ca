/*
 * Profiles ticks that are called through relay.c, linked in or opened. usage: frame_tables FILE CASE [LIBRARY]...
 * It prints "same place" where a case opens two libraries after each other, at the same addresses.
 */
#include <dlfcn.h>
#include <gperftools/profiler.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int relay_t(int (*callback)(int), int argument);

/* Where it is linked in. */
extern relay_t relay __attribute__((weak));

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "frame_tables: %s\n", what);
        exit(1);
    }
}

static relay_t *relay_of(void *library) {
    relay_t *function = NULL;
    *(void **)&function = dlsym(library, "relay");
    require(function != NULL, "no relay");
    return function;
}

static void *open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    require(library != NULL, "a library cannot be opened");
    return library;
}

__attribute__((noinline)) static int ticks(int number) {
    int result = 0;
    for (int i = 0; i < number; i++) result |= raise(SIGPROF);
    return result;
}

/* The call is not the last thing it does. */
__attribute__((noinline)) static int calls_relay(relay_t *function, int number) {
    volatile int result = function(ticks, number);
    return result;
}

int main(int argc, char **argv) {
    require(argc > 2, "usage: frame_tables FILE CASE [LIBRARY]...");
    const char *which = argv[2];
    int result = 0;
    if (!strcmp(which, "linked")) {
        require(ProfilerStart(argv[1]), "no start");
        result |= calls_relay(relay, 5);
    } else if (!strcmp(which, "opened-before")) {
        relay_t *function = relay_of(open_library(argv[3]));
        require(ProfilerStart(argv[1]), "no start");
        result |= calls_relay(function, 5);
    } else if (!strcmp(which, "flushed")) {
        require(ProfilerStart(argv[1]), "no start");
        relay_t *function = relay_of(open_library(argv[3]));
        result |= calls_relay(function, 2);
        ProfilerFlush();
        result |= calls_relay(function, 5);
    } else if (!strcmp(which, "other-closed")) {
        require(ProfilerStart(argv[1]), "no start");
        relay_t *function = relay_of(open_library(argv[3]));
        void *other = open_library(argv[4]);
        result |= calls_relay(function, 2);
        require(dlclose(other) == 0, "a library cannot be closed");
        result |= calls_relay(function, 5);
    } else if (!strcmp(which, "replaced")) {
        require(ProfilerStart(argv[1]), "no start");
        relay_t *last = NULL;
        for (int round = 0; round < 20; round++) {
            void *library = open_library(argv[3 + round % 2]);
            relay_t *function = relay_of(library);
            if (function == last) puts("same place");
            ProfilerFlush();
            result |= calls_relay(function, 1);
            require(dlclose(library) == 0, "a library cannot be closed");
            last = function;
        }
    } else {
        require(0, "no such case");
    }
    ProfilerStop();
    return result;
}
