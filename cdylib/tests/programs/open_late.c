/* Opens the library that OPEN_LATE names when it is itself loaded with a program, so that the program calls nothing of it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void open_late(void) {
    const char *const path = getenv("OPEN_LATE");
    if (path != NULL && dlopen(path, RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
}
