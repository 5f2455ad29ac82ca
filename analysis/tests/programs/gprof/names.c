/* Symbols of all kinds: aliases, weak ones, labels, copies of functions, nested functions. */
#include <stdio.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void spin(int steps) {
    for (int step = 0; step < steps; step++) sink += step;
}
__attribute__((noinline)) void _underscored(int steps) { spin(steps); }
__attribute__((noinline)) void __twice(int steps) { spin(steps + 1); }
void plain(int steps) __attribute__((alias("_underscored")));
void twice_weak(int steps) __attribute__((weak, alias("__twice")));
__attribute__((weak, noinline)) void only_weak(int steps) { spin(steps); }
/* The compiler makes a copy for the constant argument. */
__attribute__((noinline)) static int copied(int first, int steps) {
    spin(first * steps);
    return first == 7 ? steps : first;
}
__attribute__((noinline)) static int unlikely(int steps) {
    if (__builtin_expect(steps > 1000000, 0)) {
        __builtin_printf("many\n");
        spin(steps);
        __builtin_abort();
    }
    spin(steps);
    return steps;
}
__attribute__((noinline)) int outer(int steps) {
    /* A nested function. */
    __attribute__((noinline)) int nested(int more) { spin(steps + more); return more; }
    return nested(3) + nested(4);
}
__asm__(".text\n.type asm_function, @function\nasm_function: nop\nasm_label: nop\nasm_label.part: nop\n"
        "asm$dollar: nop\nret\n.size asm_function, .-asm_function\n.globl asm_global\n.type asm_global, @function\nasm_global: ret\n"
        ".type asm_object, @object\nasm_object: ret\n");
extern void asm_global(void);
int main(void) {
    for (int turn = 0; turn < 3000; turn++) {
        _underscored(turn);
        plain(turn);
        __twice(turn);
        twice_weak(turn);
        only_weak(turn);
        sink += copied(7, turn % 50) + copied(7, turn % 20);
        sink += unlikely(turn) + outer(turn % 100);
        asm_global();
    }
    printf("%lu\n", sink);
    return 0;
}
