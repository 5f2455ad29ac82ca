/* What a signal must not change: errno, the registers, the words below the stack pointer, and how numbers are rounded. */
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <stdint.h>

#include "torture.h"

#define NOINLINE __attribute__((noinline))

/* Enough for a tick or two at high rates. */
enum { SPINS = 300000 };

static void expect_errno(unsigned long number) {
    const int value = 1 + (int)(number % 100);
    errno = value;
    for (volatile int i = 0; i < SPINS; i++) continue;
    const int found = errno;
    CHECK(found == value);
}

NOINLINE static double third(double divisor) { return 1.0 / divisor; }

static void expect_rounding(unsigned long number) {
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    const int mode = modes[number % 4];
    CHECK(fesetround(mode) == 0 && feclearexcept(FE_ALL_EXCEPT) == 0);
    volatile double divisor = 3.0;
    const double first = third(divisor);
    CHECK(feclearexcept(FE_ALL_EXCEPT) == 0 && feraiseexcept(FE_DIVBYZERO) == 0);
    for (volatile int i = 0; i < SPINS; i++) continue;
    CHECK(fetestexcept(FE_ALL_EXCEPT) == FE_DIVBYZERO && fegetround() == mode);
    const double last = third(divisor);
    CHECK(first == last && (last > 1.0 / 3.0 - 1e-10 && last < 1.0 / 3.0 + 1e-10));
    /* Up and down differ in the last bit. */
    CHECK(fesetround(FE_UPWARD) == 0);
    const double up = third(divisor);
    CHECK(fesetround(FE_DOWNWARD) == 0 && third(divisor) < up);
    CHECK(fesetenv(FE_DFL_ENV) == 0);
}

#if defined(__x86_64__)

struct state {
    unsigned char vectors[32][64];
    uint64_t masks[8];
    uint64_t general[11];
    uint64_t below[8];
    uint32_t mxcsr;
    uint16_t control;
};

/* Loads all, spins, and stores all; `vectors` is the width of the vector registers: 0 for xmm, 1 for ymm, 2 for zmm. */
void torture_registers(const struct state *from, struct state *to, uint64_t spins, uint64_t vectors);

#define EACH16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define UPPER16(X) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define EACH7(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define LOAD_XMM(n) "movdqu " #n "*64(%rdi),%xmm" #n "\n"
#define LOAD_YMM(n) "vmovdqu " #n "*64(%rdi),%ymm" #n "\n"
#define LOAD_ZMM(n) "vmovdqu64 " #n "*64(%rdi),%zmm" #n "\n"
#define LOAD_MASK(n) "kmovw 2048+" #n "*8(%rdi),%k" #n "\n"
#define STORE_XMM(n) "movdqu %xmm" #n "," #n "*64(%rsi)\n"
#define STORE_YMM(n) "vmovdqu %ymm" #n "," #n "*64(%rsi)\n"
#define STORE_ZMM(n) "vmovdqu64 %zmm" #n "," #n "*64(%rsi)\n"
#define STORE_MASK(n) "kmovw %k" #n ",2048+" #n "*8(%rsi)\n"

/* general: rax rbx r8 to r15, and rbp; below: the eight words under the stack pointer, which leaf functions may use. */
__asm__(".text\n.globl torture_registers\n.type torture_registers,@function\ntorture_registers:\n.cfi_startproc\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbx,0\n"
        "push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp,0\n"
        "push %r12\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r12,0\n"
        "push %r13\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r13,0\n"
        "push %r14\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r14,0\n"
        "push %r15\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset r15,0\n"
        "push %rcx\n.cfi_adjust_cfa_offset 8\n"
        "cmp $1,%rcx\njb 1f\nje 2f\n"
        EACH16(LOAD_ZMM) UPPER16(LOAD_ZMM) EACH7(LOAD_MASK) "jmp 3f\n"
        "1:" EACH16(LOAD_XMM) "jmp 3f\n"
        "2:" EACH16(LOAD_YMM)
        "3:\n"
        "mov 2112+88(%rdi),%rax\nmov %rax,-8(%rsp)\nmov 2112+96(%rdi),%rax\nmov %rax,-16(%rsp)\n"
        "mov 2112+104(%rdi),%rax\nmov %rax,-64(%rsp)\nmov 2112+112(%rdi),%rax\nmov %rax,-128(%rsp)\n"
        "ldmxcsr 2264(%rdi)\nfldcw 2268(%rdi)\nfldpi\nfld1\n"
        "mov 2112(%rdi),%rax\nmov 2112+8(%rdi),%rbx\nmov 2112+16(%rdi),%r8\nmov 2112+24(%rdi),%r9\n"
        "mov 2112+32(%rdi),%r10\nmov 2112+40(%rdi),%r11\nmov 2112+48(%rdi),%r12\nmov 2112+56(%rdi),%r13\n"
        "mov 2112+64(%rdi),%r14\nmov 2112+72(%rdi),%r15\nmov 2112+80(%rdi),%rbp\n"
        "4: dec %rdx\njnz 4b\n"
        "mov %rax,2112(%rsi)\nmov %rbx,2112+8(%rsi)\nmov %r8,2112+16(%rsi)\nmov %r9,2112+24(%rsi)\n"
        "mov %r10,2112+32(%rsi)\nmov %r11,2112+40(%rsi)\nmov %r12,2112+48(%rsi)\nmov %r13,2112+56(%rsi)\n"
        "mov %r14,2112+64(%rsi)\nmov %r15,2112+72(%rsi)\nmov %rbp,2112+80(%rsi)\n"
        "stmxcsr 2264(%rsi)\nfnstcw 2268(%rsi)\n"
        /* One and pi are where they were put. */
        "fld1\nfcomip %st(1),%st\nfstp %st(0)\njne 5f\njp 5f\nfldpi\nfcomip %st(1),%st\nfstp %st(0)\njne 5f\njp 5f\njmp 6f\n"
        "5: notq 2112(%rsi)\n"
        "6: mov -8(%rsp),%rax\nmov %rax,2112+88(%rsi)\nmov -16(%rsp),%rax\nmov %rax,2112+96(%rsi)\n"
        "mov -64(%rsp),%rax\nmov %rax,2112+104(%rsi)\nmov -128(%rsp),%rax\nmov %rax,2112+112(%rsi)\n"
        "cmpq $1,(%rsp)\njb 7f\nje 8f\n"
        EACH16(STORE_ZMM) UPPER16(STORE_ZMM) EACH7(STORE_MASK) "vzeroupper\njmp 9f\n"
        "7:" EACH16(STORE_XMM) "jmp 9f\n"
        "8:" EACH16(STORE_YMM) "vzeroupper\n"
        "9: fninit\n"
        "pop %rcx\n.cfi_adjust_cfa_offset -8\npop %r15\n.cfi_adjust_cfa_offset -8\npop %r14\n.cfi_adjust_cfa_offset -8\n"
        "pop %r13\n.cfi_adjust_cfa_offset -8\npop %r12\n.cfi_adjust_cfa_offset -8\npop %rbp\n.cfi_adjust_cfa_offset -8\n"
        "pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size torture_registers,.-torture_registers\n");

_Static_assert(offsetof(struct state, masks) == 2048 && offsetof(struct state, general) == 2112, "as in the assembly");
_Static_assert(offsetof(struct state, below) == 2200 && offsetof(struct state, mxcsr) == 2264, "as in the assembly");
_Static_assert(offsetof(struct state, control) == 2268, "as in the assembly");

static void expect_registers(unsigned long number) {
    static struct state from, to;
    const uint64_t width = __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx2") ? 1 : 0;
    unsigned char *const bytes = (unsigned char *)&from;
    for (size_t i = 0; i < sizeof from; i++) bytes[i] = (unsigned char)mix(number * sizeof from + i);
    /* All exceptions masked, one of the four rounding modes, some flags already set; extended or double precision. */
    from.mxcsr = 0x1f80 | (uint32_t)(number % 4) << 13 | (uint32_t)(number / 4 % 64);
    from.control = (uint16_t)(0x037f & ~(number % 2 ? 0x100 : 0)) | (uint16_t)((number / 2 % 4) << 10);
    for (int i = 0; i < 8; i++) from.masks[i] &= 0xffff;
    to = from;
    torture_registers(&from, &to, SPINS, width);
    uint32_t mxcsr = 0x1f80;
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
    CHECK(memcmp(from.general, to.general, sizeof from.general) == 0);
    CHECK(memcmp(from.below, to.below, sizeof from.below) == 0);
    CHECK(from.mxcsr == to.mxcsr && from.control == to.control);
    CHECK(memcmp(from.vectors, to.vectors, sizeof from.vectors) == 0 && memcmp(from.masks, to.masks, sizeof from.masks) == 0);
}
#else
static void expect_registers(unsigned long number) { (void)number; }
#endif

void round_of_registers(unsigned long number) {
    step("errno");
    expect_errno(number);
    step("rounding");
    expect_rounding(number);
    step("registers");
    expect_registers(number);
}
