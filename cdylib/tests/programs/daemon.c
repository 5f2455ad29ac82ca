/* Becomes a daemon, does some work there, and ends. usage: daemon HOW DIRECTORY
 * The daemon sends itself 7 SIGPROF and burns no CPU time to speak of. The process that was started first leaves the
 * daemon's id in DIRECTORY/pid, or, where it cannot know it, the daemon does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not check.h: a daemon has no stderr, so the status says in which line. */
#define CHECK(condition) \
    do {                 \
        if (!(condition)) exit(__LINE__ % 200 + 1); \
    } while (0)

enum { TICKS = 7 };

static void write_pid(const char *directory) {
    char path[1500], text[32];
    snprintf(path, sizeof path, "%s/pid", directory);
    const int file = open(path, O_CREAT | O_WRONLY | O_EXCL, 0666);
    CHECK(file >= 0);
    const int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    CHECK(write(file, text, (size_t)length) == length);
    CHECK(close(file) == 0);
}

static void fork_and_end_parent(void) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) exit(0);
}

static void close_each(void) {
    const long most = sysconf(_SC_OPEN_MAX);
    for (long descriptor = 0; descriptor < (most < 4096 ? most : 4096); descriptor++) close((int)descriptor);
}

static void close_range_of_all(void) {
    /* Kernels before 5.9 have no such call. */
    if (syscall(SYS_close_range, 0u, ~0u, 0u) != 0) close_each();
}

static void reopen_standard_descriptors(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) CHECK(open("/dev/null", O_RDWR) == descriptor);
}

/* As Stevens has it. */
static void by_hand(const char *how) {
    fork_and_end_parent();
    CHECK(setsid() >= 0);
    CHECK(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    fork_and_end_parent();
    umask(0);
    CHECK(chdir("/") == 0);
    if (strcmp(how, "close-each") == 0)
        close_each();
    else
        close_range_of_all();
    reopen_standard_descriptors();
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (strcmp(argv[1], "daemon") == 0)
        CHECK(daemon(0, 0) == 0);
    else
        by_hand(argv[1]);
    write_pid(argv[2]);
    for (int i = 0; i < TICKS; i++) CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGPROF) == 0);
    /* A descriptor that the daemon uses stays the daemon's. */
    char path[1500];
    snprintf(path, sizeof path, "%s/log", argv[2]);
    const int log = open(path, O_CREAT | O_WRONLY | O_EXCL, 0666);
    CHECK(log >= 0 && write(log, "log\n", 4) == 4);
    return 0;
}
