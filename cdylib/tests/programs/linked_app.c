/* An application that is linked with the profiler, and has a second thread. usage: linked_app FILE; C and C++. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gperftools/profiler.h>

static void *tick(void *number) {
    raise(*(int *)number);
    return number;
}

int main(int argc, char **argv) {
    const char *clock = getenv("CPUPROFILE_CLOCK");
    int number = clock && strcmp(clock, "wall") == 0 ? SIGALRM : SIGPROF;
    if (argc == 2 && !ProfilerStart(argv[1])) return 1;
    for (int i = 0; i < 4; i++) raise(number);
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, tick, &number) || pthread_join(thread, &result) || result != &number) return 2;
    if (argc == 2) ProfilerStop();
    puts("hello");
    return 3;
}
