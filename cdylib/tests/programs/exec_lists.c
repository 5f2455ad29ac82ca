/* Calls the functions with lists of many lengths, for next_exec.c to see what they hand on. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define SEVEN "1", "2", "3", "4", "5", "6", "7"
#define END (char *)NULL

static void expect_failure(int result) {
    if (result != -1 || errno != EXDEV) puts("not the result of the next definition");
    errno = 0;
}

int main(void) {
    char *environment[] = {"E=1", "F=2", NULL};
    expect_failure(execl("path", "1", END));
    expect_failure(execl("path", "1", "2", "3", END));
    expect_failure(execl("path", "1", "2", "3", "4", END));
    expect_failure(execl("path", "1", "2", "3", "4", "5", END));
    expect_failure(execl("path", "1", "2", "3", "4", "5", "6", END));
    expect_failure(execl("path", SEVEN, END));
    expect_failure(execl("path", SEVEN, "8", END));
    expect_failure(execlp("path", SEVEN, SEVEN, END));
    expect_failure(execle("path", "1", END, environment));
    expect_failure(execle("path", "1", "2", "3", END, environment));
    expect_failure(execle("path", "1", "2", "3", "4", END, environment));
    expect_failure(execle("path", "1", "2", "3", "4", "5", END, environment));
    expect_failure(execle("path", "1", "2", "3", "4", "5", "6", END, environment));
    expect_failure(execle("path", SEVEN, END, environment));
    expect_failure(execle("path", SEVEN, SEVEN, END, environment));
    return 0;
}
