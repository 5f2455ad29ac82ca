/*
 * Prints the peak resident memory, in KiB, of one run of a program, its exit included.
 *
 *     peak [NAME=VALUE]... PROGRAM [ARGUMENT]...
 *
 * The kernel keeps the larger of the peaks before and after an exec, so the child of a large process would
 * report that process. This small one stands between, and sets the program's environment only after it has
 * forked. The program's own output goes to standard error. The program dies with this one.
 */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: peak [NAME=VALUE]... PROGRAM [ARGUMENT]...\n", stderr);
        return 2;
    }
    pid_t child = fork();
    if (child < 0) {
        perror("peak: fork");
        return 1;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char **program = argv + 1;
        while (*program != NULL && strchr(*program, '=') != NULL)
            putenv(*program++);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        if (*program != NULL)
            execv(*program, program);
        perror("peak: exec");
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child) {
        perror("peak: wait4");
        return 1;
    }
    printf("%ld\n", usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
