/*
 * An entry of a version and kind that there is not, between the good ones of other files: GNU ld then says that it
 * makes no table, and leaves a header that leads to none.
 */
extern int unreadable_entry;

__asm__(".section .eh_frame, \"a\", @progbits\n"
        "    .long 12\n"
        "    .long 0\n"
        "    .byte 9\n"
        "    .asciz \"qq\"\n"
        "    .zero 4\n"
        ".section .note.GNU-stack, \"\", @progbits\n");
