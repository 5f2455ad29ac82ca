/* See the header.
 *
 * libunwind finds objects by `dl_iterate_phdr`, which takes a lock of the loader's. Stepped in the middle of taking
 * that very lock, it would wait for ever, so in the handler it gets a walk through the loader's list without a lock.
 * libgcc asks `_dl_find_object`, which takes none.
 */
#define _GNU_SOURCE
#define UNW_LOCAL_ONLY
#include "unwinders.h"

#include <dlfcn.h>
#include <elf.h>
#include <gperftools/profiler.h>
#include <libunwind.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

const char *const unwinder_names[UNWINDERS] = {"ours", "libunwind", "libgcc"};

volatile int in_handler;

/* ---- the loaded objects, without a lock ---- */

/* True when `size` bytes could be copied: an object that is just being unloaded is still in the list. */
static int copy_memory(void *to, const void *from, size_t size) {
    const struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Fills in where the program headers are, if they are still mapped. */
static int find_headers(const struct link_map *map, struct dl_phdr_info *info) {
    memset(info, 0, sizeof *info);
    info->dlpi_addr = map->l_addr;
    info->dlpi_name = map->l_name;
    info->dlpi_adds = 1;
    if (map == _r_debug.r_map) {
        info->dlpi_phdr = (const void *)getauxval(AT_PHDR);
        info->dlpi_phnum = getauxval(AT_PHNUM);
        return 1;
    }
    ElfW(Ehdr) header;
    if (!copy_memory(&header, (const void *)map->l_addr, sizeof header)) return 0;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
    info->dlpi_phdr = (const void *)(map->l_addr + header.e_phoff);
    info->dlpi_phnum = header.e_phnum;
    return 1;
}

/* The objects that were loaded before the first trap; they stay. */
enum { MOST_STAYING = 32 };
static struct dl_phdr_info staying[MOST_STAYING];
static int staying_used;

static void note_staying(void) {
    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next) {
        if (staying_used < MOST_STAYING) staying_used += find_headers(map, &staying[staying_used]);
    }
}

static int iterate_without_lock(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data) {
    int met = 0;
    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next, met++) {
        /* Later ones come behind them in the list. */
        struct dl_phdr_info other, *info = &other;
        if (met < staying_used && staying[met].dlpi_addr == map->l_addr) {
            info = &staying[met];
        } else if (!find_headers(map, &other)) {
            continue;
        }
        const int result = callback(info, sizeof *info, data);
        if (result != 0) return result;
    }
    return 0;
}

/* Stands in front of libc's own, for all objects of the process. */
int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data) {
    static int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    if (in_handler) return iterate_without_lock(callback, data);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return real(callback, data);
}

/* ---- the unwinders ---- */

static void push(struct chain *chain, uintptr_t pc) {
    const int room = sizeof chain->pcs / sizeof chain->pcs[0];
    if (chain->depth < room) chain->pcs[chain->depth++] = pc;
}

static void unwind_by_us(ucontext_t *context, struct chain *chain) {
    const int room = sizeof chain->pcs / sizeof chain->pcs[0];
    chain->depth = ProfilerGetStackTrace((void **)chain->pcs, room, 0, context);
}

static void unwind_by_libunwind(ucontext_t *context, struct chain *chain) {
    unw_cursor_t cursor;
    chain->depth = 0;
    if (unw_init_local2(&cursor, context, UNW_INIT_SIGNAL_FRAME) != 0) return;
    do {
        unw_word_t pc = 0;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0) return;
        push(chain, pc);
    } while (unw_step(&cursor) > 0);
}

struct backtrace {
    struct chain *chain;
    uintptr_t interrupted;
    int seen_trampoline;
};

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *frame, void *argument) {
    struct backtrace *backtrace = argument;
    int is_exact = 0;
    const uintptr_t pc = _Unwind_GetIPInfo(frame, &is_exact);
    /* The first frame behind a signal trampoline; those before are the handler's own. */
    if (is_exact && pc == backtrace->interrupted) backtrace->seen_trampoline = 1;
    if (backtrace->seen_trampoline) push(backtrace->chain, pc);
    return _URC_NO_REASON;
}

/* Where a PC is in no object, libgcc looks for a signal trampoline's code there without asking whether there is any
   memory: a chain that goes wrong ends the program. The handler of its fault comes back here. */
static jmp_buf before_fault;

void on_fault(int number) {
    if (!in_handler) {
        signal(number, SIG_DFL);
        return;
    }
    longjmp(before_fault, 1);
}

static void unwind_by_libgcc(ucontext_t *context, struct chain *chain) {
    struct backtrace backtrace = {chain, (uintptr_t)context->uc_mcontext.gregs[REG_RIP], 0};
    chain->depth = 0;
    if (_setjmp(before_fault) == 0) {
        _Unwind_Backtrace(note_frame, &backtrace);
    } else {
        push(chain, FAULT);
    }
}

void unwind_all(ucontext_t *context, struct chain chains[UNWINDERS]) {
    unwind_by_us(context, &chains[OURS]);
    unwind_by_libunwind(context, &chains[LIBUNWIND]);
    unwind_by_libgcc(context, &chains[LIBGCC]);
    /* The one thing that is made equal: libgcc shows a return address of zero behind the outermost frame as a frame
       of its own, libunwind and we do not. */
    for (int i = 0; i < UNWINDERS; i++) {
        struct chain *chain = &chains[i];
        while (chain->depth > 0 && chain->pcs[chain->depth - 1] == 0) chain->depth--;
    }
}

void prepare_unwinders(void) {
    /* libunwind has an unwinder of C++ exceptions too, under the same names as libgcc's. */
    Dl_info info;
    void *backtrace = dlsym(RTLD_DEFAULT, "_Unwind_Backtrace");
    if (dladdr(backtrace, &info) == 0 || strstr(info.dli_fname, "libgcc_s") == NULL) {
        fprintf(stderr, "_Unwind_Backtrace is not libgcc's\n");
        exit(99);
    }
    note_staying();
    /* Objects come and go, and its caches would not notice. */
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE);
    static struct chain chains[UNWINDERS];
    static ucontext_t context;
    getcontext(&context);
    unwind_by_libunwind(&context, &chains[LIBUNWIND]);
    unwind_by_libgcc(&context, &chains[LIBGCC]);
}
