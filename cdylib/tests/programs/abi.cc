// The C interface, used from C++17. usage: abi FILE
#include <gperftools/profiler.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <type_traits>


static_assert(std::is_standard_layout<ProfilerState>::value, "a C struct");
static_assert(std::is_standard_layout<ProfilerOptions>::value, "a C struct");
static_assert(std::is_same<decltype(ProfilerState::enabled), int>::value, "as in C");
static_assert(std::is_same<decltype(ProfilerState::start_time), std::time_t>::value, "as in C");
static_assert(std::is_same<decltype(ProfilerState::profile_name), char[1024]>::value, "as in C");
static_assert(std::is_same<decltype(ProfilerState::samples_gathered), int>::value, "as in C");
static_assert(std::is_same<decltype(ProfilerOptions::filter_in_thread), int (*)(void *)>::value, "as in C");

static_assert(std::is_same<decltype(&ProfilerStart), int (*)(const char *)>::value, "");
static_assert(std::is_same<decltype(&ProfilerStartWithOptions), int (*)(const char *, const ProfilerOptions *)>::value, "");
static_assert(std::is_same<decltype(&ProfilerStop), void (*)()>::value, "");
static_assert(std::is_same<decltype(&ProfilerFlush), void (*)()>::value, "");
static_assert(std::is_same<decltype(&ProfilerEnable), void (*)()>::value, "");
static_assert(std::is_same<decltype(&ProfilerDisable), void (*)()>::value, "");
static_assert(std::is_same<decltype(&ProfilingIsEnabledForAllThreads), int (*)()>::value, "");
static_assert(std::is_same<decltype(&ProfilerRegisterThread), void (*)()>::value, "");
static_assert(std::is_same<decltype(&ProfilerGetCurrentState), void (*)(ProfilerState *)>::value, "");
static_assert(std::is_same<decltype(&ProfilerGetStackTrace), int (*)(void **, int, int, const void *)>::value, "");

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    // Before the session: a thread's own timer may expire at any moment, and ticks are counted here.
    ProfilerRegisterThread();
    int included = 1;
    ProfilerOptions options{};
    options.filter_in_thread = [](void *answer) { return *static_cast<int *>(answer); };
    options.filter_in_thread_arg = &included;
    if (!ProfilerStartWithOptions(argv[1], &options)) return 3;
    for (int i = 0; i < 3; ++i) std::raise(SIGPROF);
    ProfilerFlush();
    ProfilerEnable();
    ProfilerDisable();
    ProfilerState state{};
    ProfilerGetCurrentState(&state);
    void *stack[4] = {};
    const int depth = ProfilerGetStackTrace(stack, 4, 0, nullptr);
    std::printf("%d %d %d %d\n", state.enabled, state.samples_gathered, depth > 0, ProfilingIsEnabledForAllThreads());
    ProfilerStop();
    return 0;
}
