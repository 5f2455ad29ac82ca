/* A library to preload that ends the process when code allocates or takes a lock where it must not: on a thread that
 * has called detector_enter and not yet detector_leave. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DETECTED = 70 };

/* Initial-exec, so that reading it calls nothing. */
static __thread int armed __attribute__((tls_model("initial-exec")));

void detector_enter(void) { armed = 1; }

void detector_leave(void) { armed = 0; }

static void refuse_if_armed(const char *name) {
    if (!armed) return;
    armed = 0;
    static const char message[] = "detector: called in the signal handler: ";
    const int written = write(2, message, sizeof message - 1) > 0 && write(2, name, strlen(name)) > 0;
    _Exit(written ? DETECTED : DETECTED + 1);
}

/* The allocator, by the names under which glibc keeps its own for interposers. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *pointer);

void *malloc(size_t size) {
    refuse_if_armed("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    refuse_if_armed("calloc");
    return __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size) {
    refuse_if_armed("realloc");
    return __libc_realloc(pointer, size);
}

void free(void *pointer) {
    refuse_if_armed("free");
    __libc_free(pointer);
}

void *memalign(size_t alignment, size_t size) {
    refuse_if_armed("memalign");
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    refuse_if_armed("aligned_alloc");
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    refuse_if_armed("posix_memalign");
    *result = __libc_memalign(alignment, size);
    return *result == NULL ? ENOMEM : 0;
}

/* Everything else: refused or passed on to the next definition, which must have been looked up before. */
#define PASS_ON(result, name, parameters, arguments)       \
    static result(*next_##name) parameters;                \
    result name parameters {                               \
        refuse_if_armed(#name);                            \
        if (next_##name == NULL) look_up_all();            \
        return next_##name arguments;                      \
    }

static void look_up_all(void);

PASS_ON(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
PASS_ON(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
PASS_ON(int, pthread_mutex_timedlock, (pthread_mutex_t * mutex, const struct timespec *limit), (mutex, limit))
PASS_ON(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
PASS_ON(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
PASS_ON(int, pthread_spin_lock, (pthread_spinlock_t * lock), (lock))
PASS_ON(int, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
PASS_ON(int, pthread_once, (pthread_once_t * once, void (*routine)(void)), (once, routine))
PASS_ON(int, dl_iterate_phdr, (int (*callback)(struct dl_phdr_info *, size_t, void *), void *data), (callback, data))
PASS_ON(int, dladdr, (const void *address, Dl_info *information), (address, information))
PASS_ON(void *, dlopen, (const char *name, int flags), (name, flags))
PASS_ON(char *, getenv, (const char *name), (name))
PASS_ON(int, sched_yield, (void), ())
PASS_ON(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))

static long (*next_syscall)(long number, ...);

/* A lock that has to wait, in Rust as in C++, waits on a futex. */
long syscall(long number, ...) {
    if (number == SYS_futex) refuse_if_armed("syscall(SYS_futex)");
    if (next_syscall == NULL) look_up_all();
    va_list list;
    va_start(list, number);
    long arguments[6];
    for (int i = 0; i < 6; i++) arguments[i] = va_arg(list, long);
    va_end(list);
    return next_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

static void *next_definition(const char *name) {
    void *definition = dlsym(RTLD_NEXT, name);
    if (definition == NULL) _Exit(DETECTED + 2);
    return definition;
}

/* memcpy, since C has no cast from an object pointer to a function pointer. */
#define LOOK_UP(name)                                               \
    do {                                                            \
        void *definition = next_definition(#name);                  \
        memcpy(&next_##name, &definition, sizeof definition);       \
    } while (0)

__attribute__((constructor)) static void look_up_all(void) {
    LOOK_UP(pthread_mutex_lock);
    LOOK_UP(pthread_mutex_trylock);
    LOOK_UP(pthread_mutex_timedlock);
    LOOK_UP(pthread_rwlock_rdlock);
    LOOK_UP(pthread_rwlock_wrlock);
    LOOK_UP(pthread_spin_lock);
    LOOK_UP(pthread_cond_wait);
    LOOK_UP(pthread_once);
    LOOK_UP(dl_iterate_phdr);
    LOOK_UP(dladdr);
    LOOK_UP(dlopen);
    LOOK_UP(getenv);
    LOOK_UP(sched_yield);
    LOOK_UP(nanosleep);
    LOOK_UP(syscall);
}
