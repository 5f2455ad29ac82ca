/*
 * A function in assembler that calls another: its caller is found by call frame information only, which is in the
 * section that SECTION names. FRAME is the size of its frame, a multiple of 16. The frame is filled with an address of
 * code, and the frame pointer's register holds a number.
 */
#ifndef FRAME
#define FRAME 64
#endif
#ifndef SECTION
#define SECTION ".debug_frame"
#endif
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

extern int relay(int (*callback)(int), int argument);

__asm__(".cfi_sections " SECTION "\n"
        ".text\n"
        ".globl relay\n"
        ".type relay, @function\n"
        "relay:\n"
        ".Lrelay:\n"
        ".cfi_startproc\n"
        "    pushq %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "    pushq %rbx\n"
        ".cfi_def_cfa_offset 24\n"
        ".cfi_offset %rbx, -24\n"
        "    movq %rdi, %rbx\n"
        "    subq $" TEXT(FRAME) " + 8, %rsp\n"
        ".cfi_def_cfa_offset " TEXT(FRAME) " + 32\n"
        "    leaq .Lrelay(%rip), %rax\n"
        "    movq %rsp, %rdi\n"
        "    movl $" TEXT(FRAME) " / 8 + 1, %ecx\n"
        "    rep stosq\n"
        "    movl $1, %ebp\n"
        "    movl %esi, %edi\n"
        "    call *%rbx\n"
        "    addq $" TEXT(FRAME) " + 8, %rsp\n"
        ".cfi_def_cfa_offset 24\n"
        "    popq %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        "    popq %rbp\n"
        ".cfi_def_cfa_offset 8\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size relay, . - relay\n"
        ".section .note.GNU-stack, \"\", @progbits\n");
