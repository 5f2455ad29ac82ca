/* guessed OPTIMIZED BARE: opens both libraries, and has a function of the first call one of this program's own, which has
 * a function of the second send a signal. The second has no tables, and keeps a frame pointer: what is behind it is a
 * guess. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "raw_tick.h"

typedef int calls_back(void (*)(void), size_t);

static calls_back *bare;

static void tick(void) {
    raw_tick(getpid(), gettid());
}

static void calls_bare(void) {
    printf("%d\n", bare(tick, 1));
}

int main(int count, char **words) {
    if (count < 3) {
        return 2;
    }
    void *optimized = dlopen(words[1], RTLD_NOW);
    void *without_tables = dlopen(words[2], RTLD_NOW);
    if (!optimized || !without_tables) {
        return 3;
    }
    calls_back *all_saved;
    *(void **)&all_saved = dlsym(optimized, "all_saved");
    *(void **)&bare = dlsym(without_tables, "large");
    return all_saved && bare && all_saved(calls_bare, 1) >= 0 ? 0 : 4;
}
