//! What a session is started with: defaults and bounds here, and how users say it in the environment.

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

/// The deepest call chain that can be asked for, in frames.
pub const MAX_DEPTH: usize = 4096;
/// The deepest call chain that is recorded unless asked otherwise, in frames.
pub const DEFAULT_DEPTH: usize = 254;
/// Ticks per second unless asked otherwise, as in gperftools.
pub const DEFAULT_FREQUENCY: u32 = 100;
/// The most ticks per second that can be asked for.
pub const MAX_FREQUENCY: u32 = 10_000;
/// Bytes of memory that the profiler takes at most unless asked otherwise.
pub const DEFAULT_MAX_MEMORY: usize = if cfg!(target_pointer_width = "64") { 64 << 20 } else { 16 << 20 };
/// The least bytes of memory that it can be held to.
pub const LEAST_MAX_MEMORY: usize = 8 << 20;
/// The most bytes of memory that it can be allowed.
pub const MOST_MAX_MEMORY: usize = 1 << 30;
/// Of these bytes, those that are not for the table of call chains: the rules of frames, the handlers' own stacks, the
/// head of the spool, buffers.
const BESIDE_THE_TABLE: usize = 4 << 20;

/// Bytes of the table of call chains.
pub(crate) fn table_bytes(max_memory: usize) -> usize {
    max_memory.clamp(LEAST_MAX_MEMORY, MOST_MAX_MEMORY) - BESIDE_THE_TABLE
}

/// The period of a frequency, in whole microseconds; the frequency is brought within 1 to [`MAX_FREQUENCY`].
pub(crate) fn period_micros(frequency: u32) -> u32 {
    1_000_000 / frequency.clamp(1, MAX_FREQUENCY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_never_zero() {
        assert_eq!([100, 10_000, 0, 20_000, 3].map(period_micros), [10_000, 100, 1_000_000, 100, 333_333]);
    }
}
