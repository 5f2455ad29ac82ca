/* Replaces itself with a pipe as stderr; its parent, the reader, says whether the end of that came while it lived. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Closes stderr, and lives until its stdin ends. */
static int app(void) {
    for (int i = 0; i < 5; i++) raise(SIGPROF);
    close(2);
    /* By the end of this line the reader knows that stderr is closed. */
    write(1, "closed\n", 7);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "app") == 0) return app();
    int in[2], out[2], error[2];
    if (pipe(in) != 0 || pipe(out) != 0 || pipe(error) != 0) return 1;
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0), dup2(out[1], 1), dup2(error[1], 2);
        for (int fd = 3; fd < 64; fd++) close(fd);
        execl("/proc/self/exe", arguments[0], "app", (char *)0);
        _exit(9);
    }
    close(in[0]), close(out[1]), close(error[1]);
    char line[16];
    if (read(out[0], line, sizeof line) <= 0) return 2;
    /* Whatever was written to it is read; a write end that is still open gives nothing. */
    struct pollfd poll_for = {.fd = error[0], .events = POLLIN};
    const char *found = "the reader still waits";
    while (poll(&poll_for, 1, 0) == 1) {
        char text[256];
        if (read(error[0], text, sizeof text) <= 0) {
            found = "the reader found the end";
            break;
        }
    }
    puts(found);
    close(in[1]);
    int status;
    waitpid(child, &status, 0);
    for (int i = 0; i < 5; i++) raise(SIGPROF);
    return status != 0;
}
