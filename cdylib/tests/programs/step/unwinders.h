/* The three unwinders that are compared, each from the context of a trap. */
#ifndef UNWINDERS_H_
#define UNWINDERS_H_

#include <stdint.h>
#include <ucontext.h>

enum { OURS, LIBUNWIND, LIBGCC, UNWINDERS };


extern const char *const unwinder_names[UNWINDERS];

/* PCs, innermost first, without the zeros that some unwinders put behind the outermost frame. */
struct chain {
    int depth;
    uintptr_t pcs[128];
};

/* Stands last in a chain whose unwinder read memory that is not there. */
#define FAULT ((uintptr_t)-1)

/* The handler of SIGSEGV and SIGBUS. It leaves by a jump: no mask, SA_NODEFER. */
void on_fault(int number);

/* For ordinary context, before the first trap: what the unwinders initialise at first use. */
void prepare_unwinders(void);

/* For the handler of the trap that `context` belongs to. */
void unwind_all(ucontext_t *context, struct chain chains[UNWINDERS]);

/* Set while the handler runs. */
extern volatile int in_handler;

#endif
