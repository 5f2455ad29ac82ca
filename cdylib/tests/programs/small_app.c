/* An application that needs nothing but ISO C and weak references: it computes for some periods, and until it has a sample where it is
 * profiled, says hello, and ends with status 3. */
#include <stdio.h>
#include <time.h>

/* As <gperftools/profiler.h> has it, which not every compiler here finds. */
struct state {
    int enabled;
    time_t start_time;
    char profile_name[1024];
    int samples_gathered;
};
extern void ProfilerGetCurrentState(struct state *) __attribute__((weak));

static int waits_for_a_sample(void) {
    struct state state = {0};
    if (ProfilerGetCurrentState) ProfilerGetCurrentState(&state);
    return state.enabled && state.samples_gathered == 0;
}

int main(void) {
    const clock_t end = clock() + CLOCKS_PER_SEC / 20;
    volatile unsigned long work = 0;
    while (clock() < end || waits_for_a_sample())
        for (int i = 0; i < 10000; i++) work = work * 3 + 1;
    puts("hello");
    return 3;
}
