/* What the workers of the torture share. Each worker is a thread that repeats a round of its own and checks what came of it;
 * how far it is stands in a page that a watching process reads (cdylib/tests/soak/). */
#ifndef TORTURE_H
#define TORTURE_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* One worker, as the watcher reads it: 128 bytes. */
struct progress {
    char name[32];
    char step[64];
    atomic_ulong rounds;
    atomic_ulong thread;
    unsigned long unused[2];
};

enum { PAGE_BYTES = 4096 };

/* What the program was told. */
struct orders {
    int signal;               /* the profiling signal */
    int other_signal;         /* SIGPROF or SIGALRM, which is not */
    const char *libraries;    /* the directory of the plugins */
    const char *profile;      /* where the profiler writes, or null */
    int is_locked;            /* mlockall was called for */
    int is_tight;             /* memory may run out */
    int has_handler;          /* the program handles the profiling signal itself */
    int is_switched;          /* SIGUSR2 switches profiling */
    int is_started;           /* the program starts and stops the profiler */
    int checks_children;      /* each child that ticks leaves a profile beside that */
};

extern struct orders orders;
extern atomic_int over;
extern atomic_long signals_sent, ticks_of_own, ticks_diverted;
extern _Thread_local struct progress *mine;

/* Says what the calling worker is about to do. */
static inline void step(const char *what) {
    struct progress *const me = mine;
    if (me == NULL) return;
    size_t length = strlen(what);
    if (length > sizeof me->step - 1) length = sizeof me->step - 1;
    memcpy(me->step, what, length);
    me->step[length] = 0;
}

/* Ends the program at once: nothing that the profiler does at an orderly end may hide what went wrong. */
_Noreturn void fail(const char *file, int line, const char *what);

#define CHECK(condition)                                         \
    do {                                                         \
        if (!(condition)) fail(__FILE__, __LINE__, #condition);  \
    } while (0)

/* A number that is different for each round, and the same in each run. */
static inline unsigned long mix(unsigned long value) {
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdul;
    value = (value ^ (value >> 29)) * 0xc4ceb9fe1a85ec53ul;
    return value ^ (value >> 32);
}

/* Sleeps whatever signals come. */
void rest(long micros);

/* Whoever calls the loader, or makes a thread, does it between these two. A forked child that calls the loader is forked
 * while nobody does: otherwise it would wait for a lock whose owner it does not have, with or without a profiler. */
void begin_loading(void);
void end_loading(void);
void begin_quiet(void);
void end_quiet(void);

/* Opens one of the plugins, from 0 to PLUGINS - 1, calls what is in it and checks that. */
enum { PLUGINS = 4 };
void use_plugin(unsigned long number);
unsigned long expected_of_plugin(unsigned long seed);

/* The sum of the counts of the profile at `path`, or -1 where it is none. */
long samples_of(const char *path);

/* One round of each kind of worker; `number` counts the worker's rounds. */
void round_of_exceptions(unsigned long number);
void round_of_loading(unsigned long number);
void round_of_heap(unsigned long number);
void round_of_forks(unsigned long number);
void round_of_spawns(unsigned long number);
void round_of_jumps(unsigned long number);
void round_of_alarms(unsigned long number);
void round_of_alternate_stacks(unsigned long number);
void round_of_fibers(unsigned long number);
void round_of_tiny_threads(unsigned long number);
void round_of_cancellation(unsigned long number);
void round_of_recursion(unsigned long number);
void round_of_pipes(unsigned long number);
void round_of_registers(unsigned long number);
void round_of_masks(unsigned long number);
void round_of_timers(unsigned long number);
void round_of_mappings(unsigned long number);
void round_of_control(unsigned long number);
void round_of_storm(unsigned long number);
void round_of_own_ticks(unsigned long number);

void prepare_masks(void);
void prepare_control(void);
void finish_control(void);

/* In libthrowing.so. Throws through `depth` frames, or through a function of somebody else's; 1 if all was as it should. */
int throw_through_frames(unsigned long seed, int depth);
int throw_through(void (*through)(void (*)(void *), void *), unsigned long seed);

#endif
