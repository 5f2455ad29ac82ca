/* unique_chains TICKS THREADS FIRST ACTION [SECOND]: each thread sends itself TICKS signals, each in a call chain that no
 * other tick of the process has, from chain number FIRST on; then the program does what ACTION says, and once more sends
 * ticks where that returns. In the end it prints by how many KiB it grew in memory, and "done". */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_tick.h"

enum { STEPS = 24 };

static __attribute__((noinline)) int left(uint64_t path, int depth);
static __attribute__((noinline)) int right(uint64_t path, int depth);

/* Goes down one of two ways at each step, as the bits of path say. */
static inline __attribute__((always_inline)) int descend(uint64_t path, int depth) {
    if (depth == 0) {
        raw_tick(getpid(), gettid());
        return 0;
    }
    return path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
}

static int left(uint64_t path, int depth) {
    int below = descend(path, depth);
    __asm__ volatile("");
    return below + 1;
}

static int right(uint64_t path, int depth) {
    int below = descend(path, depth);
    __asm__ volatile("");
    return below + 2;
}

static uint64_t ticks_each, first_chain;

static void *send_ticks(void *number) {
    uint64_t from = first_chain + (uintptr_t)number * ticks_each;
    for (uint64_t i = 0; i < ticks_each; i++) {
        if (descend(from + i, STEPS) == 0) {
            abort();
        }
    }
    return NULL;
}

static void run_threads(int threads) {
    pthread_t running[64];
    for (int i = 1; i < threads; i++) {
        if (pthread_create(&running[i], NULL, send_ticks, (void *)(uintptr_t)i) != 0) {
            abort();
        }
    }
    send_ticks(0);
    for (int i = 1; i < threads; i++) {
        pthread_join(running[i], NULL);
    }
    first_chain += threads * ticks_each;
}

/* Resident memory in KiB: anonymous, files' and shared. */
static long resident(void) {
    char line[256];
    long kibibytes = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "VmHWM: %ld kB", &kibibytes);
    }
    if (status) {
        fclose(status);
    }
    return kibibytes;
}

/* Removes the files that records were moved to. */
static void remove_records(const char *directory) {
    DIR *opened = opendir(directory);
    for (struct dirent *entry; opened && (entry = readdir(opened));) {
        if (strstr(entry->d_name, ".records")) {
            unlinkat(dirfd(opened), entry->d_name, 0);
        }
    }
    if (opened) {
        closedir(opened);
    }
}

int main(int count, char **words) {
    if (count < 5) {
        return 2;
    }
    ticks_each = strtoull(words[1], NULL, 0);
    int threads = atoi(words[2]);
    first_chain = strtoull(words[3], NULL, 0);
    const char *action = words[4];
    long before = resident();
    run_threads(threads);
    if (strcmp(action, "again") == 0) {
        run_threads(threads);
    } else if (strcmp(action, "wait") == 0) {
        puts("ticked");
        fflush(stdout);
        for (;;) pause();
    } else if (strcmp(action, "close-all") == 0) {
        for (int i = 3; i < 4096; i++) {
            close(i);
        }
        run_threads(threads);
    } else if (strcmp(action, "lose-records") == 0) {
        for (int i = 3; i < 4096; i++) {
            close(i);
        }
        remove_records(words[5]);
    } else if (strcmp(action, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            run_threads(threads);
            return 0;
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) {
            return 3;
        }
        first_chain += threads * ticks_each;
        run_threads(threads);
    } else if (strcmp(action, "exec") == 0) {
        execl("/proc/self/exe", words[0], words[1], words[2], words[3], "again", (char *)NULL);
        return 4;
    } else if (strcmp(action, "exec-fails") == 0) {
        execl("/nonexistent/program", "program", (char *)NULL);
        execl("/dev/null", "program", (char *)NULL);
        run_threads(threads);
    } else if (strcmp(action, "_exit") == 0) {
        printf("grew %ld\ndone\n", resident() - before);
        fflush(stdout);
        _exit(0);
    }
    printf("grew %ld\ndone\n", resident() - before);
    return 0;
}
