/* Runs a program in a sandbox that forbids process_vm_readv, as seccomp filters of containers and browsers do; or, with an
 * error or by killing the process, perf_event_open. Or takes the right away to sample time in the kernel.
 * usage: sandbox errno|trap|kill|no-perf|no-perf-or-killed|no-perfmon PROGRAM [ARGUMENT...] */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* As in <linux/capability.h>, of which older ones lack the first. */
enum { CAP_PERFMON_NUMBER = 38, CAP_SYS_ADMIN_NUMBER = 21 };

static int forbid(unsigned number, unsigned action) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int read_own_memory(void) {
    char from[8] = "memory", to[8];
    const struct iovec local = {to, sizeof to}, remote = {from, sizeof from};
    return (int)process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

static int open_event(void) { return (int)syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0); }

/* What the filter does to a program that makes the call: the signal that ends it, or 0 for an error. */
static int what_forbidding_does(int (*call)(void)) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(call() == -1 && errno == EPERM ? 0 : 1);
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : status;
}

int main(int argc, char **argv) {
    if (argc < 3) return 98;
    if (strcmp(argv[1], "no-perfmon") == 0) {
        /* They fail for a user without rights. */
        prctl(PR_CAPBSET_DROP, CAP_PERFMON_NUMBER, 0, 0, 0);
        prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN_NUMBER, 0, 0, 0);
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        return 96;
    }
    const int is_of_perf = strncmp(argv[1], "no-perf", 7) == 0, is_trap = strcmp(argv[1], "trap") == 0;
    const int is_errno = strcmp(argv[1], "no-perf") == 0 || strcmp(argv[1], "errno") == 0;
    const unsigned action = is_errno ? SECCOMP_RET_ERRNO | EPERM : is_trap ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS;
    const unsigned number = is_of_perf ? SYS_perf_event_open : SYS_process_vm_readv;
    if (!forbid(number, action) || what_forbidding_does(is_of_perf ? open_event : read_own_memory) != (is_errno ? 0 : SIGSYS)) {
        perror("the filter does not work");
        return 97;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 96;
}
