/* Forks many short children, one after another, and looks whether anything of them is left. usage: many_forks FORKS
 * Every tenth child sends itself a tick, and so writes a profile. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

struct holdings {
    long descriptors, mappings, private_kilobytes;
};

static long count_descriptors(void) {
    DIR *const directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    long count = 0;
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

static long count_mappings(void) {
    FILE *const maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    long count = 0;
    for (int byte = getc(maps); byte != EOF; byte = getc(maps)) count += byte == '\n';
    fclose(maps);
    return count;
}

static long private_kilobytes(void) {
    FILE *const status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    char line[256];
    long kilobytes = -1;
    while (fgets(line, sizeof line, status) != NULL) sscanf(line, "VmData: %ld kB", &kilobytes);
    fclose(status);
    CHECK(kilobytes >= 0);
    return kilobytes;
}

static struct holdings holdings_now(void) {
    return (struct holdings){count_descriptors(), count_mappings(), private_kilobytes()};
}

static void tick(void) { CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF) == 0); }

static void fork_often(int forks) {
    for (int i = 0; i < forks; i++) {
        int status = 0;
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (i % 10 == 0) tick();
            exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    /* What is only made once is there afterwards: records become usable by the first tick, for which a fast machine's timer has
     * no time here, and a slow one's has. */
    tick();
    fork_often(10);
    holdings_now();
    const struct holdings before = holdings_now();
    fork_often(atoi(argv[1]));
    const struct holdings after = holdings_now();
    CHECK(after.descriptors == before.descriptors);
    CHECK(after.mappings == before.mappings);
    CHECK(after.private_kilobytes == before.private_kilobytes);
    return 0;
}
