/* Linked without the dynamic loader: profiles three functions that call each other. usage: static_program FILE */
#include <gperftools/profiler.h>
#include <signal.h>

enum { TICKS = 10 };

__attribute__((noinline)) static int innermost(int ticks) {
    int result = 0;
    for (int i = 0; i < ticks; i++) result |= raise(SIGPROF);
    return result;
}

__attribute__((noinline)) static int middle(int ticks) { return innermost(ticks) + innermost(0); }

__attribute__((noinline)) static int outermost(int ticks) { return middle(ticks) + middle(0); }

int main(int argc, char **argv) {
    if (argc != 2 || !ProfilerStart(argv[1])) return 1;
    const int result = outermost(TICKS);
    ProfilerStop();
    return result;
}
