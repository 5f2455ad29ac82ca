/* Declares FUNCTION_COUNT functions, each of which calls its own copy of BODY, and an array of them all: code
 * addresses and call frame information that nothing has met before. Define BODY(number) first: statements. */
#ifndef MANY_FUNCTIONS_H
#define MANY_FUNCTIONS_H

#define FUNCTION_COUNT 256

/* Frames of different sizes and with different saved registers. */
#define ONE_FUNCTION(number)                                                        \
    __attribute__((noinline)) static long function_##number(long depth) {           \
        volatile char frame[16 + 8 * (0x##number % 23)];                            \
        frame[0] = (char)depth;                                                     \
        BODY(0x##number)                                                            \
        return depth + frame[0];                                                    \
    }

#define ROW(X, high) X(high##0) X(high##1) X(high##2) X(high##3) X(high##4) X(high##5) X(high##6) X(high##7) \
    X(high##8) X(high##9) X(high##a) X(high##b) X(high##c) X(high##d) X(high##e) X(high##f)
#define ALL(X) ROW(X, 0) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6) ROW(X, 7) \
    ROW(X, 8) ROW(X, 9) ROW(X, a) ROW(X, b) ROW(X, c) ROW(X, d) ROW(X, e) ROW(X, f)

ALL(ONE_FUNCTION)

#define FUNCTION_NAME(number) function_##number,
static long (*const functions[FUNCTION_COUNT])(long) = {ALL(FUNCTION_NAME)};

#endif
