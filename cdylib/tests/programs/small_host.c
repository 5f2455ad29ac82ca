/* A host that needs nothing but ISO C: it computes for some periods, says hello, and ends with status 3. */
#include <stdio.h>
#include <time.h>

int main(void) {
    const clock_t end = clock() + CLOCKS_PER_SEC / 20;
    volatile unsigned long work = 0;
    while (clock() < end) work = work * 3 + 1;
    puts("hello");
    return 3;
}
