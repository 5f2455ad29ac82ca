/* Functions without known callers: callbacks of the C library, signal handlers, exit handlers, threads. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) void burn(int steps) {
    for (int step = 0; step < steps; step++) sink += step;
}
__attribute__((noinline)) int compare(const void *left, const void *right) {
    burn(20);
    return *(const int *)left - *(const int *)right;
}
__attribute__((noinline)) void on_signal(int number) { burn(number * 100); }
__attribute__((noinline)) void at_exit(void) { burn(1000); }
__attribute__((noinline)) void *in_thread(void *argument) {
    burn((int)(long)argument);
    return 0;
}
__attribute__((constructor)) static void before_main(void) { burn(10); }
int main(void) {
    int numbers[4000];
    for (int place = 0; place < 4000; place++) numbers[place] = place * 7919 % 4001;
    qsort(numbers, 4000, sizeof *numbers, compare);
    signal(SIGUSR1, on_signal);
    for (int turn = 0; turn < 20; turn++) raise(SIGUSR1);
    atexit(at_exit);
    pthread_t threads[3];
    for (long place = 0; place < 3; place++) pthread_create(&threads[place], 0, in_thread, (void *)(place * 100000));
    for (int place = 0; place < 3; place++) pthread_join(threads[place], 0);
    printf("%d\n", numbers[17]);
    return 0;
}
