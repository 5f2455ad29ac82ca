/* Recursion: direct, mutual, nested cycles, and a cycle with several entries. */
#include <stdio.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void work(long steps) {
    for (long step = 0; step < steps; step++) sink += step * step;
}

__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

__attribute__((noinline)) int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

int odd(int n);
__attribute__((noinline)) int even(int n) {
    work(300);
    return n == 0 ? 1 : odd(n - 1) ^ 0;
}
__attribute__((noinline)) int odd(int n) {
    work(700);
    return n == 0 ? 0 : even(n - 1) ^ 0;
}

/* Two cycles that share `inner`, and one that is inside: a -> b -> inner -> a, b -> inner -> b. */
int inner(int n);
__attribute__((noinline)) int leaf(int n) { work(2000); return n; }
__attribute__((noinline)) int b(int n) { return leaf(n) + (n > 0 ? inner(n - 1) : 0); }
__attribute__((noinline)) int a(int n) { return leaf(n) + (n > 0 ? b(n - 1) : 0) + 1; }
__attribute__((noinline)) int inner(int n) {
    work(900);
    if (n <= 0) return 0;
    return n % 3 == 0 ? a(n - 1) + 1 : n % 3 == 1 ? b(n - 1) + 1 : inner(n - 1) + 1;
}

/* `easy` and `hard` share a callee. */
__attribute__((noinline)) void easy(void) { work(1000); work(10); }
__attribute__((noinline)) void hard(void) { work(20000000); work(10); }

int main(void) {
    int sum = fib(24) + ackermann(2, 60) + even(1501) + odd(1502);
    for (int turn = 0; turn < 300; turn++) sum += a(turn % 40) + b(turn % 30) + inner(turn % 20);
    for (int turn = 0; turn < 4; turn++) {
        easy();
        hard();
    }
    printf("%d\n", sum);
    return 0;
}
