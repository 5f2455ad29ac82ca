/* What `ld_so.c` opens: constructors, thread-local storage, an indirect function, calls bound lazily. */
#define _GNU_SOURCE
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread int counter = 3;
__thread char text[100];
static int constructed;

__attribute__((constructor)) static void construct(void) {
    constructed = atoi("17");
    snprintf(text, sizeof text, "constructed");
}

__attribute__((destructor)) static void destruct(void) {
    constructed = abs(constructed) + (int)strlen("destructed");
}

static int chosen(int value) {
    return value + 1;
}

/* The resolver runs while the loader relocates the library. */
static int (*choose(void))(int) {
    return chosen;
}

int chosen_at_load(int value) __attribute__((ifunc("choose")));

/* An argument in a vector register: the loader's trampoline keeps those too. */
int plugin_work(int number, double real) {
    char buffer[50];
    counter += number;
    sprintf(buffer, "%d %f", counter, pow(real, 2.0) + floor(real));
    strcat(text, "x");
    return chosen_at_load((int)strtol(buffer, NULL, 10)) + toupper(buffer[0]) + constructed + (int)strlen(text);
}
