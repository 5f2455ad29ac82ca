/* What must hold in a test program: where it does not, one line on stderr says what and where, and the program ends with status 1
 * at once. It may be a forked child by then, whose copies of buffers nobody wants twice, or a thread beside others that hold the
 * locks of stdio: so the line is written by the system call, and the end is `_exit`. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <unistd.h>

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) check_failed(__FILE__, __LINE__, #condition);   \
    } while (0)

/* Not inlined: some callers have little stack, and need this for nothing else. */
_Noreturn static __attribute__((noinline, cold, unused)) void check_failed(const char *file, int line, const char *condition) {
    char text[1024];
    const int length = snprintf(text, sizeof text, "%s:%d: not so: %s\n", file, line, condition);
    const size_t kept = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    const ssize_t written = write(2, text, kept);
    (void)written; /* Nobody could be told. */
    _exit(1);
}

#endif
