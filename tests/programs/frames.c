/*
 * Code that tests load at run time: functions whose frames are laid out in unusual ways, each of which calls
 * `callback` once, and one that uses time.
 */
#include <alloca.h>
#include <stddef.h>

#ifndef BLOCK
#define BLOCK 65536
#endif

typedef void callback_t(void);

/* The stack is realigned, so the caller's frame is found through a saved copy of its stack pointer. */
int realigned(callback_t *callback, size_t size)
{
    _Alignas(128) volatile char block[128];
    block[size % sizeof block] = 1;
    callback();
    return block[size % sizeof block];
}

/* The frame's size is known at run time only. */
int variable(callback_t *callback, size_t size)
{
    volatile char *block = alloca(size);
    block[0] = 2;
    callback();
    return block[0];
}

/* Both at once. */
int realigned_variable(callback_t *callback, size_t size)
{
    _Alignas(128) volatile char fixed[128];
    volatile char *block = alloca(size);
    fixed[size % sizeof fixed] = 1;
    block[0] = 2;
    callback();
    return fixed[size % sizeof fixed] + block[0];
}

/* The frame is larger than a page. */
int large(callback_t *callback, size_t size)
{
    volatile char block[BLOCK];
    block[size % sizeof block] = 3;
    callback();
    return block[size % sizeof block];
}

/* Every register that a callee saves is in use, so all are on the stack. */
int all_saved(callback_t *callback, size_t size)
{
    volatile size_t source = size;
    size_t a = source, b = source + 1, c = source + 2, d = source + 3, e = source + 4, f = source + 5;
    callback();
    return (int)(a * b + c * d + e * f + source != 0);
}
