/* The C interface of the profiler, for programs that run without it, too: a function is null where the library is neither linked
 * nor preloaded. Weak references take nothing out of an archive: a program that is to link that includes the header itself, or has
 * another reference to it. */
#ifndef WEAK_PROFILER_H
#define WEAK_PROFILER_H

#include <gperftools/profiler.h>

#pragma weak ProfilerFlush
#pragma weak ProfilerGetCurrentState
#pragma weak ProfilerGetStackTrace
#pragma weak ProfilerRegisterThread
#pragma weak ProfilerStart
#pragma weak ProfilerStartWithOptions
#pragma weak ProfilerStop
#pragma weak ProfilingIsEnabledForAllThreads

#endif
