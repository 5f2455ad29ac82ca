//! Whether perf events are permitted, for the recorder.

use crate::{
    config::Clock,
    sample::thread_timers,
    sys::{perf::TaskClock, process, thread, timer::IntervalTimer},
};

/// A perf event as threads have with clock `auto`. It samples nothing.
///
/// While it is there, others are opened faster: the kernel takes about 10 ms for the first one of the whole system, and forgets
/// that a second after the last one.
#[derive(Debug)]
pub struct IdleEvent {
    event: TaskClock,
    thread: u32,
}

/// Why clock `auto` has no perf events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventObstacle {
    /// The process has a seccomp filter, which may kill it for the attempt.
    SeccompFilter,
    /// perf_event_open(2) failed with this error number.
    Refused(i32),
}

impl IdleEvent {
    /// Opens it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open() -> Result<Self, EventObstacle> {
        let thread = thread::id();
        if process::has_seccomp_filter() {
            return Err(EventObstacle::SeccompFilter);
        }
        thread_timers::open_event(Clock::Auto, thread)
            .map(|event| Self { event, thread })
            .map_err(EventObstacle::Refused)
    }
}

impl Drop for IdleEvent {
    fn drop(&mut self) {
        self.event.disable_and_close(self.thread, IntervalTimer::Cpu.signal());
    }
}
