/* Runs a program and lets system calls fail that the profiler makes in it.
 * usage: fault_injector REPORT WHICH CALLS ANSWER FIRST LAST PROGRAM [ARGUMENT...]
 *
 *   REPORT   a file for what happened: "begun", "called NUMBER TIMES" for each call, "answered TIMES", "hung"
 *   WHICH    `work`: calls on the program's standard error are left alone; `lines`: they count like all others
 *   CALLS    the numbers of system calls, with commas between; or `all`
 *   ANSWER   the error that is given; or `short`: a read or write is done with half of its bytes
 *   FIRST    the first occurrence of one of the calls that is answered so, from 1; 0 for none
 *   LAST     the last one
 *
 * A program that has not ended after nine minutes, or FAULT_TIMEOUT seconds, hangs, and is ended.
 *
 * A filter (seccomp(2), "SECCOMP_RET_USER_NOTIF") stops the program at each of the calls and asks this process, which
 * lets the kernel go on with it or gives the answer. Counting begins when the library of fault_shim.c says so. From
 * then on all calls count but those that the program declares its own (fault_own there); the profiler's handler may
 * interrupt the program there, so calls from instructions of the profiler's library count always. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault_shim.h"

enum { MOST_CALLS = 32, NUMBERS = 1024, SHORT = -1 };

static struct {
    unsigned calls[MOST_CALLS];
    int call_count; /* 0: all */
    int answer;
    long first, last;
    int counts_lines;
} plan;

/* What the shim told. */
static struct {
    int begun;
    uint64_t state, code_start, code_end;
} shim;

static long times[NUMBERS], occurrences, answered;

static void die(const char *what) {
    perror(what);
    exit(97);
}

static void read_plan(char **argv) {
    plan.counts_lines = strcmp(argv[2], "lines") == 0;
    char *list = argv[3];
    while (strcmp(argv[3], "all") != 0 && *list != '\0' && plan.call_count < MOST_CALLS) {
        plan.calls[plan.call_count++] = (unsigned)strtoul(list, &list, 10);
        list += *list == ',';
    }
    plan.answer = strcmp(argv[4], "short") == 0 ? SHORT : atoi(argv[4]);
    plan.first = atol(argv[5]);
    plan.last = atol(argv[6]);
}

/* Calls that end something or that this program needs before anybody listens. */
static const unsigned NEVER[] = {SYS_sendmsg, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall};

static int install_filter(void) {
    struct sock_filter filter[2 * MOST_CALLS + 8], *end = filter;
#define STATEMENT(code, value) *end++ = (struct sock_filter)BPF_STMT(code, value)
#define RETURN_IF_EQUAL(value, result)                                          \
    *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1); \
    STATEMENT(BPF_RET | BPF_K, result)
    STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    if (plan.call_count == 0) {
        for (size_t i = 0; i < sizeof NEVER / sizeof NEVER[0]; i++) {
            RETURN_IF_EQUAL(NEVER[i], SECCOMP_RET_ALLOW);
        }
        STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    } else {
        for (int i = 0; i < plan.call_count; i++) {
            RETURN_IF_EQUAL(plan.calls[i], SECCOMP_RET_USER_NOTIF);
        }
        *end++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0);
        STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        /* The low half, on machines whose lower bytes come first. */
        STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
        RETURN_IF_EQUAL(FAULT_BEGIN, SECCOMP_RET_USER_NOTIF);
        STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    const struct sock_fprog program = {.len = (unsigned short)(end - filter), .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("PR_SET_NO_NEW_PRIVS");
    /* A signal then does not undo a call that we are about to answer, which would be counted twice; Linux 5.19. */
    const unsigned exact = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, exact, &program);
    if (listener < 0 && errno == EINVAL)
        listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0) die("SECCOMP_FILTER_FLAG_NEW_LISTENER");
    return (int)listener;
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_descriptor(int socket, int descriptor) {
    union control control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    struct iovec byte = {"", 1};
    const struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (sendmsg(socket, &message, 0) != 1) _exit(96);
}

static int receive_descriptor(int socket) {
    union control control;
    char byte;
    int descriptor;
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || message.msg_controllen < sizeof control) return -1;
    memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return descriptor;
}

/* The program, from the filter on; the listener is closed when it is executed. */
static pid_t start(char **argv, int *listener) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("socketpair");
    const pid_t program = fork();
    if (program < 0) die("fork");
    if (program == 0) {
        send_descriptor(ends[1], install_filter());
        execv(argv[0], argv);
        die(argv[0]);
    }
    close(ends[1]);
    *listener = receive_descriptor(ends[0]);
    close(ends[0]);
    return program;
}

/* Whether the calling process declares its present calls its own; so does one that is another program by now. */
static int is_own(const struct seccomp_notif *call) {
    struct fault_state state;
    const struct iovec to = {&state, sizeof state}, from = {(void *)(uintptr_t)shim.state, sizeof state};
    if (process_vm_readv((pid_t)call->pid, &to, 1, &from, 1, 0) != sizeof state || state.magic != FAULT_BEGIN) return 1;
    const uint64_t pc = call->data.instruction_pointer;
    return state.own > 0 && !(pc >= shim.code_start && pc < shim.code_end);
}

/* Whether the call is about the program's standard error, by whichever descriptor: this process has the same. */
static int is_line(const struct seccomp_notif *call) {
    static const int with_descriptor[] = {SYS_write, SYS_writev, SYS_fstat, SYS_newfstatat, SYS_fcntl, SYS_close, SYS_dup};
    char path[64];
    struct stat theirs, ours;
    int has_descriptor = 0;
    for (size_t i = 0; i < sizeof with_descriptor / sizeof with_descriptor[0]; i++)
        has_descriptor |= call->data.nr == with_descriptor[i];
    if (!has_descriptor) return 0;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", call->pid, (unsigned)call->data.args[0]);
    return stat(path, &theirs) == 0 && fstat(2, &ours) == 0 && theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

static int is_chosen(const struct seccomp_notif *call) {
    for (int i = 0; i < plan.call_count; i++)
        if (plan.calls[i] == (unsigned)call->data.nr) return 1;
    return plan.call_count == 0;
}

/* Does a read or write with half of its bytes, at least one, on the caller's own open file. */
static int64_t half_done(const struct seccomp_notif *call) {
    static char bytes[1 << 20];
    const __u64 *const arguments = call->data.args;
    size_t length = (size_t)(arguments[2] + 1) / 2;
    if (length > sizeof bytes) length = sizeof bytes;
    const int process = (int)syscall(SYS_pidfd_open, call->pid, 0);
    const int file = (int)syscall(SYS_pidfd_getfd, process, (int)arguments[0], 0);
    if (process < 0 || file < 0) die("pidfd_getfd");
    struct iovec here = {bytes, length}, there = {(void *)(uintptr_t)arguments[1], length};
    ssize_t result = -1;
    if (call->data.nr == SYS_read) {
        result = here.iov_len = there.iov_len = (size_t)read(file, bytes, length);
        if (result > 0 && process_vm_writev((pid_t)call->pid, &here, 1, &there, 1, 0) != result) die("process_vm_writev");
    } else {
        if (process_vm_readv((pid_t)call->pid, &here, 1, &there, 1, 0) != (ssize_t)length) die("process_vm_readv");
        result = call->data.nr == SYS_pwrite64 ? pwrite(file, bytes, length, (off_t)arguments[3]) : write(file, bytes, length);
    }
    if (result < 0) result = -errno;
    close(file);
    close(process);
    return result;
}

/* Where the heap ends, which brk(2) answers when it can do nothing: its system call has no error. */
static int64_t end_of_heap(pid_t process) {
    char path[64], line[4096];
    unsigned long end = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE *const maps = fopen(path, "r");
    if (maps == NULL) die(path);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "[heap]") != NULL) sscanf(line, "%*x-%lx", &end);
    fclose(maps);
    if (end != 0) return (int64_t)end;
    /* It has none yet: the 47th field, counted from behind the name in parentheses, is where it would begin. */
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *const status = fopen(path, "r");
    if (status == NULL || fgets(line, sizeof line, status) == NULL) die(path);
    fclose(status);
    const char *field = strrchr(line, ')');
    for (int i = 2; i < 47 && field != NULL; i++) field = strchr(field + 1, ' ');
    if (field == NULL) die(path);
    return (int64_t)strtoul(field, NULL, 10);
}

static void answer(const struct seccomp_notif *call, struct seccomp_notif_resp *response) {
    response->id = call->id;
    response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (call->data.nr == SYS_prctl && (uint32_t)call->data.args[0] == FAULT_BEGIN) {
        shim.begun = 1;
        shim.state = call->data.args[1];
        shim.code_start = call->data.args[2];
        shim.code_end = call->data.args[3];
        response->flags = 0;
        return;
    }
    if (call->data.nr == SYS_brk && call->data.args[0] == 0) return; /* It only asks. */
    if (!shim.begun || !is_chosen(call) || is_own(call) || (!plan.counts_lines && is_line(call))) return;
    if (call->data.nr < NUMBERS) times[call->data.nr]++;
    occurrences++;
    if (plan.first == 0 || occurrences < plan.first || occurrences > plan.last) return;
    answered++;
    response->flags = 0;
    if (plan.answer == SHORT)
        response->val = half_done(call);
    else if (call->data.nr == SYS_brk)
        response->val = end_of_heap((pid_t)call->pid);
    else
        response->error = -plan.answer;
}

/* One notification, if it is still there: its sender may have been ended. */
static void serve(int listener) {
    struct seccomp_notif call;
    struct seccomp_notif_resp response;
    memset(&call, 0, sizeof call);
    memset(&response, 0, sizeof response);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return;
    answer(&call, &response);
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

/* Serves until the program has ended; 0 if it does not. */
static int serve_until_end(pid_t program, int listener) {
    struct pollfd polled[2] = {{.fd = listener, .events = POLLIN}, {.fd = (int)syscall(SYS_pidfd_open, program, 0), .events = POLLIN}};
    if (polled[1].fd < 0) die("pidfd_open");
    const char *const patience = getenv("FAULT_TIMEOUT");
    const time_t end = time(NULL) + (patience != NULL ? atoi(patience) : 540);
    while (polled[1].revents == 0) {
        const time_t left = end - time(NULL);
        if (left <= 0) return 0;
        if (poll(polled, 2, (int)left * 1000) < 0) die("poll");
        if (polled[0].revents & POLLIN)
            serve(listener);
        else if (polled[0].revents != 0)
            polled[0].fd = -1; /* Nobody has the filter any more. */
    }
    return 1;
}

static void write_report(const char *path, int ended) {
    FILE *const report = fopen(path, "w");
    if (report == NULL) die(path);
    if (shim.begun) fputs("begun\n", report);
    for (int i = 0; i < NUMBERS; i++)
        if (times[i] > 0) fprintf(report, "called %d %ld\n", i, times[i]);
    fprintf(report, "answered %ld\n", answered);
    if (!ended) fputs("hung\n", report);
    if (fclose(report) != 0) die(path);
}

int main(int argc, char **argv) {
    if (argc < 8) return 98;
    read_plan(argv);
    int listener, status = 0;
    const pid_t program = start(argv + 7, &listener);
    if (listener < 0) {
        waitpid(program, &status, 0);
        return 97;
    }
    const int ended = serve_until_end(program, listener);
    write_report(argv[1], ended);
    /* With its children, which are in our group. */
    if (!ended) kill(0, SIGKILL);
    if (waitpid(program, &status, 0) != program) die("waitpid");
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}
