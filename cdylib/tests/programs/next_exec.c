/* A library to preload behind the one under test: prints what the functions that take arrays are called with. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static void print_all(char *const *strings) {
    for (; *strings != NULL; strings++) printf(" %s", *strings);
}

static int show(const char *function, const char *path, char *const *arguments, char *const *environment) {
    printf("%s %s:", function, path);
    print_all(arguments);
    if (environment != NULL) print_all(environment);
    puts("");
    errno = EXDEV;
    return -1;
}

int execve(const char *path, char *const arguments[], char *const environment[]) {
    return show("execve", path, arguments, environment);
}

int execv(const char *path, char *const arguments[]) { return show("execv", path, arguments, NULL); }

int execvp(const char *file, char *const arguments[]) { return show("execvp", file, arguments, NULL); }
