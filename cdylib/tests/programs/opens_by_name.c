/* Lets a library load another. usage: opens_by_name OPENER NAME */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 3) return 98;
    void *const opener = dlopen(argv[1], RTLD_NOW);
    int (*function)(const char *) = NULL;
    if (opener != NULL) *(void **)&function = dlsym(opener, "open_by_name");
    if (function == NULL) return 99;
    return function(argv[2]);
}
