/* What the single-stepping test counts and remembers. */
#ifndef TALLY_H_
#define TALLY_H_

#include <stdio.h>
#include <ucontext.h>

/* Compares at most so often at one address; 0 for each time. */
void tally_at_most(int comparisons);

/* What follows belongs to this region. */
void tally_region(const char *name);

/* Compares the unwinders at a trap, and gives the number of instructions stepped in the present region. For the handler. */
long tally(ucontext_t *context);

/* See `step.h`. */
void tally_outermost(const void *pc);

void tally_report(FILE *out);

#endif
