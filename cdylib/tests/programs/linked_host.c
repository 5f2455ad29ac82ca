/* A host that is linked with the profiler. usage: linked_host FILE; C and C++. */
#include <signal.h>
#include <stdio.h>

#include <gperftools/profiler.h>

int main(int argc, char **argv) {
    if (argc == 2 && !ProfilerStart(argv[1])) return 1;
    for (int i = 0; i < 5; i++) raise(SIGPROF);
    if (argc == 2) ProfilerStop();
    puts("hello");
    return 3;
}
