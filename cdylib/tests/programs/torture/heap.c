/* Memory that threads take, resize, hand to each other and give back, with its contents checked. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "torture.h"

enum { BLOCKS = 128, OPERATIONS = 200, EDGE = 512 };

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned long seed;
};

static _Thread_local struct block *blocks;
/* Where a thread leaves a block for another, which frees it: seed and size stand in the block. */
static _Atomic(unsigned char *) exchange;

static unsigned char byte_at(unsigned long seed, size_t i) { return (unsigned char)(seed + i * 7 + (i >> 8)); }

/* Of a large block both ends are used only, so that most of the time goes into the allocator. */
static void fill(const struct block *block) {
    const size_t size = block->size, end = size < EDGE ? 0 : size - EDGE;
    for (size_t i = 0; i < size && i < EDGE; i++) block->bytes[i] = byte_at(block->seed, i);
    for (size_t i = end; i < size; i++) block->bytes[i] = byte_at(block->seed, i);
}

static void verify(const struct block *block) {
    const size_t size = block->size;
    for (size_t i = 0; i < size && i < EDGE; i++) CHECK(block->bytes[i] == byte_at(block->seed, i));
    for (size_t i = size < EDGE ? 0 : size - EDGE; i < size; i++) CHECK(block->bytes[i] == byte_at(block->seed, i));
}

static size_t size_for(unsigned long random) {
    switch (random % 16) {
    case 0: return 1 + (random >> 8) % (1 << 20);
    case 1: return 1 + (random >> 8) % (64 << 10);
    default: return 1 + (random >> 8) % 2000;
    }
}

static void hand_over(struct block *block) {
    if (block->size < 2 * sizeof(size_t)) return;
    memcpy(block->bytes, &block->size, sizeof block->size);
    memcpy(block->bytes + sizeof(size_t), &block->seed, sizeof block->seed);
    unsigned char *const other = atomic_exchange(&exchange, block->bytes);
    block->bytes = NULL;
    if (other == NULL) return;
    size_t size;
    memcpy(&size, other, sizeof size);
    CHECK(size >= 2 * sizeof(size_t) && size <= 1 << 20 && malloc_usable_size(other) >= size);
    free(other);
}

static void operate(unsigned long random) {
    struct block *const block = &blocks[random % BLOCKS];
    random >>= 8;
    if (block->bytes == NULL) {
        block->size = size_for(random);
        block->seed = random;
        block->bytes = random & 1 ? malloc(block->size) : calloc(1, block->size);
        CHECK(block->bytes != NULL || orders.is_tight);
        if (block->bytes != NULL) fill(block);
        return;
    }
    verify(block);
    if (random % 4 == 0) {
        const size_t size = size_for(random >> 4), kept = size < block->size ? size : block->size;
        unsigned char *const bytes = realloc(block->bytes, size);
        CHECK(bytes != NULL || orders.is_tight);
        if (bytes == NULL) return;
        block->bytes = bytes;
        block->size = size;
        for (size_t i = 0; i < kept && i < EDGE; i++) CHECK(bytes[i] == byte_at(block->seed, i));
        fill(block);
    } else if (random % 4 == 1) {
        hand_over(block);
    } else {
        free(block->bytes);
        block->bytes = NULL;
    }
}

void round_of_heap(unsigned long number) {
    if (blocks == NULL) blocks = calloc(BLOCKS, sizeof *blocks);
    if (blocks == NULL && orders.is_tight) return;
    CHECK(blocks != NULL);
    step("malloc, realloc and free");
    for (int i = 0; i < OPERATIONS; i++) operate(mix(number * OPERATIONS + (unsigned long)i));
    if (number % 256 == 0) {
        step("malloc_trim");
        malloc_trim(0);
    }
    if (number % 64 == 0) {
        step("posix_memalign");
        void *aligned = NULL;
        if (posix_memalign(&aligned, 4096, 10000) == 0) CHECK((uintptr_t)aligned % 4096 == 0);
        else CHECK(orders.is_tight);
        free(aligned);
    }
}
