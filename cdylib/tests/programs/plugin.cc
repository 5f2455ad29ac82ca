// The plugin of throwing.cc: its code is gone from memory while most of the program runs.
#include <cstdint>

extern "C" __attribute__((noinline)) std::uint64_t plugin_loop(std::uint64_t seed) {
    for (int i = 0; i < 60000; ++i) seed = (seed ^ (seed >> 31)) * 0x9e3779b97f4a7c15u;
    return seed;
}

extern "C" std::uint64_t plugin_work(std::uint64_t seed) { return plugin_loop(seed + 1) ^ 21; }
