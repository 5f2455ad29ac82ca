/* What the single-stepping test counts and remembers. */
#ifndef TALLY_H_
#define TALLY_H_

#include <stdio.h>
#include <ucontext.h>

/* What follows belongs to this region. */
void tally_region(const char *name);

/* Compares the unwinders at a trap, and gives the number of comparisons in the present region. For the handler. */
long tally(ucontext_t *context);

/* See `step.h`. */
void tally_outermost(const void *pc);

void tally_report(FILE *out);

#endif
