/* What the workloads of the single-stepping test and the program that steps them (`main.c`) share.
 *
 * A workload is a shared library that defines `regions`, up to one without a name. Only what `run` does is stepped.
 */
#ifndef STEP_H_
#define STEP_H_

/* What a region may ask of the stepper while it runs. */
struct stepper {
    /* Goes on after something that ends stepping: a clone, or the entry of a signal handler. */
    void (*again)(void);
    /* Makes `pc` known as the last one of whole chains, besides the program's entry point. */
    void (*outermost)(const void *pc);
};

struct region {
    const char *name;
    /* Called once before, not stepped; may be null. */
    void (*prepare)(void);
    void (*run)(const struct stepper *stepper);
};

/* Marks a region's parameter where it is not used. */
#define UNUSED __attribute__((unused))

/* Uses a value, so that what made it is not optimised away. */
#define USE(value)                       \
    do {                                 \
        __typeof__(value) used = value;  \
        __asm__ volatile("" ::"m"(used)); \
    } while (0)

#endif
