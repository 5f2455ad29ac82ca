/* The mathematical library, in all three widths. */
#define _GNU_SOURCE
#include "step.h"

#include <math.h>
#include <stddef.h>

static const double values[] = {0.0, -0.5, 1e-300, 0.3, 1.0, 2.5, -7.25, 30.0, 700.0, 1e5, 1e22, INFINITY, NAN};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static double (*const unary[])(double) = {
    sin,  cos,   tan,   asin,  acos, atan, sinh, cosh,   tanh,   asinh, acosh, atanh, exp,  exp2, exp10,     expm1,
    log,  log2,  log10, log1p, sqrt, cbrt, erf,  erfc,   tgamma, lgamma, ceil, floor, trunc, rint, nearbyint, round,
    fabs, logb,  j0,    y1,    roundeven,
};
static float (*const unary_float[])(float) = {
    sinf, cosf,  tanf,   asinf,  acosf, atanf, sinhf, coshf,   tanhf,   expf,  exp2f,  exp10f, expm1f,
    logf, log2f, log10f, log1pf, sqrtf, cbrtf, erff,  erfcf, tgammaf, lgammaf, ceilf, floorf, rintf,  truncf,
};
static long double (*const unary_long[])(long double) = {
    sinl, cosl,  tanl,   asinl,  acosl, atanl, sinhl, coshl,   tanhl,   expl,  exp2l,  exp10l, expm1l,
    logl, log2l, log10l, log1pl, sqrtl, cbrtl, erfl,  erfcl, tgammal, lgammal, ceill, floorl, rintl,  truncl,
};
static double (*const binary[])(double, double) = {
    pow, atan2, hypot, fmod, remainder, fmax, fmin, fdim, copysign, nextafter,
};
static long double (*const binary_long[])(long double, long double) = {
    powl, atan2l, hypotl, fmodl, remainderl, nextafterl,
};

static void run_double(const struct stepper *stepper UNUSED) {
    for (size_t f = 0; f < COUNT(unary); f++) {
        for (size_t v = 0; v < COUNT(values); v++) USE(unary[f](values[v]));
    }
}

static void run_float(const struct stepper *stepper UNUSED) {
    for (size_t f = 0; f < COUNT(unary_float); f++) {
        for (size_t v = 0; v < COUNT(values); v++) USE(unary_float[f]((float)values[v]));
    }
}

static void run_long(const struct stepper *stepper UNUSED) {
    for (size_t f = 0; f < COUNT(unary_long); f++) {
        for (size_t v = 0; v < COUNT(values); v++) USE(unary_long[f]((long double)values[v]));
    }
}

static void run_binary(const struct stepper *stepper UNUSED) {
    for (size_t a = 0; a < COUNT(values); a++) {
        for (size_t b = 0; b < COUNT(values); b++) {
            for (size_t f = 0; f < COUNT(binary); f++) USE(binary[f](values[a], values[b]));
            for (size_t f = 0; f < COUNT(binary_long); f++) USE(binary_long[f](values[a], values[b]));
        }
    }
}

static void run_rest(const struct stepper *stepper UNUSED) {
    for (size_t v = 0; v < COUNT(values); v++) {
        const double value = values[v];
        double sine, cosine, integer;
        float sine_float, cosine_float;
        int exponent, quotient;
        sincos(value, &sine, &cosine);
        sincosf((float)value, &sine_float, &cosine_float);
        USE(sine + cosine);
        USE(sine_float + cosine_float);
        USE(frexp(value, &exponent));
        USE(modf(value, &integer));
        USE(remquo(value, 0.7, &quotient));
        USE(ldexp(value, 3));
        USE(lrint(value));
        USE(llround(value));
        USE(ilogb(value));
        USE(powf((float)value, 1.5f));
        USE(hypotf((float)value, 2.0f));
        USE(jn(3, value));
        for (size_t other = 0; other < COUNT(values); other++) {
            USE(fma(value, values[other], 1.0));
            USE(fmaf((float)value, (float)values[other], 1.0f));
            USE(fmal(value, values[other], 1.0L));
        }
    }
}

const struct region regions[] = {
    {"double", 0, run_double}, {"float", 0, run_float}, {"long-double", 0, run_long},
    {"binary", 0, run_binary}, {"rest", 0, run_rest},   {0, 0, 0},
};
