/*
 * Profiles itself through the C interface: two functions, one with twice the CPU time of the other.
 *
 *   ci/install.sh /tmp/sigprof
 *   cc -std=c11 -O2 -g -I/tmp/sigprof/include examples/c/burn.c -L/tmp/sigprof/lib -Wl,-rpath,/tmp/sigprof/lib -lprofiler -o /tmp/burn
 *   /tmp/burn && /tmp/sigprof/bin/sigprof top burn.prof
 *
 * An argument sets the seconds of CPU time to spend, 1.5 without one.
 */
#include <gperftools/profiler.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PROFILE "burn.prof"

/* Enough rounds that asking for the time takes no part of it that counts. */
enum { ROUNDS = 4000000 };

static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Multiplies and shifts, as a hash does. */
__attribute__((noinline)) static uint64_t burn_integers(double seconds) {
    uint64_t hash = 14695981039346656037u;
    for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) {
        for (int i = 0; i < ROUNDS; i++) {
            hash = (hash ^ (hash >> 29)) * 1099511628211u;
        }
    }
    return hash;
}

/* Divides, as Newton's method for a square root does. */
__attribute__((noinline)) static double burn_floats(double seconds) {
    double root = 1.0;
    for (double end = cpu_seconds() + seconds; cpu_seconds() < end;) {
        for (int i = 0; i < ROUNDS; i++) {
            root = 0.5 * (root + 2.0 / root) + 1e-9;
        }
    }
    return root;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1.5;

    if (!ProfilerStart(PROFILE)) {
        fprintf(stderr, "burn: profiling to %s could not be started\n", PROFILE);
        return 1;
    }
    uint64_t hash = burn_integers(seconds * 2 / 3);
    double root = burn_floats(seconds / 3);
    /* The state is empty once profiling has stopped. */
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    ProfilerStop();

    printf("hash %016llx, root %.6f\n", (unsigned long long)hash, root);
    printf("wrote %s with %d samples\n", state.profile_name, state.samples_gathered);
    return 0;
}
