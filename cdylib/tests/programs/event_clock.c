/* Carries out orders, and counts what the profiler has of the process.
 * usage: event_clock ORDER...
 *   probe      prints "permits kernel", "permits user" or "permits none": which perf events of this thread's task clock
 *   threads N  starts threads, which register themselves and wait
 *   start FILE, stop  start and stop the profiler
 *   disarm     disarms ITIMER_PROF, unseen by the profiler: a tick of the process may go to any thread
 *   interrupted  prints "interrupted N": how often a waiting thread was interrupted by a signal
 *   close      closes all descriptors above 2
 *   samples N  computes until there are so many more samples
 *   crowd N    the same in N threads, for 8000 samples
 *   handler    from now on sets a handler of SIGPROF again and again while it computes
 *   own N      computes until N signals of a perf event of its own, which sends SIGPROF, have reached its handler,
 *              and there are so many more samples; prints "others N": signals of other origin that have reached it
 *   sandbox    a child of vfork(2) announces a sandbox, and ends
 *   short N    creates threads one after another, each of which computes for 8 ms
 *   together N the same at the same time, at most 100
 *   count      prints "events N lowest D": descriptors of perf events, and the lowest; "timers N": POSIX timers of threads, or -1
 *   fork       does the rest in a child, and exits like it */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <gperftools/profiler.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t all_are_registered;

static atomic_int interruptions;

static void *wait_registered(void *unused) {
    ProfilerRegisterThread();
    pthread_barrier_wait(&all_are_registered);
    /* Not restarted after a handler (signal(7)). */
    for (;; interruptions++) poll(NULL, 0, -1);
    return unused;
}

static void start_threads(unsigned count) {
    pthread_barrier_init(&all_are_registered, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, wait_registered, NULL) != 0) exit(90);
    }
    pthread_barrier_wait(&all_are_registered);
}

static int is_permitted(int excludes_kernel) {
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .size = PERF_ATTR_SIZE_VER0,
                                         .config = PERF_COUNT_SW_TASK_CLOCK, .sample_period = 1000000000,
                                         .disabled = 1, .exclude_kernel = excludes_kernel, .exclude_hv = excludes_kernel};
    const int descriptor = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (descriptor >= 0) close(descriptor);
    return descriptor >= 0;
}

static void print_events(void) {
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) exit(91);
    int count = 0, lowest = -1;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char target[64] = "";
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) < 0) continue;
        if (strcmp(target, "anon_inode:[perf_event]") != 0) continue;
        const int descriptor = atoi(entry->d_name);
        if (lowest < 0 || descriptor < lowest) lowest = descriptor;
        count++;
    }
    closedir(directory);
    printf("events %d lowest %d\n", count, lowest);
}

static void print_timers(void) {
    FILE *file = fopen("/proc/self/timers", "r");
    int count = file == NULL ? -1 : 0;
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) count += strstr(line, "tid.") != NULL;
    if (file != NULL) fclose(file);
    printf("timers %d\n", count);
}

static int samples(void) {
    struct ProfilerState state;
    ProfilerGetCurrentState(&state);
    return state.samples_gathered;
}

__attribute__((noinline)) static void *compute_shortly(void *unused) {
    struct timespec now;
    volatile unsigned long work = 0;
    do {
        for (int i = 0; i < 2000; i++) work = work * 5 + 3;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_nsec < 8000000);
    return unused;
}

static void run_short_threads(int count) {
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, compute_shortly, NULL) != 0) exit(95);
        pthread_join(thread, NULL);
    }
}

static void run_short_threads_together(int count) {
    pthread_t threads[100];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, compute_shortly, NULL) != 0) exit(95);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static int sets_handler;

static void handle(int unused) {
    (void)unused;
}

static volatile sig_atomic_t own_event, own_signals, other_signals;
static int wanted_own_signals;

static void compute_until(int wanted) {
    const clock_t begin = clock();
    volatile unsigned long work = 0;
    while (samples() < wanted || own_signals < wanted_own_signals) {
        for (int i = 0; i < 20000; i++) work = work * 5 + 3;
        if (sets_handler) sigaction(SIGPROF, &(struct sigaction){.sa_handler = handle}, NULL);
        if (clock() - begin > 60 * CLOCKS_PER_SEC) exit(97);
    }
}

static void count_signal(int unused, siginfo_t *info, void *context) {
    (void)unused, (void)context;
    if (info->si_fd == own_event) own_signals = own_signals + 1;
    else other_signals = other_signals + 1;
}

static void compute_with_own_event(int wanted) {
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .size = PERF_ATTR_SIZE_VER0,
                                         .config = PERF_COUNT_SW_TASK_CLOCK, .sample_period = 1000000, .wakeup_events = 1};
    struct f_owner_ex owner = {F_OWNER_TID, gettid()};
    own_event = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (own_event < 0 || sigaction(SIGPROF, &(struct sigaction){.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO}, NULL) != 0 ||
        fcntl(own_event, F_SETSIG, SIGPROF) != 0 || fcntl(own_event, F_SETOWN_EX, &owner) != 0 ||
        fcntl(own_event, F_SETFL, O_ASYNC) != 0)
        exit(89);
    wanted_own_signals = wanted;
    compute_until(samples() + wanted);
    close(own_event);
    printf("others %d\n", (int)other_signals);
}

static void announce_sandbox_in_child(void) {
    const pid_t child = vfork();
    if (child == 0) _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) exit(98);
}

static void *compute_in_crowd(void *unused) {
    compute_until(8000);
    return unused;
}

static void run_crowd(int count) {
    pthread_t threads[100];
    if (count > 100) exit(96);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, compute_in_crowd, NULL) != 0) exit(95);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *order = argv[i];
        if (strcmp(order, "probe") == 0) {
            printf("permits %s\n", is_permitted(0) ? "kernel" : is_permitted(1) ? "user" : "none");
        } else if (strcmp(order, "threads") == 0 && ++i < argc) {
            start_threads((unsigned)atoi(argv[i]));
        } else if (strcmp(order, "close") == 0) {
            const int most = (int)sysconf(_SC_OPEN_MAX);
            for (int descriptor = 3; descriptor < most; descriptor++) close(descriptor);
        } else if (strcmp(order, "samples") == 0 && ++i < argc) {
            compute_until(samples() + atoi(argv[i]));
        } else if (strcmp(order, "crowd") == 0 && ++i < argc) {
            run_crowd(atoi(argv[i]));
        } else if (strcmp(order, "handler") == 0) {
            sets_handler = 1;
        } else if (strcmp(order, "own") == 0 && ++i < argc) {
            compute_with_own_event(atoi(argv[i]));
        } else if (strcmp(order, "sandbox") == 0) {
            announce_sandbox_in_child();
        } else if (strcmp(order, "short") == 0 && ++i < argc) {
            run_short_threads(atoi(argv[i]));
        } else if (strcmp(order, "together") == 0 && ++i < argc) {
            run_short_threads_together(atoi(argv[i]));
        } else if (strcmp(order, "count") == 0) {
            print_events();
            print_timers();
        } else if (strcmp(order, "start") == 0 && ++i < argc) {
            if (!ProfilerStart(argv[i])) exit(94);
        } else if (strcmp(order, "stop") == 0) {
            ProfilerStop();
        } else if (strcmp(order, "disarm") == 0) {
            const struct itimerval none = {{0, 0}, {0, 0}};
            syscall(SYS_setitimer, ITIMER_PROF, &none, NULL);
        } else if (strcmp(order, "interrupted") == 0) {
            printf("interrupted %d\n", interruptions);
        } else if (strcmp(order, "fork") == 0) {
            fflush(stdout);
            const pid_t child = fork();
            int status = 0;
            if (child != 0) return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 92;
        } else {
            return 93;
        }
    }
    fflush(stdout);
    return 0;
}
