/* A plugin that sends its process ticks from its own code. */
#include <signal.h>

__attribute__((noinline)) int in_plugin(int times) {
    int failures = 0;
    for (int i = 0; i < times; i++) failures += raise(SIGPROF) != 0;
    return -failures;
}
