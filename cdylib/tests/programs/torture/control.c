/* Uses the profiler's interface while all of it goes on: flushes and asks, starts and stops, or switches by the signal. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../weak_profiler.h"
#include "torture.h"

/* Profiles of sessions: as many names as are kept. */
enum { NAMES = 8, DEPTH = 100 };

static void name_of(char *path, size_t size, unsigned long number) {
    snprintf(path, size, "%s.%lu", orders.profile, number % NAMES);
}

static struct ProfilerState state_now(void) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    return state;
}

/* The signal's default action would end the program until somebody handles it. */
void prepare_control(void) {
    if (orders.is_started) {
        char path[4096];
        name_of(path, sizeof path, 0);
        CHECK(ProfilerStart != NULL && ProfilerStart(path) != 0);
    }
    if (orders.is_switched) CHECK(raise(SIGUSR2) == 0);
}

static void start_and_stop(unsigned long number) {
    char path[4096];
    name_of(path, sizeof path, number);
    if (number > 0) {
        step("ProfilerStart");
        CHECK(ProfilerStart(path) != 0);
    }
    CHECK(ProfilingIsEnabledForAllThreads() != 0);
    rest((long)(mix(number) % 5000));
    if (number % 2 == 0) {
        step("ProfilerFlush");
        ProfilerFlush();
        step("read a flushed profile");
        CHECK(samples_of(path) >= 0);
    }
    const struct ProfilerState state = state_now();
    CHECK(state.enabled != 0 && strcmp(state.profile_name, path) == 0);
    step("ProfilerStop");
    ProfilerStop();
    CHECK(state_now().enabled == 0);
    step("read a profile");
    CHECK(samples_of(path) >= state.samples_gathered);
}

/* A profile for each time that it is switched on: the older ones are removed. */
static void remove_older(void) {
    char directory[4096];
    snprintf(directory, sizeof directory, "%s", getenv("CPUPROFILE"));
    char *const slash = strrchr(directory, '/');
    CHECK(slash != NULL);
    *slash = 0;
    DIR *const names = opendir(directory);
    CHECK(names != NULL || orders.is_tight);
    if (names == NULL) return;
    long newest = -1;
    for (int removing = 0; removing < 2; removing++) {
        rewinddir(names);
        for (const struct dirent *entry; (entry = readdir(names)) != NULL;) {
            const size_t length = strlen(slash + 1);
            if (strncmp(entry->d_name, slash + 1, length) != 0 || entry->d_name[length] != '.') continue;
            char *end;
            const long number = strtol(entry->d_name + length + 1, &end, 10);
            if (*end != 0) continue;
            if (!removing && number > newest) newest = number;
            if (removing && number < newest - NAMES) unlinkat(dirfd(names), entry->d_name, 0);
        }
    }
    CHECK(closedir(names) == 0);
}

void round_of_control(unsigned long number) {
    if (ProfilerFlush == NULL) {
        rest(10000);
        return;
    }
    if (orders.is_started) {
        start_and_stop(number);
        return;
    }
    if (orders.is_switched) {
        step("switch profiling");
        CHECK(raise(SIGUSR2) == 0);
        if (number % 32 == 31) remove_older();
    }
    step("ProfilerFlush");
    if (number % 4 == 0) ProfilerFlush();
    step("ProfilerGetCurrentState");
    const struct ProfilerState first = state_now(), second = state_now();
    CHECK(orders.is_switched || second.samples_gathered >= first.samples_gathered);
    ProfilerRegisterThread();
    step("ProfilerGetStackTrace");
    void *frames[DEPTH];
    CHECK(ProfilerGetStackTrace(frames, DEPTH, 0, NULL) > 0);
    rest(3000);
}

void finish_control(void) {
    if (!orders.is_switched || ProfilerGetCurrentState == NULL) return;
    if (state_now().enabled) CHECK(raise(SIGUSR2) == 0 && state_now().enabled == 0);
    /* The last profiles that are kept are complete. */
    remove_older();
}
