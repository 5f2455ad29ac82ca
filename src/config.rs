//! Settings of a session: defaults and limits here, and their environment variables.

mod clock;
mod environment;
mod filter;
mod places;
mod values;
mod variables;

pub use clock::Clock;
pub(crate) use clock::can_tick;
pub use environment::{Environment, MARK, REFUSED, is_marked};
pub(crate) use filter::Filter;
pub use places::{SpoolChoice, StatisticsChoice};
pub use variables::{VARIABLES, Variable};

/// The maximum depth of a call stack, in frames.
pub const MAX_DEPTH: usize = 4096;
/// The default maximum depth of a call stack, in frames.
pub const DEFAULT_DEPTH: usize = 254;
/// The default frequency, in ticks per second, as in gperftools.
pub const DEFAULT_FREQUENCY: u32 = 100;
/// The maximum frequency, in ticks per second.
pub const MAX_FREQUENCY: u32 = 10_000;
/// The default limit of the profiler's memory, in bytes.
pub const DEFAULT_MAX_MEMORY: usize = if cfg!(target_pointer_width = "64") { 64 << 20 } else { 16 << 20 };
/// The lowest limit of the profiler's memory, in bytes.
pub const SMALLEST_MAX_MEMORY: usize = 8 << 20;
/// The highest limit of the profiler's memory, in bytes.
pub const LARGEST_MAX_MEMORY: usize = 1 << 30;
/// Memory beside the sample table: unwind rules, handler stacks, the spool's head, buffers.
const BESIDE_THE_TABLE: usize = 4 << 20;

pub(crate) fn table_bytes(max_memory: usize) -> usize {
    max_memory.clamp(SMALLEST_MAX_MEMORY, LARGEST_MAX_MEMORY) - BESIDE_THE_TABLE
}

/// Returns the period in whole microseconds; clamps the frequency to 1 to [`MAX_FREQUENCY`].
pub(crate) fn period_micros(frequency: u32) -> u32 {
    1_000_000 / frequency.clamp(1, MAX_FREQUENCY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_a_period_above_zero() {
        assert_eq!([100, 10_000, 0, 20_000, 3].map(period_micros), [10_000, 100, 1_000_000, 100, 333_333]);
    }
}
