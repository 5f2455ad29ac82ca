//! Permission for perf events, for the recorder.

use crate::{
    config::Clock,
    sample::thread_timers,
    sys::{perf::TaskClock, process, thread, timer::IntervalTimer},
};

/// A perf event that samples nothing. While it exists, others are opened faster: the kernel needs
/// about 10 ms for the system's first one, and again 1 s after the last one was closed.
#[derive(Debug)]
pub struct IdleEvent {
    event: TaskClock,
    thread: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventObstacle {
    /// The process has a seccomp filter, which may kill it.
    SeccompFilter,
    /// The error number.
    Refused(i32),
}

impl IdleEvent {
    /// Opens the event of clock `auto`.
    ///
    /// # Errors
    /// Why it is not possible.
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
