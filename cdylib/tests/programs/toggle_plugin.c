/* Calls the program that opens it, while it is opened. */
extern void called_by_plugin(void);
__attribute__((constructor)) static void constructor(void) { called_by_plugin(); }
