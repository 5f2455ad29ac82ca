/* An application that changes what its profile's path depends on: it does, in order, what its arguments say.
 *
 *   tick N            sends itself SIGPROF N times
 *   toggle            sends itself SIGUSR2
 *   start FILE        ProfilerStart
 *   stop, flush       ProfilerStop, ProfilerFlush
 *   chdir DIR, chroot DIR, setuid N, umask MODE (octal), mkdir DIR, rmdir DIR, remove FILE, rename FROM TO
 *   close             closes all descriptors from 3 on
 *   take FILE         puts a file of its own, which says "mine", in the place of all descriptors from 3 on
 *   leak              opens descriptors until the limit is reached
 *   descriptors       prints how many are open
 *   size N            lets no file become larger than N bytes
 *   handle-size       handles SIGXFSZ itself, and prints a line if it comes
 *   fork              does the rest in a child, and ends as that did
 *   exec              does the rest in a new program in its own place
 *   exec-bare         the same, with nothing in its environment but what starts a profile of the same name
 *   exit N            ends; without it the status is 0 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Absent when no library is preloaded. */
extern int ProfilerStart(const char *name) __attribute__((weak));
extern void ProfilerStop(void) __attribute__((weak));
extern void ProfilerFlush(void) __attribute__((weak));

static int opened_self = -1;

static void check(int result, const char *what) {
    if (result >= 0) return;
    perror(what);
    exit(99);
}

static void send(int number, int times) {
    for (int i = 0; i < times; i++)
        check((int)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number), "tgkill");
}

static void do_tick(char **words) { send(SIGPROF, atoi(words[0])); }

static void do_toggle(char **words) {
    (void)words;
    send(SIGUSR2, 1);
}

static void do_start(char **words) {
    if (ProfilerStart == NULL || !ProfilerStart(words[0])) exit(97);
}

static void do_stop(char **words) {
    (void)words;
    ProfilerStop();
}

static void do_flush(char **words) {
    (void)words;
    ProfilerFlush();
}

static void do_chdir(char **words) { check(chdir(words[0]), "chdir"); }

static void do_chroot(char **words) {
    check(chroot(words[0]), "chroot");
    check(chdir("/"), "chdir");
}

static void do_setuid(char **words) {
    check(setgid((gid_t)atoi(words[0])), "setgid");
    check(setuid((uid_t)atoi(words[0])), "setuid");
}

static void do_umask(char **words) { umask((mode_t)strtol(words[0], NULL, 8)); }

static void do_mkdir(char **words) { check(mkdir(words[0], 0777), "mkdir"); }

static void do_rmdir(char **words) { check(rmdir(words[0]), "rmdir"); }

static void do_remove(char **words) { check(unlink(words[0]), "unlink"); }

static void do_rename(char **words) { check(rename(words[0], words[1]), "rename"); }

static void do_close(char **words) {
    (void)words;
    check((int)syscall(SYS_close_range, 3u, ~0u, 0u), "close_range");
}

/* Calls `each` with every open descriptor but that of the list; gives their number. */
static int for_each_descriptor(void (*each)(int descriptor, int argument), int argument) {
    DIR *list = opendir("/proc/self/fd");
    if (list == NULL) check(-1, "/proc/self/fd");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        const int descriptor = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || descriptor == dirfd(list)) continue;
        count++;
        if (each != NULL) each(descriptor, argument);
    }
    closedir(list);
    return count;
}

static void replace(int descriptor, int own) {
    if (descriptor >= 3 && descriptor != own) check(dup2(own, descriptor), "dup2");
}

static void do_take(char **words) {
    const int own = open(words[0], O_RDWR | O_CREAT | O_EXCL, 0666);
    check(own, words[0]);
    check((int)write(own, "mine", 4), "write");
    for_each_descriptor(replace, own);
}

static void do_leak(char **words) {
    (void)words;
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
}

static void do_descriptors(char **words) {
    (void)words;
    printf("%d descriptors\n", for_each_descriptor(NULL, 0));
    fflush(stdout);
}

static void do_size(char **words) {
    const struct rlimit limit = {(rlim_t)atoi(words[0]), (rlim_t)atoi(words[0])};
    check(setrlimit(RLIMIT_FSIZE, &limit), "setrlimit");
}

static void on_too_large(int number) {
    static const char line[] = "SIGXFSZ came\n";
    (void)number;
    check((int)write(1, line, sizeof line - 1), "write");
}

static void do_handle_size(char **words) {
    (void)words;
    signal(SIGXFSZ, on_too_large);
}

static void do_fork(char **words) {
    (void)words;
    const pid_t child = fork();
    check(child, "fork");
    if (child == 0) return;
    int status = 0;
    check(waitpid(child, &status, 0), "waitpid");
    printf("child %d\n", (int)child);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void replace_program(char **words, char **environment) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", opened_self);
    execve(path, words - 1, environment);
    check(-1, "execve");
}

static void do_exec(char **words) { replace_program(words, environ); }

static void do_exec_bare(char **words) {
    static const char *const kept[] = {"LD_PRELOAD=", "CPUPROFILE=", "CPUPROFILESIGNAL=", "CPUPROFILE_FREQUENCY="};
    char *environment[5] = {NULL};
    int count = 0;
    for (char **entry = environ; *entry != NULL; entry++)
        for (size_t i = 0; i < 4; i++)
            if (strncmp(*entry, kept[i], strlen(kept[i])) == 0 && count < 4) environment[count++] = *entry;
    replace_program(words, environment);
}

static void do_exit(char **words) { exit(atoi(words[0])); }

static const struct order {
    const char *name;
    int operands;
    void (*run)(char **words);
} orders[] = {
    {"tick", 1, do_tick},     {"toggle", 0, do_toggle}, {"start", 1, do_start},   {"stop", 0, do_stop},
    {"flush", 0, do_flush},   {"chdir", 1, do_chdir},   {"chroot", 1, do_chroot}, {"setuid", 1, do_setuid},
    {"umask", 1, do_umask},   {"mkdir", 1, do_mkdir},   {"rmdir", 1, do_rmdir},   {"remove", 1, do_remove},
    {"rename", 2, do_rename}, {"close", 0, do_close},   {"take", 1, do_take},     {"leak", 0, do_leak},
    {"size", 1, do_size},     {"fork", 0, do_fork},     {"exec", 0, do_exec},     {"exec-bare", 0, do_exec_bare},
    {"exit", 1, do_exit},     {"descriptors", 0, do_descriptors},                 {"handle-size", 0, do_handle_size},
};

static const struct order *order_named(const char *name) {
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        if (strcmp(orders[i].name, name) == 0) return &orders[i];
    fprintf(stderr, "places: unknown order %s\n", name);
    exit(98);
}

int main(int argc, char **argv) {
    /* For exec, which takes a descriptor: the path may mean something else by then. */
    opened_self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    check(opened_self, "/proc/self/exe");
    for (int i = 1; i < argc;) {
        const struct order *order = order_named(argv[i]);
        if (i + order->operands >= argc) return 98;
        order->run(argv + i + 1);
        i += 1 + order->operands;
    }
    return 0;
}
