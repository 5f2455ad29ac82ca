/* A server that forks its workers first, and the client that drives it. usage: prefork SOCKET
 *
 * The parent listens, forks WORKERS workers, starts the client as a program of its own, without the profiler, and burns
 * some CPU time itself. Workers accept, burn CPU time for each request, and answer with their number and the time that
 * they have used so far. The client asks until each worker has used enough, and ends; the parent then shuts the workers
 * down by the end of a pipe. Each process notes the CPU time that it has used from its first line to its last; the parent
 * prints it, a line "served PID MICROSECONDS" for each, and for each worker all that it had used when it had ended, "ended PID
 * MICROSECONDS". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { WORKERS = 8, ENOUGH_MICROS = 400000, MICROS_OF_A_REQUEST = 2000 };

struct answer {
    int worker;
    long long micros;
};

static long long micros_of(const struct rusage *usage) {
    return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000LL + usage->ru_utime.tv_usec +
           usage->ru_stime.tv_usec;
}

static long long used_micros(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return micros_of(&usage);
}

static void burn(long long micros) {
    const long long end = used_micros() + micros;
    volatile unsigned long work = 0;
    while (used_micros() < end)
        for (int i = 0; i < 10000; i++) work = work * 3 + 1;
}

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof address.sun_path);
    strcpy(address.sun_path, path);
    return address;
}

static void serve(int listener, int until, int worker) {
    for (;;) {
        struct pollfd waiting[] = {{.fd = until, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
        /* A tick may end it. */
        if (poll(waiting, 2, -1) < 0) {
            CHECK(errno == EINTR);
            continue;
        }
        if (waiting[0].revents != 0) return;
        const int client = accept(listener, NULL, NULL);
        /* Another worker may have been faster. */
        if (client < 0) {
            CHECK(errno == EAGAIN);
            continue;
        }
        burn(MICROS_OF_A_REQUEST);
        const struct answer answer = {worker, used_micros()};
        CHECK(write(client, &answer, sizeof answer) == sizeof answer);
        close(client);
    }
}

static int drive(const char *path) {
    const struct sockaddr_un address = address_of(path);
    long long used[WORKERS] = {0};
    for (int busy = 0; busy < WORKERS;) {
        const int server = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(server >= 0 && connect(server, (const struct sockaddr *)&address, sizeof address) == 0);
        struct answer answer;
        CHECK(read(server, &answer, sizeof answer) == sizeof answer);
        close(server);
        CHECK(answer.worker >= 0 && answer.worker < WORKERS);
        busy += used[answer.worker] < ENOUGH_MICROS && answer.micros >= ENOUGH_MICROS;
        used[answer.worker] = answer.micros;
    }
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    if (argc == 3 && strcmp(argv[2], "client") == 0) return drive(argv[1]);
    const long long used_before = used_micros();
    struct {
        pid_t process;
        long long micros;
    } *const used = mmap(NULL, sizeof *used * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(used != MAP_FAILED);
    const struct sockaddr_un address = address_of(argv[1]);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(listener >= 0 && bind(listener, (const struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 64) == 0);
    int until[2];
    CHECK(pipe2(until, O_CLOEXEC) == 0);
    for (int worker = 0; worker < WORKERS; worker++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            const long long used_before_serving = used_micros();
            close(until[1]);
            serve(listener, until[0], worker);
            used[worker].process = getpid();
            used[worker].micros = used_micros() - used_before_serving;
            exit(0);
        }
    }
    /* Several clients, so that several workers have something to do at a time. */
    enum { CLIENTS = 3 };
    for (int i = 0; i < CLIENTS; i++) {
        const pid_t client = fork();
        CHECK(client >= 0);
        if (client == 0) {
            unsetenv("LD_PRELOAD");
            unsetenv("CPUPROFILE");
            execv("/proc/self/exe", (char *[]){argv[0], argv[1], "client", NULL});
            _exit(127);
        }
    }
    burn(ENOUGH_MICROS);
    for (int i = 0, status; i < CLIENTS; i++) CHECK(wait(&status) > 0 && status == 0);
    close(until[1]);
    for (int i = 0, status; i < WORKERS; i++) {
        struct rusage usage;
        const pid_t worker = wait4(-1, &status, 0, &usage);
        CHECK(worker > 0 && status == 0);
        printf("ended %d %lld\n", (int)worker, micros_of(&usage));
    }
    for (int i = 0; i < WORKERS; i++) printf("served %d %lld\n", (int)used[i].process, used[i].micros);
    printf("served %d %lld\n", (int)getpid(), used_micros() - used_before);
    return 0;
}
