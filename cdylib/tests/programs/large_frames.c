/* Sends itself ticks below frames that are larger than pages, on the main thread and on another. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 50 };

__attribute__((noinline)) static void tick(void) {
    if (raise(SIGPROF) != 0) exit(99);
    __asm__ volatile("" ::: "memory");
}

/* Nothing is between a frame's page and the next one's but the array, which is touched at its ends. */
#define FRAME(name, bytes, next)                           \
    __attribute__((noinline)) static void name(void) {     \
        volatile char room[bytes];                         \
        room[0] = 1;                                       \
        room[sizeof room - 1] = 2;                         \
        next();                                            \
        room[0] = room[sizeof room - 1];                   \
    }
FRAME(under_20_kib, 20 << 10, tick)
FRAME(under_200_kib, 200 << 10, under_20_kib)
FRAME(under_a_page, 3 << 10, under_200_kib)
FRAME(under_40_kib, 40 << 10, under_a_page)

__attribute__((noinline)) static void *run_rounds(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        tick();
        under_20_kib();
        under_40_kib();
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    run_rounds(NULL);
    if (pthread_create(&thread, NULL, run_rounds, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    return 0;
}
