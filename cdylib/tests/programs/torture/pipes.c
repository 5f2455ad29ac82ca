/* Pipes and files: each byte arrives once and in order, and no call that is to be restarted comes back with EINTR. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "torture.h"

enum { BYTES = 300000, CHUNK = 5000 };

struct flow {
    int descriptor;
    unsigned long seed;
};

static unsigned char byte_at(unsigned long seed, size_t i) { return (unsigned char)(seed * 31 + i + (i >> 9)); }

/* A write that a handler interrupts may write less than all, but never nothing. */
static void *write_all(void *argument) {
    const struct flow *const flow = argument;
    unsigned char chunk[CHUNK];
    for (size_t done = 0; done < BYTES;) {
        const size_t wanted = BYTES - done < CHUNK ? BYTES - done : CHUNK;
        for (size_t i = 0; i < wanted; i++) chunk[i] = byte_at(flow->seed, done + i);
        const ssize_t written = write(flow->descriptor, chunk, wanted);
        CHECK(written > 0 && (size_t)written <= wanted);
        done += (size_t)written;
    }
    CHECK(close(flow->descriptor) == 0);
    return NULL;
}

static void read_all(int descriptor, unsigned long seed) {
    unsigned char chunk[CHUNK];
    size_t done = 0;
    for (;;) {
        const ssize_t count = read(descriptor, chunk, 1 + mix(seed + done) % CHUNK);
        CHECK(count >= 0);
        if (count == 0) break;
        for (size_t i = 0; i < (size_t)count; i++) CHECK(chunk[i] == byte_at(seed, done + i));
        done += (size_t)count;
    }
    CHECK(done == BYTES && close(descriptor) == 0);
}

static void *add_one(void *argument) {
    const unsigned long one = 1;
    CHECK(write(*(int *)argument, &one, sizeof one) == sizeof one);
    return NULL;
}

static int start(pthread_t *thread, void *(*function)(void *), void *argument) {
    begin_loading();
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 128 << 10) == 0);
    const int error = pthread_create(thread, &attributes, function, argument);
    end_loading();
    CHECK(error == 0 || (error == EAGAIN && orders.is_tight));
    CHECK(pthread_attr_destroy(&attributes) == 0);
    return error == 0;
}

void round_of_pipes(unsigned long number) {
    int ends[2];
    pthread_t writer;
    step(number % 2 ? "read from a pipe" : "read from a socket");
    CHECK(number % 2 ? pipe2(ends, 0) == 0 : socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct flow flow = {.descriptor = ends[1], .seed = number};
    if (start(&writer, write_all, &flow)) {
        read_all(ends[0], number);
        CHECK(pthread_join(writer, NULL) == 0);
    } else {
        CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    }
    step("read from an eventfd");
    int event = eventfd(0, EFD_CLOEXEC);
    unsigned long value = 0;
    CHECK(event >= 0);
    if (start(&writer, add_one, &event)) {
        CHECK(read(event, &value, sizeof value) == sizeof value && value == 1);
        CHECK(pthread_join(writer, NULL) == 0);
    }
    CHECK(close(event) == 0);
}
