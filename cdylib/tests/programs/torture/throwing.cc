// Exceptions through many frames, each with something to destroy, and through functions of other libraries.
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#define NOINLINE __attribute__((noinline))

namespace {

struct Thrown : std::runtime_error {
    explicit Thrown(std::uint64_t value) : std::runtime_error("thrown " + std::to_string(value)), value(value) {}
    std::uint64_t value;
};

struct Counted {
    int &destroyed;
    ~Counted() { ++destroyed; }
};

NOINLINE std::uint64_t descend(std::uint64_t seed, int depth, int &destroyed) {
    Counted counted{destroyed};
    if (depth == 0) throw Thrown(seed);
    if (depth % 16 == 0) {
        // Caught and thrown again on its way.
        try {
            return descend(seed, depth - 1, destroyed) + 1;
        } catch (const Thrown &) {
            throw;
        }
    }
    return descend(seed, depth - 1, destroyed) + 1;
}

struct Throwing {
    std::uint64_t seed;
    int destroyed;
};

void throw_argument(void *argument) {
    Throwing &throwing = *static_cast<Throwing *>(argument);
    Counted counted{throwing.destroyed};
    throw Thrown(throwing.seed);
}

}  // namespace

extern "C" int throw_through_frames(unsigned long seed, int depth) {
    int destroyed = 0;
    std::exception_ptr kept;
    try {
        descend(seed, depth, destroyed);
        return 0;
    } catch (const std::runtime_error &error) {
        const Thrown *const thrown = dynamic_cast<const Thrown *>(&error);
        if (thrown == nullptr || thrown->value != seed || destroyed != depth + 1) return 0;
        if (error.what() != "thrown " + std::to_string(seed)) return 0;
        kept = std::current_exception();
    }
    try {
        std::rethrow_exception(kept);
    } catch (const Thrown &thrown) {
        return thrown.value == seed;
    } catch (...) {
        return 0;
    }
}

extern "C" int throw_through(void (*through)(void (*)(void *), void *), unsigned long seed) {
    Throwing throwing{seed, 0};
    try {
        through(throw_argument, &throwing);
        return 0;
    } catch (const Thrown &thrown) {
        return thrown.value == seed && throwing.destroyed == 1;
    }
}
