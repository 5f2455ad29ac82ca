//! Since when the process exists, and how much it has written: whether a file can be its own work.
//!
//! Both outlive exec, as the process does. Nothing here allocates.

use super::{clock, file::File, process};

/// Ticks per second in which /proc counts time: `USER_HZ`, 100 on every machine that we know (`proc(5)`).
const TICKS_PER_SECOND: i64 = 100;

/// When the process began, in nanoseconds since 1970; up to a tick (10 ms) too early, never too late unless the clock
/// was set since. None without /proc.
pub(crate) fn start_time_nanos() -> Option<i64> {
    let ticks = i64::try_from(process::start_ticks().ok()?).ok()?;
    // In this order: what passes in between makes it earlier.
    let now = clock::epoch_nanos();
    let age = clock::boottime_nanos().checked_sub(ticks.checked_mul(1_000_000_000 / TICKS_PER_SECOND)?)?;
    now.checked_sub(age)
}

/// Bytes that the process has handed to `write(2)` and its kin. None where the kernel does not count them.
pub(crate) fn bytes_written() -> Option<u64> {
    let mut text = [0; 512];
    let text = contents(c"/proc/self/io", &mut text)?;
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"wchar: "))?;
    core::str::from_utf8(line).ok()?.parse().ok()
}

/// The beginning of a file of /proc, which is given out whole by one read.
fn contents<'b>(path: &core::ffi::CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let length = File::read(path).ok()?.read_some(buffer).ok()?;
    buffer.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_began_before_now_and_after_the_machine() {
        let began = start_time_nanos().unwrap();
        let now = clock::epoch_nanos();
        assert!(began <= now && now - began <= clock::boottime_nanos(), "{began} {now}");
    }

    #[test]
    fn what_is_written_is_counted() {
        let before = bytes_written().unwrap();
        std::fs::write("/dev/null", [0; 1000]).unwrap();
        assert!(bytes_written().unwrap() >= before + 1000);
    }
}
