/*
 * Forks, again and again, and says how long each fork took.
 *
 * usage: fork MEGABYTES FORKS
 *
 * The process first touches that much memory, in small pages, whose tables every fork has to copy. Each child notes the
 * CPU time that it has used when the fork returns there, and ends at once.
 *
 * Prints a line for each fork: nanoseconds until it returned in the parent, by the wall clock, and those of CPU time that
 * the child had used until it returned there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static long long now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void touch_memory(size_t bytes)
{
    if (bytes == 0)
        return;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("fork: mmap");
    /* A huge page is one entry to copy, however much it holds; what programs hold in the long run is mostly small. */
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    memset(memory, 1, bytes);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: fork MEGABYTES FORKS\n", stderr);
        return 2;
    }
    const size_t megabytes = strtoul(argv[1], NULL, 10);
    const int forks = atoi(argv[2]);
    long long(*times)[2] = malloc(sizeof *times * (size_t)forks);
    volatile long long *in_child =
        mmap(NULL, sizeof *in_child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (times == NULL || in_child == MAP_FAILED)
        die("fork: memory");
    touch_memory(megabytes << 20);

    for (int i = 0; i < forks; i++) {
        const long long before = now_ns(CLOCK_MONOTONIC);
        const pid_t child = fork();
        if (child == 0) {
            *in_child = now_ns(CLOCK_PROCESS_CPUTIME_ID);
            _exit(0);
        }
        const long long after = now_ns(CLOCK_MONOTONIC);
        if (child < 0)
            die("fork");
        if (waitpid(child, NULL, 0) != child)
            die("fork: waitpid");
        times[i][0] = after - before;
        times[i][1] = *in_child;
    }
    for (int i = 0; i < forks; i++)
        printf("%lld %lld\n", times[i][0], times[i][1]);
    return 0;
}
