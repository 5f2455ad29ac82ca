// A library that comes and goes: with a constructor, a variable of each thread, and a frame that exceptions pass.
#define NOINLINE __attribute__((noinline))

namespace {

unsigned long prepared;
thread_local unsigned long calls;

__attribute__((constructor)) void prepare() { prepared = 0x5eed; }
__attribute__((destructor)) void undo() { prepared = 0; }

struct Passed {
    unsigned long &counter;
    ~Passed() { ++counter; }
};

NOINLINE unsigned long step(unsigned long value) {
    return (value ^ (value >> 31)) * 0x9e3779b97f4a7c15ul;
}

}  // namespace

extern "C" unsigned long plugin_value(unsigned long seed) {
    unsigned long value = seed + prepared;
    for (int i = 0; i < 100; i++) value = step(value);
    ++calls;
    return value;
}

extern "C" void plugin_through(void (*function)(void *), void *argument) {
    Passed passed{calls};
    function(argument);
}

extern "C" unsigned long plugin_calls() { return calls; }
