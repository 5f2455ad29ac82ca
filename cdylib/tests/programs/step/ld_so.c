/* The dynamic loader: opening, looking up, closing; binding at the first call; thread-local storage.
 *
 * `SIGPROF_STEP_PLUGIN` names the library to open (`plugin.c`), linked for lazy binding.
 */
#define _GNU_SOURCE
#include "step.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

static void *open_plugin(int mode) {
    const char *path = getenv("SIGPROF_STEP_PLUGIN");
    void *plugin = path == NULL ? NULL : dlopen(path, mode);
    if (plugin == NULL) {
        fprintf(stderr, "ld_so: the plugin: %s\n", dlerror());
        exit(99);
    }
    return plugin;
}

static void use_plugin(int mode) {
    void *plugin = open_plugin(mode);
    int (*work)(int, double);
    *(void **)&work = dlsym(plugin, "plugin_work");
    USE(work(3, 2.5));
    USE(work(4, 3.5));
    dlclose(plugin);
}

static void run_lazy(const struct stepper *stepper UNUSED) {
    use_plugin(RTLD_LAZY);
}

static void run_now(const struct stepper *stepper UNUSED) {
    use_plugin(RTLD_NOW | RTLD_GLOBAL);
}

static void run_namespace(const struct stepper *stepper UNUSED) {
    static const char *const libraries[] = {"libutil.so.1", "libresolv.so.2", "libanl.so.1"};
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY);
        if (library != NULL) dlclose(library);
    }
}

static void run_failures(const struct stepper *stepper UNUSED) {
    USE(dlopen("/no/such/library.so", RTLD_NOW));
    USE(dlerror());
    USE(dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere"));
    USE(dlerror());
    USE(dlopen("/etc/passwd", RTLD_NOW));
    USE(dlerror());
}

static void run_questions(const struct stepper *stepper UNUSED) {
    static int here;
    Dl_info info;
    struct link_map *map;
    USE(dladdr(&here, &info));
    USE(dlsym(RTLD_DEFAULT, "qsort"));
    USE(dlsym(RTLD_NEXT, "malloc"));
    USE(dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14"));
    void *self = dlopen(NULL, RTLD_LAZY);
    USE(dlinfo(self, RTLD_DI_LINKMAP, &map));
    dlclose(self);
    struct dl_find_object found;
    USE(_dl_find_object(&here, &found));
}

const struct region regions[] = {
    {"lazy", 0, run_lazy},         {"now", 0, run_now}, {"others", 0, run_namespace}, {"failures", 0, run_failures},
    {"questions", 0, run_questions}, {0, 0, 0},
};
