/* A program with a shared library that calls back. */
#include <stdio.h>
int library_call(int (*callback)(int), int steps);
static volatile unsigned long sink;
__attribute__((noinline)) int called_back(int steps) {
    for (int step = 0; step < steps * 10; step++) sink += step;
    return steps;
}
__attribute__((noinline)) int own(int steps) { return called_back(steps) + library_call(called_back, steps); }
int main(void) {
    int sum = 0;
    for (int turn = 0; turn < 2000; turn++) sum += own(turn % 100);
    printf("%d\n", sum);
    return 0;
}
