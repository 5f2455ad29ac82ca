/* The layout of the interface's structs, as the header on the include path declares them. */
#include <gperftools/profiler.h>
#include <stddef.h>
#include <stdio.h>

#define FIELD(type, field) printf("%s.%s %zu %zu\n", #type, #field, offsetof(struct type, field), sizeof(((struct type *)0)->field))

int main(void) {
    printf("ProfilerState %zu %zu\n", sizeof(struct ProfilerState), _Alignof(struct ProfilerState));
    FIELD(ProfilerState, enabled);
    FIELD(ProfilerState, start_time);
    FIELD(ProfilerState, profile_name);
    FIELD(ProfilerState, samples_gathered);
    printf("ProfilerOptions %zu %zu\n", sizeof(struct ProfilerOptions), _Alignof(struct ProfilerOptions));
    FIELD(ProfilerOptions, filter_in_thread);
    FIELD(ProfilerOptions, filter_in_thread_arg);
    return 0;
}
