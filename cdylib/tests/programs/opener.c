/* A library that loads another by its bare name: the loader looks where this library's own RUNPATH says. */
#include <dlfcn.h>
#include <stdio.h>

int open_by_name(const char *name) {
    void *const library = dlopen(name, RTLD_NOW);
    if (library == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    return dlclose(library);
}
