/* What fault_shim.c tells fault_injector.c, by prctl(FAULT_BEGIN, state, start and end of the profiler's code). */
enum { FAULT_BEGIN = 0x46415545 };

struct fault_state {
    int magic; /* FAULT_BEGIN */
    int own;   /* Above 0 while the program makes calls of its own. */
};
