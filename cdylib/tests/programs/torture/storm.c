/* The profiling signal for every thread, thousands of times a second; and a thread that sends them to itself and to nobody else, so that
 * each can be found again in the profile. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "torture.h"

/* Signals to one thread between two rests of the sender. */
enum { SIGNALS_A_ROUND = 4, PAUSE_MICROS = 500, OWN_TICKS = 20 };

static atomic_long counting_thread;

void round_of_storm(unsigned long number) {
    (void)number;
    const pid_t process = getpid();
    step("list the threads");
    DIR *const tasks = opendir("/proc/self/task");
    if (tasks == NULL && orders.is_tight) return;
    CHECK(tasks != NULL);
    step("send to all threads");
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        const long thread = atol(entry->d_name);
        if (thread <= 0 || thread == counting_thread) continue;
        for (int i = 0; i < SIGNALS_A_ROUND; i++) {
            if (syscall(SYS_tgkill, process, thread, orders.signal) == 0) signals_sent++;
            else CHECK(errno == ESRCH);
        }
    }
    CHECK(closedir(tasks) == 0);
    rest(PAUSE_MICROS);
}

__attribute__((noinline)) void torture_own_tick(void) {
    CHECK(syscall(SYS_tgkill, getpid(), mine->thread, orders.signal) == 0);
    /* No call in last place: this frame stays on the stack. */
    __asm__ volatile("");
}

void round_of_own_ticks(unsigned long number) {
    (void)number;
    counting_thread = (long)mine->thread;
    if (number == 0) rest(20000); /* The sender may have this thread on its list still. */
    step("send to itself");
    for (int i = 0; i < OWN_TICKS; i++) {
        torture_own_tick();
        ticks_of_own++;
        signals_sent++;
    }
    rest(1000);
}
