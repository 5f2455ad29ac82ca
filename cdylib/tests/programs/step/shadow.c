/* See the header.
 *
 * An instruction was a call if the stack pointer went down by a word, and the word there is the address right behind
 * the instruction. A call is over when the stack pointer is above that word, however that came about: by a return, a
 * jump out of it, or an exception.
 */
#define _GNU_SOURCE
#include "shadow.h"

enum { CALLS = 256, LONGEST_CALL = 8 };

static struct call {
    uintptr_t place, return_address;
} calls[CALLS];
static int used;
static enum { LOST, STARTING, KNOWN } state;
static uintptr_t last_pc, last_sp;
/* The frames outside the one where following began. */
static struct chain outer;

void shadow_start(void) {
    state = STARTING;
}

int shadow_is_starting(void) {
    return state == STARTING;
}

void shadow_lost(void) {
    state = LOST;
}

static void note_call(uintptr_t pc, uintptr_t sp) {
    if (sp != last_sp - sizeof(uintptr_t)) return;
    const uintptr_t word = *(const uintptr_t *)sp;
    if (word == pc || word <= last_pc || word > last_pc + LONGEST_CALL) return;
    if (used == CALLS) {
        state = LOST;
        return;
    }
    calls[used].place = sp;
    calls[used++].return_address = word;
}

int shadow_follow(const ucontext_t *context, const struct chain *believed, struct chain *chain) {
    const uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    const uintptr_t sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    if (state == STARTING && believed->depth > 0) {
        outer = *believed;
        used = 0;
        state = KNOWN;
    } else if (state == KNOWN) {
        while (used > 0 && calls[used - 1].place < sp) used--;
        note_call(pc, sp);
    }
    last_pc = pc;
    last_sp = sp;
    if (state != KNOWN) return 0;
    const int room = sizeof chain->pcs / sizeof chain->pcs[0];
    chain->depth = 0;
    chain->pcs[chain->depth++] = pc;
    for (int i = used; i > 0 && chain->depth < room; i--) chain->pcs[chain->depth++] = calls[i - 1].return_address;
    for (int i = 1; i < outer.depth && chain->depth < room; i++) chain->pcs[chain->depth++] = outer.pcs[i];
    return 1;
}
