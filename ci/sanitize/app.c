/* Threads that allocate, sort and free all the time, and check what they have sorted. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 300, NUMBERS = 2000 };

static int compare(const void *a, const void *b) {
    int one = *(const int *)a, other = *(const int *)b;
    return (one > other) - (one < other);
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int *numbers = malloc(NUMBERS * sizeof *numbers);
        for (int i = 0; i < NUMBERS; i++)
            numbers[i] = rand_r(&seed);
        qsort(numbers, NUMBERS, sizeof *numbers, compare);
        for (int i = 1; i < NUMBERS; i++)
            if (numbers[i - 1] > numbers[i])
                abort();
        free(numbers);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
            abort();
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("sorted");
    return 0;
}
