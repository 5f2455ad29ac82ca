/* Forks while another thread flushes the profile over and over; each child opens a library and ends.
 * usage: torture_fork_flush PLUGIN FORKS, with the library preloaded. A child that hangs is ended by an alarm. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gperftools/profiler.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 540 };

static atomic_int over;
static atomic_long flushes;

static void *flush(void *unused) {
    while (!over) {
        ProfilerFlush();
        flushes++;
    }
    return unused;
}

static void be_a_child(const char *plugin) {
    alarm(PATIENCE_SECONDS);
    void *const library = dlopen(plugin, RTLD_NOW);
    _exit(library == NULL || dlclose(library) != 0);
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc != 3 || pthread_create(&thread, NULL, flush, NULL) != 0) return 98;
    while (flushes == 0) usleep(1000);
    for (int i = 0; i < atoi(argv[2]); i++) {
        int status = 0;
        const pid_t child = fork();
        if (child < 0) return 97;
        if (child == 0) be_a_child(argv[1]);
        if (waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "child %d of %s ended with status %#x\n", i + 1, argv[2], (unsigned)status);
            return 1;
        }
    }
    over = 1;
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
