/* 120 functions that call each other in many cycles. */
#include <stdio.h>

#define FUNCTIONS 120
typedef void (*function)(int fuel);
static function table[FUNCTIONS];
static volatile unsigned long sink;

#define BODY(name, number)                                                     \
    __attribute__((noinline)) void name(int fuel) {                            \
        for (int step = 0; step < (number) * 40; step++) sink += step;         \
        if (fuel <= 0) return;                                                 \
        table[((number) * 7 + fuel * 5 + 3) % FUNCTIONS](fuel - 1);            \
        if (fuel % 3 == 0) table[((number) + fuel) % FUNCTIONS](fuel - 2);     \
        if ((number) % 10 == 0) table[(number) % FUNCTIONS](fuel - 3);                     \
        sink += fuel;                                                          \
    }
#define TEN(ten)                                                               \
    BODY(f##ten##0, ten * 10) BODY(f##ten##1, ten * 10 + 1)                    \
    BODY(f##ten##2, ten * 10 + 2) BODY(f##ten##3, ten * 10 + 3)                \
    BODY(_f##ten##4, ten * 10 + 4) BODY(f##ten##5, ten * 10 + 5)               \
    BODY(f##ten##6, ten * 10 + 6) BODY(f##ten##7, ten * 10 + 7)                \
    BODY(a_rather_long_name_of_a_function_##ten##8, ten * 10 + 8)              \
    BODY(f##ten##9, ten * 10 + 9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) TEN(12)

#define FILL(ten)                                                              \
    f##ten##0, f##ten##1, f##ten##2, f##ten##3, _f##ten##4, f##ten##5,         \
    f##ten##6, f##ten##7, a_rather_long_name_of_a_function_##ten##8, f##ten##9
static function table[FUNCTIONS] = {
    FILL(1), FILL(2), FILL(3), FILL(4), FILL(5), FILL(6),
    FILL(7), FILL(8), FILL(9), FILL(10), FILL(11), FILL(12)};

int main(int argc, char **argv) {
    (void)argv;
    /* The first argument chooses where the graph is entered. */
    for (int turn = 0; turn < 5; turn++) table[(turn * 11 + argc * 17) % FUNCTIONS](14);
    table[5](argc);
    printf("%lu\n", sink);
    return 0;
}
