//! How far chance may move what a test of the full check measures.
//!
//! One rule for each bound that chance needs: a correct profiler exceeds it once in a million runs. If a clock has a quantum
//! (the kernel's tick, a period), the test adds that.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

/// Natural logarithm of two million: each end of a range that is left once in a million runs has half of that probability.
const LN_TWO_MILLION: f64 = 14.508_657_738_524_219;

/// How far a sum of independent terms, each between 0 and 1, may be from its expectation, by Bernstein's inequality. `variance`
/// is the sum's: n p (1 - p) for n draws of probability p, n for a Poisson variable of expectation n, and at most n / 4
/// for n terms of which nothing is known.
pub(crate) fn margin(variance: f64) -> f64 {
    let third = LN_TWO_MILLION / 3.0;
    third + (third * third + 2.0 * LN_TWO_MILLION * variance).sqrt()
}

/// How long the first event may be waited for, if events come independently of each other, once in `mean`.
pub(crate) fn longest_wait(mean: f64) -> f64 {
    LN_TWO_MILLION * mean
}

/// CPU time, in seconds, that one of `threads` may use before the first tick that finds it. The kernel looks for ticks at its
/// own ticks, on all processors at about the same time; the tick goes to one of the threads that are running.
pub(crate) fn longest_unfound(period: f64, kernel_tick: f64, threads: usize) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    longest_wait(period.max(kernel_tick) * processors.min(threads) as f64)
}
