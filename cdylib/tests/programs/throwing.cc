// Four threads that compute, throw exceptions through several frames, and load and unload a plugin meanwhile.
// usage: throwing PLUGIN ROUNDS
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace {

using PluginWork = std::uint64_t (*)(std::uint64_t);

struct Interrupted : std::runtime_error {
    explicit Interrupted(std::uint64_t reached) : std::runtime_error("interrupted"), reached(reached) {}
    std::uint64_t reached;
};

// An object that must be destroyed while the stack is unwound.
struct Guard {
    std::uint64_t &counter;
    ~Guard() { ++counter; }
};

}  // namespace

NOINLINE std::uint64_t hot_loop(std::uint64_t seed) {
    for (int i = 0; i < 20000; ++i) seed = seed * 6364136223846793005u + (seed >> 29) + 1442695040888963407u;
    return seed;
}

NOINLINE std::uint64_t inner_step(std::uint64_t seed) {
    const std::uint64_t reached = hot_loop(seed);
    if (reached % 2 == 0) throw Interrupted(reached);
    return reached + 1;
}

NOINLINE std::uint64_t middle_step(std::uint64_t seed, std::uint64_t &unwound) {
    Guard guard{unwound};
    return inner_step(seed ^ 0x5555) + 3;
}

NOINLINE std::uint64_t outer_step(std::uint64_t seed, std::uint64_t &unwound) {
    Guard guard{unwound};
    return middle_step(seed + 7, unwound) ^ 9;
}

NOINLINE std::uint64_t catching_step(std::uint64_t seed, std::uint64_t &unwound) {
    try {
        return outer_step(seed, unwound) + 11;
    } catch (const Interrupted &interrupted) {
        return interrupted.reached + 13;
    }
}

NOINLINE std::uint64_t call_plugin(const char *path, std::uint64_t seed) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    void *symbol = dlsym(plugin, "plugin_work");
    const std::uint64_t result = reinterpret_cast<PluginWork>(symbol)(seed);
    dlclose(plugin);
    return result + 17;
}

NOINLINE void worker(const char *path, int rounds, std::uint64_t seed, std::uint64_t *result) {
    std::uint64_t unwound = 0;
    for (int round = 0; round < rounds; ++round) {
        for (int step = 0; step < 8; ++step) seed = catching_step(seed, unwound);
        seed = call_plugin(path, seed);
    }
    *result = seed + unwound;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const int rounds = std::atoi(argv[2]);
    std::vector<std::uint64_t> results(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < results.size(); ++i)
        threads.emplace_back(worker, argv[1], rounds, 1000 + i, &results[i]);
    worker(argv[1], rounds, 1000, &results[0]);
    for (auto &thread : threads) thread.join();
    for (auto result : results) std::printf("%016llx\n", static_cast<unsigned long long>(result));
    return 7;
}
