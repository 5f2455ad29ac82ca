/* The calls that were really made: the traps show each of them, with no unwinder and no call frame information. */
#ifndef SHADOW_H_
#define SHADOW_H_

#include "unwinders.h"

/* Follows calls from the next trap on, in a function whose chain needs no doubt. */
void shadow_start(void);

/* True until the next trap. */
int shadow_is_starting(void);

/* Calls may be made or left unseen from now on: in a signal handler, on another stack. */
void shadow_lost(void);

/* For the handler of a trap, at each: true with the chain as it ought to be, false where that is not known. `believed`
   is what an unwinder says, taken for the chain of the very first trap. */
int shadow_follow(const ucontext_t *context, const struct chain *believed, struct chain *chain);

#endif
