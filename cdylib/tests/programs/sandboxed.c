/* Forbids itself the system calls for timers and threads' ids and names, at the price of its life, and then computes in two threads;
 * the argument "gettid" names one that it makes all the same, to show that the filter works; "briefly" lets it compute less. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int forbidden[] = {
    SYS_gettid, SYS_tgkill, SYS_timer_create, SYS_timer_settime, SYS_timer_delete, SYS_perf_event_open, SYS_ioctl,
    SYS_prctl,
};
enum { COUNT = sizeof forbidden / sizeof forbidden[0] };

static int forbid(void) {
    struct sock_filter filter[2 * COUNT + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (int i = 0; i < COUNT; i++) {
        filter[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[i], 0, 1);
        filter[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    filter[2 * COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = 2 * COUNT + 2, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static double used(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double share = 1;

static void compute(double seconds) {
    volatile unsigned long work = 0;
    const double end = used(CLOCK_THREAD_CPUTIME_ID) + share * seconds;
    while (used(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
}

static void *compute_beside(void *unused) {
    (void)unused;
    compute(0.5);
    return NULL;
}

int main(int argc, char **argv) {
    const char *const order = argc > 1 ? argv[1] : "";
    if (strcmp(order, "briefly") == 0) share = 0.1;
    pthread_t before, behind;
    pthread_create(&before, NULL, compute_beside, NULL);
    /* Until a thread has a timer. */
    compute(0.2);
    if (!forbid()) {
        perror("no filter");
        return 1;
    }
    if (strcmp(order, "gettid") == 0) syscall(SYS_gettid);
    pthread_create(&behind, NULL, compute_beside, NULL);
    compute(0.5);
    pthread_join(before, NULL);
    pthread_join(behind, NULL);
    puts("done");
    return 0;
}
