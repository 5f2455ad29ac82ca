//! Bounds on chance in measurements of the full check. A correct profiler exceeds each once in a
//! million runs. If a clock has a quantum (the kernel's tick, a period), the test adds it.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

/// Natural logarithm of two million: one in a million runs, half on each side of a range.
const LN_TWO_MILLION: f64 = 14.508_657_738_524_219;

/// The bound on a sum of independent terms, each between 0 and 1, minus its expectation
/// (Bernstein's inequality). `variance` is the sum's: n p (1 - p) for n draws of probability p, n
/// for a Poisson variable of expectation n, and at most n / 4 for n unknown terms.
pub(crate) fn margin(variance: f64) -> f64 {
    let third = LN_TWO_MILLION / 3.0;
    third + (third * third + 2.0 * LN_TWO_MILLION * variance).sqrt()
}

/// The longest wait for the first of independent events that come once in `mean`.
pub(crate) fn longest_wait(mean: f64) -> f64 {
    LN_TWO_MILLION * mean
}

/// The longest CPU time, in seconds, of one of `threads` until its first tick. The kernel's ticks
/// check all processors at about the same time; one of the running threads gets the tick.
pub(crate) fn longest_unfound(period: f64, kernel_tick: f64, threads: usize) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    longest_wait(period.max(kernel_tick) * processors.min(threads) as f64)
}
