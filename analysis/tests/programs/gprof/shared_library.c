/* A shared library. */
static volatile unsigned long sink;
__attribute__((noinline)) static void library_helper(int steps) {
    for (int step = 0; step < steps; step++) sink += step;
}
int library_call(int (*callback)(int), int steps) {
    library_helper(steps);
    return callback(steps) + callback(steps + 1);
}
