/* Every function that sets a signal's disposition, on one signal: what each gives, what it leaves behind, and how its handler
 * is called. usage: dispositions FUNCTION SIGNAL. What it prints must not depend on a profiler. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern sighandler_t bsd_signal(int, sighandler_t);
extern int __sigaction(int, const struct sigaction *, struct sigaction *);
struct old_vector {
    sighandler_t handler;
    int mask, flags;
};
#if defined(__x86_64__)
extern int sigvec(int, const struct old_vector *, struct old_vector *);
__asm__(".symver sigvec, sigvec@GLIBC_2.2.5");
#endif
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int number;
static volatile sig_atomic_t calls, own_blocked, usr1_blocked;

static void note(int received) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    own_blocked = sigismember(&mask, received);
    usr1_blocked = sigismember(&mask, SIGUSR1);
    calls = calls + 1;
}

static void other(int received) { note(received); }

static const char *name_of(sighandler_t handler) {
    return handler == SIG_DFL   ? "default"
           : handler == SIG_IGN  ? "ignored"
           : handler == SIG_ERR  ? "error"
           : handler == SIG_HOLD ? "hold"
           : handler == note     ? "note"
           : handler == other    ? "other"
                                 : "a stranger";
}

/* The setting, the mask, and what one signal comes to. */
static void show(const char *what) {
    struct sigaction action;
    sigset_t mask;
    const int known = SA_SIGINFO | SA_NODEFER | SA_RESTART | SA_ONSTACK | (int)SA_RESETHAND;
    memset(&action, 0x5a, sizeof action);
    if (sigaction(number, NULL, &action) != 0) {
        printf("%s: no setting, %s\n", what, strerrorname_np(errno));
        return;
    }
    printf("%s: %s, flags %#x, masks", what, name_of(action.sa_handler), (unsigned)(action.sa_flags & known));
    for (int other_number = 1; other_number < 65; other_number++)
        if (sigismember(&action.sa_mask, other_number) == 1) printf(" %d", other_number);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf("; blocked %d\n", sigismember(&mask, number));
}

/* A signal that somebody sends; where it would be the end of the program, in a child. */
static void receive(void) {
    struct sigaction action;
    sigaction(number, NULL, &action);
    fflush(stdout);
    if (action.sa_handler == SIG_DFL) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            raise(number);
            _exit(0);
        }
        waitpid(child, &status, 0);
        printf("  raised: the child's status is %#x\n", (unsigned)status);
        return;
    }
    calls = own_blocked = usr1_blocked = 0;
    raise(number);
    printf("  raised: %d calls, blocked %d, SIGUSR1 %d\n", (int)calls, (int)own_blocked, (int)usr1_blocked);
}

static void step(const char *what, sighandler_t given) {
    const int reason = errno;
    printf("%s gives %s, %s\n", what, name_of(given), given == SIG_ERR ? strerrorname_np(reason) : "-");
    errno = 0;
    show("  now");
    receive();
    show("  then");
}

static void result(const char *what, int given) {
    step(what, given == 0 ? SIG_DFL : SIG_ERR);
}

static void sets(sighandler_t (*set)(int, sighandler_t)) {
    step("note", set(number, note));
    step("other", set(number, other));
    step("ignore", set(number, SIG_IGN));
    step("note again", set(number, note));
    /* sigset takes it for a handler. */
    if (set != sigset) step("an error", set(number, SIG_ERR));
    printf("impossible: %s %s\n", name_of(set(4096, note)), strerrorname_np(errno));
    printf("impossible: %s %s\n", name_of(set(0, note)), strerrorname_np(errno));
    printf("impossible: %s %s\n", name_of(set(-1, note)), strerrorname_np(errno));
    printf("refused: %s %s\n", name_of(set(SIGKILL, note)), strerrorname_np(errno));
    result("interrupts", siginterrupt(number, 1));
    step("note where calls are interrupted", set(number, note));
    result("restarts", siginterrupt(number, 0));
    step("note where calls are restarted", set(number, note));
    step("hold", set == sigset ? set(number, SIG_HOLD) : SIG_DFL);
    step("hold once more", set == sigset ? set(number, SIG_HOLD) : SIG_DFL);
    step("note", set(number, note));
    if (set == sigset) {
        result("sighold", sighold(number));
        result("sigrelse", sigrelse(number));
    }
    step("default", set(number, SIG_DFL));
    step("the last", set(number, SIG_DFL));
}

static void sets_actions(int (*set)(int, const struct sigaction *, struct sigaction *)) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    sigfillset(&action.sa_mask);
    result("all masked", set(number, &action, NULL));
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    action.sa_flags = SA_NODEFER | SA_RESTART;
    memset(&old, 0x5a, sizeof old);
    result("SIGUSR1 masked", set(number, &action, &old));
    printf("  before: %s, KILL %d, STOP %d, USR1 %d\n", name_of(old.sa_handler), sigismember(&old.sa_mask, SIGKILL),
           sigismember(&old.sa_mask, SIGSTOP), sigismember(&old.sa_mask, SIGUSR1));
    action.sa_flags = (int)SA_RESETHAND;
    result("once", set(number, &action, NULL));
    errno = 0;
    printf("impossible: %d %s\n", set(65, &action, NULL), strerrorname_np(errno));
    printf("refused: %d %s\n", set(SIGSTOP, &action, NULL), strerrorname_np(errno));
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const char *const function = argv[1];
    number = atoi(argv[2]);
    show("at first");
    if (strcmp(function, "signal") == 0) sets(signal);
    else if (strcmp(function, "bsd_signal") == 0) sets(bsd_signal);
    else if (strcmp(function, "ssignal") == 0) sets(ssignal);
    else if (strcmp(function, "sysv_signal") == 0) sets(sysv_signal);
    else if (strcmp(function, "__sysv_signal") == 0) sets(__sysv_signal);
    else if (strcmp(function, "sigset") == 0) sets(sigset);
    else if (strcmp(function, "sigaction") == 0) sets_actions(sigaction);
    else if (strcmp(function, "__sigaction") == 0) sets_actions(__sigaction);
    else if (strcmp(function, "sigignore") == 0) {
        step("note", signal(number, note));
        result("ignored", sigignore(number));
        printf("impossible: %d %s\n", sigignore(0), strerrorname_np(errno));
        printf("refused: %d %s\n", sigignore(SIGKILL), strerrorname_np(errno));
    } else if (strcmp(function, "siginterrupt") == 0) {
        step("note", signal(number, note));
        result("interrupts", siginterrupt(number, 1));
        result("restarts", siginterrupt(number, 0));
        printf("impossible: %d %s\n", siginterrupt(99, 1), strerrorname_np(errno));
    }
#if defined(__x86_64__)
    else if (strcmp(function, "sigvec") == 0) {
        struct old_vector vector = {note, 1 << (SIGUSR1 - 1), 0}, old;
        result("a vector", sigvec(number, &vector, NULL));
        vector.flags = 2;
        result("an interrupting vector", sigvec(number, &vector, &old));
        printf("  before: %s, mask %#x, flags %#x\n", name_of(old.handler), (unsigned)old.mask, (unsigned)old.flags);
        result("none", sigvec(number, NULL, &old));
        printf("  before: %s, mask %#x, flags %#x\n", name_of(old.handler), (unsigned)old.mask, (unsigned)old.flags);
        printf("impossible: %d %s\n", sigvec(0, &vector, NULL), strerrorname_np(errno));
    }
#endif
    else return 2;
    return 0;
}
