/* A reader of profiles, to see that each is whole: header, records, trailer, and a list that ends in a line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "torture.h"

static long sum_of(const size_t *words, size_t count, const char *end) {
    if (count < 8 || words[0] != 0 || words[1] != 3 || words[2] != 0 || words[3] == 0 || words[4] != 0) return -1;
    long sum = 0;
    size_t at = 5;
    while (at + 2 < count) {
        const size_t samples = words[at], depth = words[at + 1];
        if (samples == 0) return depth == 1 && words[at + 2] == 0 && end[-1] == '\n' ? sum : -1;
        if (depth == 0 || depth >= count - at) return -1;
        sum += (long)samples;
        at += 2 + depth;
    }
    return -1;
}

long samples_of(const char *path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    struct stat status;
    long sum = -1;
    char *const bytes = fstat(file, &status) == 0 ? malloc((size_t)status.st_size + 1) : NULL;
    if (bytes != NULL && read(file, bytes, (size_t)status.st_size) == status.st_size)
        sum = sum_of((const size_t *)(void *)bytes, (size_t)status.st_size / sizeof(size_t), bytes + status.st_size);
    free(bytes);
    close(file);
    return sum;
}
