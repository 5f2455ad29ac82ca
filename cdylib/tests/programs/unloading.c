/* Loads and unloads two libraries in turn, which take the same addresses, while ticks come at once from a timer, from
 * another thread and from the libraries themselves. usage: unloading FIRST SECOND ROUNDS [calm|guess]
 *
 * With `calm` only the libraries send ticks, and there are just as many rounds as asked for.
 *
 * With `guess` a third thread sends itself ticks in code that has no call frame information, with a frame pointer that
 * leads into the libraries, whether one is there or just going.
 *
 * To unload waits for whoever is in a tick, and on a busy machine that may be a thread that others keep from its processor: then
 * there are fewer rounds.
 *
 * Prints the library's first address, the number of rounds, and of those in which it had that address, and the address of the
 * code without call frame information. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPIN = 20000, PAGE = 4096, LEAST_ROUNDS = 300, MOST_SECONDS = 15 };

typedef unsigned long (*function_in_library)(void (*)(void), unsigned long);

static long process, main_thread;
static volatile int over;
static volatile uintptr_t code, behind_call;

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(99);
}

/* What the library calls back: a tick in a frame of the program's, on top of the library's. */
__attribute__((noinline)) static void called_back(void) {
    behind_call = (uintptr_t)__builtin_return_address(0);
    raise(SIGPROF);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void use_library(function_in_library function) {
    volatile unsigned long result = function(called_back, SPIN);
    (void)result;
}

__attribute__((noinline)) static void *open_library(const char *path) {
    void *const library = dlopen(path, RTLD_NOW);
    if (library == NULL) die(dlerror());
    return library;
}

__attribute__((noinline)) static void close_library(void *library) {
    if (dlclose(library) != 0) die(dlerror());
    __asm__ volatile("" ::: "memory");
}

static void *send_ticks(void *unused) {
    while (!over) {
        syscall(SYS_tgkill, process, main_thread, SIGPROF);
        sched_yield();
    }
    return unused;
}

/* void guess(frame, process, thread): sends the thread a tick with the frame pointer at `frame`. */
extern const char guess_start[], guess_end[];
__asm__(
    ".text\nguess_start:\n"
    "push %rbp\nmov %rdi, %rbp\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov $27, %edx\nmov $234, %eax\nsyscall\nnop\npop %rbp\nret\n"
    "guess_end:\n");

typedef void (*guess_function)(uintptr_t *frame, long process, long thread);

static guess_function make_guess_function(void) {
    void *const page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) die("mmap");
    memcpy(page, guess_start, (size_t)(guess_end - guess_start));
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC) != 0) die("mprotect");
    /* ISO C has no conversion from an object's address to a function's. */
    guess_function function;
    memcpy(&function, &page, sizeof function);
    return function;
}

/* Every address is tried once, and again whenever the library has gone: most cannot be returned to, and one can. */
static void *guess_always(void *function) {
    enum { WORDS = 64, BYTES_OF_CODE = 256 };
    guess_function guess;
    memcpy(&guess, &function, sizeof guess);
    const long thread = syscall(SYS_gettid);
    uintptr_t frame[WORDS];
    memset(frame, 0, sizeof frame);
    for (unsigned i = 0; !over; i++) {
        frame[1] = i % 2 == 0 ? code + i / 2 * 7 % BYTES_OF_CODE : behind_call;
        guess(frame, process, thread);
    }
    return NULL;
}

static time_t seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc > 5) return 98;
    process = getpid();
    main_thread = syscall(SYS_gettid);
    const guess_function guess = make_guess_function();
    void *guess_page;
    memcpy(&guess_page, &guess, sizeof guess);
    pthread_t threads[2];
    const int is_calm = argc == 5 && strcmp(argv[4], "calm") == 0;
    const int thread_count = is_calm ? 0 : argc == 5 ? 2 : 1;
    const int most_rounds = atoi(argv[3]);
    const int least_rounds = is_calm ? most_rounds : LEAST_ROUNDS;
    const time_t end = seconds() + MOST_SECONDS;
    int at_same_place = 0, rounds = 0;
    uintptr_t base = 0;
    for (int i = -2; i < least_rounds || (i < most_rounds && seconds() < end); i++) {
        rounds += i >= 0;
        void *const library = open_library(argv[i % 2 == 0 ? 1 : 2]);
        function_in_library function;
        *(void **)&function = dlsym(library, "in_library");
        Dl_info info;
        if (function == NULL || dladdr(*(void **)&function, &info) == 0) die("no function in_library");
        base = (uintptr_t)info.dli_fbase;
        at_same_place += i >= 0 && code == (uintptr_t)dlsym(library, "innermost");
        code = (uintptr_t)dlsym(library, "innermost");
        use_library(function);
        close_library(library);
        if (i == -1 && thread_count > 0) {
            if (pthread_create(&threads[0], NULL, send_ticks, NULL) != 0) die("pthread_create");
            if (thread_count == 2 && pthread_create(&threads[1], NULL, guess_always, guess_page) != 0)
                die("pthread_create");
        }
    }
    over = 1;
    for (int i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i <= 2; i++)
        if (dlopen(argv[i], RTLD_NOW | RTLD_NOLOAD) != NULL) die("a library that was closed is still there");
    printf("%#lx %d %d %#lx\n", (unsigned long)base, rounds, at_same_place, (unsigned long)(uintptr_t)guess_page);
    return 0;
}
