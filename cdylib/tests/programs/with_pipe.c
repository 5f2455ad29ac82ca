/* Runs a program one of whose descriptors is a pipe in a bad state.
 * usage: with_pipe full|closed FD PROGRAM [ARGUMENT...]
 *
 *   full     nobody reads the pipe, and it takes nothing more; the alarm ends whoever waits for it
 *   closed   the pipe's reader is gone
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 540 };

static void die(const char *what) {
    perror(what);
    exit(99);
}

/* The read end stays open in the program that is run. */
static void fill(int writer) {
    static const char bytes[4096];
    const int flags = fcntl(writer, F_GETFL);
    if (flags < 0 || fcntl(writer, F_SETFL, flags | O_NONBLOCK) < 0) die("fcntl");
    while (write(writer, bytes, sizeof bytes) > 0) continue;
    while (write(writer, bytes, 1) > 0) continue;
    if (fcntl(writer, F_SETFL, flags) < 0) die("fcntl");
    alarm(PATIENCE_SECONDS);
}

int main(int argc, char **argv) {
    int ends[2];
    if (argc < 4) return 98;
    if (pipe(ends) != 0) die("pipe");
    if (strcmp(argv[1], "full") == 0)
        fill(ends[1]);
    else
        close(ends[0]);
    if (dup2(ends[1], atoi(argv[2])) < 0) die("dup2");
    execvp(argv[3], argv + 3);
    die(argv[3]);
}
