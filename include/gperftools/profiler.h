/*
 * The CPU profiler's C interface: the functions, structures and meanings of gperftools 2.18.
 *
 * Programs link with -lprofiler, or are run with LD_PRELOAD=libprofiler.so and CPUPROFILE=file and need none of
 * this. All functions may be called from any thread; unless said otherwise, not from a signal handler.
 */
#ifndef BASE_PROFILER_H_
#define BASE_PROFILER_H_

#include <time.h>

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Options. Set all bytes to zero, then the members that you need. */
struct ProfilerOptions {
  /*
   * If not null, it is called for each tick, in the signal handler, on the thread that the tick interrupted, with
   * filter_in_thread_arg; the tick is recorded if it returns non-zero. It must be async-signal-safe.
   */
  int (*filter_in_thread)(void *arg);
  void *filter_in_thread_arg;
};

/*
 * Starts profiling the whole process into the file `fname`, which appears, complete, at ProfilerFlush or
 * ProfilerStop. A relative name is relative to the current working directory. The rate is CPUPROFILE_FREQUENCY, or
 * 100 ticks per second of CPU time.
 *
 * Returns non-zero, or 0 if nothing was started: `fname` is null or cannot be written, the profiler is running, or
 * the program handles the profiling signal itself.
 */
PERFTOOLS_DLL_DECL int ProfilerStart(const char *fname);

/* As ProfilerStart, with options, or without if it is null. */
PERFTOOLS_DLL_DECL int ProfilerStartWithOptions(const char *fname, const struct ProfilerOptions *options);

/* Stops profiling and writes the file. Does nothing if the profiler is not running. */
PERFTOOLS_DLL_DECL void ProfilerStop(void);

/* Writes a complete file of everything so far; profiling continues. Does nothing if the profiler is not running. */
PERFTOOLS_DLL_DECL void ProfilerFlush(void);

/* Deprecated: they do nothing. */
PERFTOOLS_DLL_DECL void ProfilerEnable(void);
PERFTOOLS_DLL_DECL void ProfilerDisable(void);

/* Non-zero while the profiler is running. */
PERFTOOLS_DLL_DECL int ProfilingIsEnabledForAllThreads(void);

/* Not needed: all threads are profiled. Gives the calling thread its own timer at once, instead of when the process's
 * timer first interrupts it. */
PERFTOOLS_DLL_DECL void ProfilerRegisterThread(void);

/* What the profiler is doing. */
struct ProfilerState {
  int enabled;             /* non-zero while it is running */
  time_t start_time;       /* when it was started, in seconds since 1970; 0 when off */
  char profile_name[1024]; /* the file's name as given; empty when off */
  int samples_gathered;    /* sum of the counts so far, INT_MAX at most; 0 when off */
};

/*
 * Fills in `state`. The bytes after the NUL of profile_name are an unaligned `const int *`. It points to the number of
 * ticks that were recorded since the program started, which increases with each tick. It is there also if the profiler
 * is off.
 */
PERFTOOLS_DLL_DECL void ProfilerGetCurrentState(struct ProfilerState *state);

/*
 * Stores at most `max_depth` program counters into `result`, innermost first, and returns how many.
 *
 * If `uc` is a ucontext_t, as a signal handler gets it, they are the stack that it describes, beginning with its
 * program counter; skip_count is ignored. If it is null, they are the caller's stack, without its skip_count
 * innermost frames. May be called in a signal handler.
 */
PERFTOOLS_DLL_DECL int ProfilerGetStackTrace(void **result, int max_depth, int skip_count, const void *uc);

#ifdef __cplusplus
}
#endif

#endif
