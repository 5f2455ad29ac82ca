/* libc: what leaves the ordinary order of calls and returns, and what asks the system. */
#define _GNU_SOURCE
#include "step.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

__attribute__((noinline)) static void jump(jmp_buf where) {
    longjmp(where, 1);
}

__attribute__((noinline)) static void call_and_jump(jmp_buf where) {
    jump(where);
    __asm__ volatile("");
}

static void run_jumps(const struct stepper *stepper UNUSED) {
    jmp_buf where;
    sigjmp_buf with_mask;
    for (volatile int i = 0; i < 5; i++) {
        if (setjmp(where) == 0) call_and_jump(where);
        if (sigsetjmp(with_mask, 1) == 0) siglongjmp(with_mask, 1);
    }
}

static ucontext_t main_context, coroutine;

static void coroutine_entry(void) {
    for (int i = 0; i < 4; i++) {
        char text[20];
        snprintf(text, sizeof text, "%d", i);
        swapcontext(&coroutine, &main_context);
    }
}

static void run_contexts(const struct stepper *stepper) {
    enum { STACK_BYTES = 64 << 10 };
    void *stack = malloc(STACK_BYTES);
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    coroutine.uc_link = &main_context;
    makecontext(&coroutine, coroutine_entry, 0);
    /* The entry function is made to return there. */
    stepper->outermost(*(void **)coroutine.uc_mcontext.gregs[REG_RSP]);
    for (int i = 0; i < 5; i++) swapcontext(&main_context, &coroutine);
    free(stack);
    static volatile int came_back;
    came_back = 0;
    getcontext(&main_context);
    if (came_back) return;
    came_back = 1;
    setcontext(&main_context);
}

static const struct stepper *present;

static void on_signal(int number UNUSED, siginfo_t *info UNUSED, void *context UNUSED) {
    /* The kernel clears the trap flag for a handler. */
    present->again();
    char text[20];
    snprintf(text, sizeof text, "%f", 1.5);
}

static void run_signals(const struct stepper *stepper) {
    struct sigaction action, old;
    present = stepper;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, &old);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigaction(SIGUSR1, &old, NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialise(void) {
    pthread_key_create(&key, free);
}

static void *thread(void *argument) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void run_threads(const struct stepper *stepper) {
    pthread_t id;
    sem_t semaphore;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    if (pthread_create(&id, NULL, thread, NULL) == 0) {
        stepper->again();
        pthread_join(id, NULL);
    }
    pthread_once(&once, initialise);
    pthread_setspecific(key, malloc(10));
    free(pthread_getspecific(key));
    pthread_setspecific(key, NULL);
    pthread_rwlock_wrlock(&lock);
    pthread_rwlock_unlock(&lock);
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    sem_init(&semaphore, 0, 1);
    sem_wait(&semaphore);
    sem_post(&semaphore);
    sem_destroy(&semaphore);
}

static void run_names(const struct stepper *stepper UNUSED) {
    struct passwd user, *user_found;
    struct group group, *group_found;
    char buffer[4096];
    getpwnam_r("root", &user, buffer, sizeof buffer, &user_found);
    getpwuid_r(1, &user, buffer, sizeof buffer, &user_found);
    getgrnam_r("daemon", &group, buffer, sizeof buffer, &group_found);
    struct addrinfo hints, *addresses;
    memset(&hints, 0, sizeof hints);
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    if (getaddrinfo("127.0.0.1", "80", &hints, &addresses) == 0) {
        char app[100];
        getnameinfo(addresses->ai_addr, addresses->ai_addrlen, app, sizeof app, NULL, 0, NI_NUMERICHOST);
        freeaddrinfo(addresses);
    }
    USE(getprotobyname("tcp"));
    USE(getservbyname("http", "tcp"));
}

static int visit(const char *path UNUSED, const struct stat *status UNUSED, int kind UNUSED, struct FTW *where UNUSED) {
    return 0;
}

static int keep_short(const struct dirent *entry) {
    return strlen(entry->d_name) < 6;
}

static void run_files(const struct stepper *stepper UNUSED) {
    struct dirent **entries;
    char path[4096];
    nftw("/etc/default", visit, 8, FTW_PHYS);
    const int count = scandir("/etc", &entries, keep_short, alphasort);
    for (int i = 0; i < count; i++) free(entries[i]);
    if (count >= 0) free(entries);
    USE(realpath("/usr/bin/../lib/.", path));
    USE(getcwd(path, sizeof path));
    USE(access("/etc/passwd", R_OK));
    const int descriptor = open("/etc/passwd", O_RDONLY);
    USE(read(descriptor, path, sizeof path));
    close(descriptor);
    USE(sysconf(_SC_NPROCESSORS_ONLN));
    USE(getenv("HOME"));
}

static void run_processes(const struct stepper *stepper) {
    pid_t child;
    char program[] = "true", *arguments[] = {program, NULL};
    int status;
    if (posix_spawnp(&child, program, NULL, NULL, arguments, environ) == 0) {
        stepper->again();
        waitpid(child, &status, 0);
    }
    child = fork();
    if (child == 0) _exit(0);
    stepper->again();
    waitpid(child, &status, 0);
}

const struct region regions[] = {
    {"jumps", 0, run_jumps},     {"contexts", 0, run_contexts}, {"signals", 0, run_signals},
    {"threads", 0, run_threads}, {"names", 0, run_names},            {"files", 0, run_files},
    {"processes", 0, run_processes}, {0, 0, 0},
};
