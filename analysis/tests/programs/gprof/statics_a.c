/* Static functions of the same names in two files. */
#include <stdio.h>
volatile unsigned long sink;
__attribute__((noinline)) static void helper(int steps) {
    for (int step = 0; step < steps; step++) sink += step;
}
__attribute__((noinline)) static int init(int turns) {
    for (int turn = 0; turn < turns; turn++) helper(200);
    return turns;
}
int other(int turns);
int unused(int turns) { return init(turns) + 1; }
int main(void) {
    for (int turn = 0; turn < 100; turn++) sink += init(turn) + other(turn);
    printf("%lu\n", sink);
    return 0;
}
