/* Sends a signal to the calling thread without a call into libc: nothing but the handler and the kernel runs between
 * the instruction before and the one after. */
#ifndef RAW_TICK_H
#define RAW_TICK_H

#include <signal.h>
#include <sys/syscall.h>

static inline __attribute__((always_inline)) void raw_signal(long process, long thread, long signal) {
#if defined(__x86_64__)
    long result = SYS_tgkill;
    __asm__ volatile("syscall" : "+a"(result) : "D"(process), "S"(thread), "d"(signal) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_tgkill;
    register long first __asm__("x0") = process;
    register long second __asm__("x1") = thread;
    register long third __asm__("x2") = signal;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
#elif defined(__i386__)
    long result = SYS_tgkill;
    __asm__ volatile("int $0x80" : "+a"(result) : "b"(process), "c"(thread), "d"(signal) : "memory");
#else
#error "no system call for this machine"
#endif
}

/* The same with SIGPROF. */
static inline __attribute__((always_inline)) void raw_tick(long process, long thread) {
    raw_signal(process, thread, SIGPROF);
}

#endif
