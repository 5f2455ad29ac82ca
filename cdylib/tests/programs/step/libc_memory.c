/* libc: the string functions, which have a version for each kind of processor, at many sizes and alignments; the heap;
 * sorting and searching. */
#define _GNU_SOURCE
#include "step.h"

#include <malloc.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { LARGEST = 16384 };
static unsigned char *from, *to;

static const size_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 255,
                               256, 257, 400, 511, 513, 900, 1024, 1025, 2047, 2049, 4095, 4097, 9000};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void prepare_buffers(void) {
    if (from != NULL) return;
    from = aligned_alloc(4096, 4 * LARGEST);
    to = aligned_alloc(4096, 4 * LARGEST);
    memset(from, 'a', 4 * LARGEST);
    memset(to, 'a', 4 * LARGEST);
}

static void run_copy(const struct stepper *stepper UNUSED) {
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t shift = 0; shift < 20; shift += 7) {
            memcpy(to + shift, from + 3 * shift, sizes[i]);
            memmove(to + 8 + shift, to, sizes[i]);
            memmove(to, to + 8 + shift, sizes[i]);
            USE(mempcpy(to, from + shift, sizes[i]));
        }
    }
}

static void run_set(const struct stepper *stepper UNUSED) {
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t shift = 0; shift < 20; shift += 7) {
            memset(to + shift, (int)i, sizes[i]);
            wmemset((wchar_t *)(to + 4 * shift), L'x', sizes[i] / 4);
            explicit_bzero(to + shift, sizes[i]);
        }
    }
}

static void run_compare(const struct stepper *stepper UNUSED) {
    memset(from, 'a', LARGEST);
    memset(to, 'a', LARGEST);
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t shift = 0; shift < 20; shift += 7) {
            to[shift + sizes[i]] = 'b';
            USE(memcmp(to + shift, from + 2 * shift, sizes[i] + 1));
            USE(strncmp((char *)to + shift, (char *)from + 2 * shift, sizes[i]));
            to[shift + sizes[i]] = 0;
            USE(strcmp((char *)to + shift, (char *)from));
            USE(strcasecmp((char *)to + shift, (char *)from));
            to[shift + sizes[i]] = 'a';
        }
    }
}

static void run_search(const struct stepper *stepper UNUSED) {
    memset(from, 'a', LARGEST);
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t shift = 0; shift < 20; shift += 7) {
            char *text = (char *)from + shift;
            text[sizes[i]] = 0;
            USE(strlen(text));
            USE(strnlen(text, sizes[i] / 2));
            USE(strchr(text, 'b'));
            USE(strrchr(text, 'a'));
            USE(strchrnul(text, 'c'));
            USE(memchr(text, 0, sizes[i] + 1));
            USE(memrchr(text, 'b', sizes[i]));
            USE(rawmemchr(text, 0));
            USE(wcslen((wchar_t *)(to + 4 * shift)));
            text[sizes[i]] = 'a';
        }
    }
}

static void run_strings(const struct stepper *stepper UNUSED) {
    char buffer[400] = "", text[] = "one,two;three four";
    for (int i = 0; i < 5; i++) strcat(buffer, "some words, repeated; ");
    strncat(buffer, "and more of them", 8);
    USE(strcpy(buffer + 200, buffer));
    USE(strncpy(buffer + 200, buffer, 190));
    USE(stpcpy(buffer, "the needle is in the haystack somewhere"));
    USE(strstr(buffer, "haystack"));
    USE(strcasestr(buffer, "SOMEWHERE"));
    USE(memmem(buffer, 39, "needle", 6));
    USE(strspn(buffer, "ethn "));
    USE(strcspn(buffer, "xyz"));
    USE(strpbrk(buffer, "kq"));
    for (char *state, *part = strtok_r(text, ",; ", &state); part != NULL; part = strtok_r(NULL, ",; ", &state)) {
        free(strdup(part));
    }
    USE(strverscmp("lib-1.10", "lib-1.9"));
    USE(strerror(2)[0]);
}

static void run_heap(const struct stepper *stepper UNUSED) {
    void *blocks[64];
    for (size_t i = 0; i < 64; i++) blocks[i] = malloc(i * i * 3 + 1);
    for (size_t i = 0; i < 64; i += 2) free(blocks[i]);
    for (size_t i = 0; i < 64; i += 2) blocks[i] = calloc(i + 1, 40);
    for (size_t i = 1; i < 64; i += 2) blocks[i] = realloc(blocks[i], i * 200 + 1);
    for (size_t i = 0; i < 64; i++) free(blocks[i]);
    free(malloc(1 << 20));
    free(aligned_alloc(256, 1024));
    void *large = malloc(300000);
    large = realloc(large, 600000);
    free(large);
    malloc_trim(0);
}

static int compare_ints(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

static int compare_with(const void *left, const void *right, void *sign) {
    return *(int *)sign * compare_ints(left, right);
}

static void visit(const void *node, VISIT which, int depth) {
    USE(which == leaf ? *(int *const *)node : (int *)0);
    USE(depth);
}

static void run_sort(const struct stepper *stepper UNUSED) {
    int values[60], sign = -1;
    void *root = NULL;
    for (int i = 0; i < 60; i++) values[i] = i * 7919 % 101;
    qsort(values, 60, sizeof values[0], compare_ints);
    qsort_r(values, 60, sizeof values[0], compare_with, &sign);
    qsort(values, 60, sizeof values[0], compare_ints);
    const int key = values[33];
    USE(bsearch(&key, values, 60, sizeof values[0], compare_ints));
    for (int i = 0; i < 30; i++) USE(tsearch(&values[i * 2], &root, compare_ints));
    twalk(root, visit);
    for (int i = 0; i < 30; i++) USE(tdelete(&values[i * 2], &root, compare_ints));
    for (int i = 0; i < 10; i++) USE(rand() + (int)random() + (int)lrand48());
}

const struct region regions[] = {
    {"copy", prepare_buffers, run_copy}, {"set", 0, run_set},   {"compare", 0, run_compare}, {"search", 0, run_search},
    {"strings", 0, run_strings},         {"heap", 0, run_heap}, {"sort", 0, run_sort},       {0, 0, 0},
};
