/* Static functions of the same names in two files. */
extern volatile unsigned long sink;
__attribute__((noinline)) static void helper(int steps) {
    for (int step = 0; step < steps; step++) sink += 3 * step;
}
__attribute__((noinline)) static int init(int turns) {
    for (int turn = 0; turn < turns; turn++) helper(500);
    return turns;
}
__attribute__((noinline)) int other(int turns) { return init(turns) + init(1); }
