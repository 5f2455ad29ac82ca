/* Recursion to several depths, two callers of one function, and a function that is called from two lines. */
static volatile unsigned long sink;

__attribute__((noinline)) static void leaf(int rounds) {
    for (int round = 0; round < rounds; round++)
        sink += (unsigned long)round;
}

__attribute__((noinline)) static void recurse(int depth) {
    if (depth > 0)
        recurse(depth - 1);
    else
        leaf(60000);
    for (int round = 0; round < 20000; round++)
        sink ^= (unsigned long)round;
    if (depth == 2)
        leaf(20000);
}

__attribute__((noinline)) static void even(int depth);

__attribute__((noinline)) static void odd(int depth) {
    leaf(5000);
    if (depth > 0)
        even(depth - 1);
    sink++;
}

__attribute__((noinline)) static void even(int depth) {
    leaf(3000);
    if (depth > 0)
        odd(depth - 1);
    sink++;
}

int main(void) {
    for (int round = 0; round < 2500; round++) {
        recurse(round % 5);
        odd(round % 7);
        leaf(10000);
    }
    return 0;
}
