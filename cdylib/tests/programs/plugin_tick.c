/* A plugin that sends its process a tick from its own code. ROOM makes one that takes other addresses. */
#include <signal.h>

#ifndef ROOM
#define ROOM 1
#endif

char plugin_room[ROOM];

__attribute__((noinline)) int plugin_tick(void) {
    const int result = raise(SIGPROF);
    plugin_room[ROOM - 1] = (char)result;
    return result;
}
