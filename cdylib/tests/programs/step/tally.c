/* See the header. All storage is static: the handler must not allocate. */
#define _GNU_SOURCE
#include "tally.h"
#include "shadow.h"
#include "unwinders.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Who is equal to whom, of the unwinders. */
enum verdict { ALL_EQUAL, LIBGCC_DIFFERS, LIBUNWIND_DIFFERS, OURS_DIFFERS, ALL_DIFFER, VERDICTS };

static const char *const verdict_names[VERDICTS] = {
    "all-equal", "libgcc-differs", "libunwind-differs", "ours-differs", "all-differ",
};

/* Behind the unwinders' chains, what was really called; without PCs where that is not known. */
enum { TRUTH = UNWINDERS, CHAINS };

enum { OBJECTS = 64, REGIONS = 64, DIFFERENCES = 4096, PCS = 1 << 20, OUTERMOST = 8, NAME_BYTES = 200 };

struct object {
    uintptr_t start, end, base;
    char name[NAME_BYTES];
    long steps;
};

/* At `pc`, of a frame of some chain, two unwinders go different ways. */
struct difference {
    enum verdict verdict;
    uintptr_t pc;
    struct object *object;
    const char *region;
    long count;
    int depth;
    struct chain chains[CHAINS];
    int is_right;
};

static struct object objects[OBJECTS];
static struct region_count {
    const char *name;
    long stepped, compared;
} region_counts[REGIONS];
static int region_used;
static struct region_count *region = &region_counts[0];
static struct difference differences[DIFFERENCES];
static long dropped_differences;
/* By PC, how often it was compared. */
static uintptr_t pcs[PCS];
static unsigned char visits[PCS];
static long verdicts[VERDICTS];
static long stepped, compared, repeated, distinct, whole, right, agreed, libgcc_faults;
/* Comparisons with what was called, and who was equal to it. */
static long known, unwinder_right[UNWINDERS];
static int most_visits;
static uintptr_t outermost[OUTERMOST];
extern char _start[];

void tally_at_most(int comparisons) {
    most_visits = comparisons;
}

void tally_region(const char *name) {
    if (region_used == REGIONS) abort();
    region = &region_counts[region_used++];
    region->name = name;
}

void tally_outermost(const void *pc) {
    for (int i = 0; i < OUTERMOST; i++) {
        if (outermost[i] == (uintptr_t)pc) return;
        if (outermost[i] == 0) {
            outermost[i] = (uintptr_t)pc;
            return;
        }
    }
    abort();
}

/* A chain is whole when it ends in the program's entry point, whatever the unwinders think. */
static int is_whole(const struct chain *chain) {
    enum { START_BYTES = 64 };
    if (chain->depth == 0) return 0;
    const uintptr_t last = chain->pcs[chain->depth - 1];
    if (last - (uintptr_t)_start < START_BYTES) return 1;
    for (int i = 0; i < OUTERMOST && outermost[i] != 0; i++) {
        if (outermost[i] == last) return 1;
    }
    return 0;
}

static int equal(const struct chain *left, const struct chain *right) {
    return left->depth == right->depth &&
           memcmp(left->pcs, right->pcs, (size_t)left->depth * sizeof left->pcs[0]) == 0;
}

static int common(const struct chain *left, const struct chain *right) {
    int depth = 0;
    while (depth < left->depth && depth < right->depth && left->pcs[depth] == right->pcs[depth]) depth++;
    return depth;
}

/* The object of `pc`; the first one stands for what belongs to none. */
static struct object *object_of(uintptr_t pc) {
    static struct object *last = &objects[0];
    if (pc >= last->start && pc < last->end) return last;
    struct dl_find_object found;
    if (_dl_find_object((void *)pc, &found) != 0) return &objects[0];
    const uintptr_t start = (uintptr_t)found.dlfo_map_start;
    for (int i = 1; i < OBJECTS; i++) {
        struct object *object = &objects[i];
        const char *name = found.dlfo_link_map->l_name;
        if (object->start == start && strncmp(object->name, name, NAME_BYTES - 1) == 0) return last = object;
        if (object->start != 0) continue;
        object->start = start;
        object->end = (uintptr_t)found.dlfo_map_end;
        object->base = found.dlfo_link_map->l_addr;
        strncpy(object->name, name, NAME_BYTES - 1);
        return last = object;
    }
    return &objects[0];
}

/* How often `pc` was compared before, as far as there is room to know. */
static int count_visit(uintptr_t pc) {
    for (uintptr_t place = pc * 0x9e3779b97f4a7c15u >> 44;; place = (place + 1) % PCS) {
        if (pcs[place] == 0 && distinct >= PCS / 2) return 0;
        if (pcs[place] == 0) distinct++;
        if (pcs[place] != 0 && pcs[place] != pc) continue;
        pcs[place] = pc;
        if (visits[place] < UCHAR_MAX) visits[place]++;
        return visits[place] - 1;
    }
}

static void note_difference(enum verdict verdict, int is_right, const struct chain chains[CHAINS]) {
    const int with_libunwind = common(&chains[OURS], &chains[LIBUNWIND]);
    const int with_libgcc = common(&chains[OURS], &chains[LIBGCC]);
    int depth = with_libunwind < with_libgcc ? with_libunwind : with_libgcc;
    if (verdict == ALL_EQUAL && chains[TRUTH].depth > 0) depth = common(&chains[OURS], &chains[TRUTH]);
    /* The frame that the unwinders step from in different ways is the last one they have in common, or, where that
       is no code, the one that led there. */
    while (depth > 1 && object_of(chains[OURS].pcs[depth - 1]) == &objects[0]) depth--;
    const uintptr_t pc = depth == 0 ? 0 : chains[OURS].pcs[depth - 1];
    for (int i = 0; i < DIFFERENCES; i++) {
        struct difference *difference = &differences[i];
        if (difference->count == 0) {
            difference->verdict = verdict;
            difference->is_right = is_right;
            difference->pc = pc;
            difference->object = object_of(pc);
            difference->region = region->name;
            difference->depth = depth;
            memcpy(difference->chains, chains, sizeof difference->chains);
        }
        if (difference->verdict == verdict && difference->is_right == is_right && difference->pc == pc) {
            difference->count++;
            return;
        }
    }
    dropped_differences++;
}

long tally(ucontext_t *context) {
    static struct chain chains[CHAINS];
    static uintptr_t last_pc;
    const uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    /* An instruction that repeats itself (`rep movsb`) traps after each time, with the same stack. */
    if (pc == last_pc) {
        repeated++;
        return region->stepped;
    }
    last_pc = pc;
    stepped++;
    region->stepped++;
    const int is_seen_enough = count_visit(pc) >= most_visits && most_visits != 0 && !shadow_is_starting();
    if (is_seen_enough) {
        shadow_follow(context, NULL, &chains[TRUTH]);
        return region->stepped;
    }
    unwind_all(context, chains);
    const int is_known = shadow_follow(context, &chains[LIBGCC], &chains[TRUTH]);
    if (!is_known) chains[TRUTH].depth = 0;
    const int libunwind_equal = equal(&chains[OURS], &chains[LIBUNWIND]);
    const int libgcc_equal = equal(&chains[OURS], &chains[LIBGCC]);
    enum verdict verdict;
    if (libunwind_equal) {
        verdict = libgcc_equal ? ALL_EQUAL : LIBGCC_DIFFERS;
    } else if (libgcc_equal) {
        verdict = LIBUNWIND_DIFFERS;
    } else {
        verdict = equal(&chains[LIBUNWIND], &chains[LIBGCC]) ? OURS_DIFFERS : ALL_DIFFER;
    }
    verdicts[verdict]++;
    if (is_known) {
        known++;
        for (int i = 0; i < UNWINDERS; i++) unwinder_right[i] += equal(&chains[i], &chains[TRUTH]);
    }
    /* What was called decides; where that is not known, another unwinder that says the same, up to the entry point. */
    const int is_right = is_known ? equal(&chains[OURS], &chains[TRUTH])
                                  : (libunwind_equal || libgcc_equal) && is_whole(&chains[OURS]);
    right += is_right;
    agreed += is_right || libunwind_equal || libgcc_equal;
    libgcc_faults += chains[LIBGCC].depth > 0 && chains[LIBGCC].pcs[chains[LIBGCC].depth - 1] == FAULT;
    whole += is_whole(&chains[OURS]);
    if (verdict != ALL_EQUAL || !is_right) note_difference(verdict, is_right, chains);
    compared++;
    object_of(pc)->steps++;
    region->compared++;
    return region->stepped;
}

static void print_pc(FILE *out, uintptr_t pc) {
    Dl_info info;
    if (pc == FAULT) {
        fputs("fault", out);
        return;
    }
    if (dladdr((void *)pc, &info) == 0) {
        fprintf(out, "%#lx", (unsigned long)pc);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    fprintf(out, "%s+%#lx", slash == NULL ? info.dli_fname : slash + 1,
            (unsigned long)(pc - (uintptr_t)info.dli_fbase));
    if (info.dli_sname == NULL) return;
    fprintf(out, "(%s+%#lx)", info.dli_sname, (unsigned long)(pc - (uintptr_t)info.dli_saddr));
}

static void print_chain(FILE *out, const char *name, const struct chain *chain, int from) {
    enum { FRAMES = 6 };
    fprintf(out, "  %-9s depth %d:", name, chain->depth);
    for (int i = from; i < chain->depth && i < from + FRAMES; i++) {
        fputc(' ', out);
        print_pc(out, chain->pcs[i]);
    }
    fprintf(out, "%s\n", chain->depth > from + FRAMES ? " ..." : "");
}

static void print_difference(FILE *out, const struct difference *difference) {
    const char *slash = strrchr(difference->object->name, '/');
    fprintf(out, "difference %s %s count %ld at %s+%#lx ", difference->is_right ? "right" : "wrong",
            verdict_names[difference->verdict], difference->count,
            slash == NULL ? "program" : slash + 1, (unsigned long)(difference->pc - difference->object->base));
    print_pc(out, difference->pc);
    fputs(" leaf ", out);
    if (difference->chains[OURS].depth > 0) print_pc(out, difference->chains[OURS].pcs[0]);
    fprintf(out, " region %s depth %d\n", difference->region, difference->depth);
    const int from = difference->depth > 2 ? difference->depth - 2 : 0;
    for (int i = 0; i < UNWINDERS; i++) {
        print_chain(out, unwinder_names[i], &difference->chains[i], from);
    }
    if (difference->chains[TRUTH].depth > 0) print_chain(out, "called", &difference->chains[TRUTH], from);
}

void tally_report(FILE *out) {
    for (int i = 0; i < region_used; i++) {
        fprintf(out, "region %s %ld %ld\n", region_counts[i].name, region_counts[i].stepped,
                region_counts[i].compared);
    }
    for (int i = 0; i < OBJECTS; i++) {
        const char *name = i == 0 ? "none" : objects[i].name[0] == 0 ? "program" : objects[i].name;
        if (objects[i].steps > 0) fprintf(out, "object %s %ld\n", name, objects[i].steps);
    }
    for (int i = 0; i < DIFFERENCES && differences[i].count > 0; i++) print_difference(out, &differences[i]);
    fprintf(out, "dropped %ld\n", dropped_differences);
    fprintf(out, "stepped %ld\ncompared %ld\nrepeated %ld\ndistinct %ld\nwhole %ld\n", stepped, compared, repeated, distinct, whole);
    fprintf(out, "right %ld\nagreed %ld\nlibgcc-faults %ld\n", right, agreed, libgcc_faults);
    fprintf(out, "called-known %ld\n", known);
    for (int i = 0; i < UNWINDERS; i++) fprintf(out, "called-%s %ld\n", unwinder_names[i], unwinder_right[i]);
    for (int i = 0; i < VERDICTS; i++) fprintf(out, "%s %ld\n", verdict_names[i], verdicts[i]);
}
