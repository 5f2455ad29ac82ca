/* A library of the application's own with a profiler inside, whose names it keeps to itself or not. */
#include <stdlib.h>

#include <gperftools/profiler.h>

void begin(void);
void end(void);

void begin(void) {
    if (ProfilerStart(getenv("PLUGIN_PROFILE")) == 0) abort();
}

void end(void) { ProfilerStop(); }
