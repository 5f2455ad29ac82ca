/* A library to preload behind the profiler's, so that it is initialised before: tells fault_injector that the profiler's
 * calls begin now, and where its code is. Without fault_injector it does nothing. */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <sys/prctl.h>

#include "fault_shim.h"

static volatile struct fault_state state = {.magic = FAULT_BEGIN, .own = 0};

/* For the program: its calls from here on are its own, or they are no longer. */
void fault_own(int is_own) { state.own += is_own ? 1 : -1; }

struct range {
    unsigned long start, end;
};

static int note_profiler(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct range *const code = data;
    if (strstr(object->dlpi_name, "libprofiler") == NULL) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *const segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
        code->start = object->dlpi_addr + segment->p_vaddr;
        code->end = code->start + segment->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    struct range code = {0, 0};
    dl_iterate_phdr(note_profiler, &code);
    prctl((int)FAULT_BEGIN, (unsigned long)&state, code.start, code.end, 0UL);
}
