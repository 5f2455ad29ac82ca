/* Libraries that are opened and closed all the time, exceptions that pass them, and a look at the list of all. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#include "torture.h"

typedef unsigned long value_function(unsigned long);
typedef unsigned long calls_function(void);
typedef void through_function(void (*)(void *), void *);

unsigned long expected_of_plugin(unsigned long seed) {
    unsigned long value = seed + 0x5eed;
    for (int i = 0; i < 100; i++) value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15ul;
    return value;
}

static void *function(void *library, const char *name) {
    void *const found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

static void *open_plugin(unsigned long number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libplugin%lu.so", orders.libraries, number % PLUGINS);
    void *const library = dlopen(path, number & 64 ? RTLD_LAZY | RTLD_GLOBAL : RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && !orders.is_tight) dprintf(2, "%s\n", dlerror());
    CHECK(library != NULL || orders.is_tight);
    return library;
}

void use_plugin(unsigned long number) {
    step("dlopen");
    void *const library = open_plugin(number);
    if (library == NULL) return;
    step("dlsym");
    value_function *const value = (value_function *)(size_t)function(library, "plugin_value");
    calls_function *const calls = (calls_function *)(size_t)function(library, "plugin_calls");
    step("call a plugin");
    const unsigned long before = calls();
    CHECK(value(number) == expected_of_plugin(number));
    CHECK(calls() == before + 1);
    Dl_info info;
    CHECK(dladdr((void *)(size_t)value, &info) != 0 && strcmp(info.dli_sname, "plugin_value") == 0);
    step("throw through a plugin");
    CHECK(throw_through((through_function *)(size_t)function(library, "plugin_through"), number));
    CHECK(calls() == before + 2);
    step("dlclose");
    CHECK(dlclose(library) == 0);
}

static int look_at(struct dl_phdr_info *object, size_t size, void *count) {
    CHECK(size >= sizeof *object && object->dlpi_phdr != NULL && object->dlpi_phnum > 0);
    ++*(int *)count;
    return 0;
}

void round_of_loading(unsigned long number) {
    begin_loading();
    use_plugin(mix(number));
    if (number % 4 == 0) {
        int objects = 0;
        step("dl_iterate_phdr");
        CHECK(dl_iterate_phdr(look_at, &objects) == 0 && objects >= 5);
        step("dlsym of a name that is not there");
        CHECK(dlsym(RTLD_DEFAULT, "no function has this name") == NULL);
    }
    end_loading();
}

void round_of_exceptions(unsigned long number) {
    step("throw through many frames");
    CHECK(throw_through_frames(mix(number), 1 + (int)(number % 60)));
    if (number % 64 == 0) CHECK(throw_through_frames(mix(number), 1000));
}
