/* Memory that comes and goes, changes its protection and moves, with its contents checked. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "torture.h"

enum { PAGE = 4096, PAGES = 32 };

static unsigned char *map(size_t pages) {
    void *const memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED || orders.is_tight);
    return memory == MAP_FAILED ? NULL : memory;
}

static void expect_pages(const unsigned char *memory, size_t from, size_t to, unsigned long seed) {
    for (size_t page = from; page < to; page++) CHECK(memory[page * PAGE + seed % PAGE] == (unsigned char)(seed + page));
}

void round_of_mappings(unsigned long number) {
    const unsigned long seed = mix(number);
    const size_t pages = 3 + seed % PAGES;
    step("mmap");
    unsigned char *memory = map(pages);
    if (memory == NULL) return;
    for (size_t page = 0; page < pages; page++) memory[page * PAGE + seed % PAGE] = (unsigned char)(seed + page);
    step("mprotect");
    CHECK(mprotect(memory + PAGE, PAGE, PROT_NONE) == 0);
    CHECK(mprotect(memory, pages * PAGE, PROT_READ) == 0);
    expect_pages(memory, 0, pages, seed);
    CHECK(mprotect(memory, pages * PAGE, PROT_READ | PROT_WRITE) == 0);
    step("mremap");
    unsigned char *const moved = mremap(memory, pages * PAGE, (pages + 4) * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED || orders.is_tight);
    const size_t whole = moved != MAP_FAILED ? pages + 4 : pages;
    if (moved != MAP_FAILED) memory = moved;
    expect_pages(memory, 0, pages, seed);
    step("madvise");
    /* Locked pages are not given back. */
    if (!orders.is_locked) {
        CHECK(madvise(memory, PAGE, MADV_DONTNEED) == 0 && memory[seed % PAGE] == 0);
    }
    step("munmap");
    CHECK(munmap(memory + PAGE, PAGE) == 0);
    expect_pages(memory, 2, pages, seed);
    /* Without the hole, in which another thread may have mapped something by now. */
    CHECK(munmap(memory, PAGE) == 0 && munmap(memory + 2 * PAGE, (whole - 2) * PAGE) == 0);
}
