//! The process's start time and written bytes: whether a file can be its own work. Both survive
//! execve(2). Nothing here allocates.

use super::{clock, file::File, process};

/// `USER_HZ`, the unit of times in /proc: 100 on all supported machines (`proc(5)`).
const TICKS_PER_SECOND: i64 = 100;

/// Returns nanoseconds since 1970, up to a tick (10 ms) early; late only if the clock was set.
pub(crate) fn start_time_nanos() -> Option<i64> {
    let ticks = i64::try_from(process::start_ticks().ok()?).ok()?;
    // In this order: time between the two calls makes the result earlier.
    let now = clock::epoch_nanos();
    let age = clock::boottime_nanos().checked_sub(ticks.checked_mul(1_000_000_000 / TICKS_PER_SECOND)?)?;
    now.checked_sub(age)
}

/// Returns the bytes of `write(2)` and similar calls; None if the kernel does not count.
pub(crate) fn bytes_written() -> Option<u64> {
    let mut text = [0; 512];
    let text = contents(c"/proc/self/io", &mut text)?;
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"wchar: "))?;
    core::str::from_utf8(line).ok()?.parse().ok()
}

/// Reads a file of /proc, which one read returns whole.
fn contents<'b>(path: &core::ffi::CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let length = File::read(path).ok()?.read_some(buffer).ok()?;
    buffer.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_a_start_time_between_boot_and_now() {
        let began = start_time_nanos().unwrap();
        let now = clock::epoch_nanos();
        assert!(began <= now && now - began <= clock::boottime_nanos(), "{began} {now}");
    }

    #[test]
    fn counts_written_bytes() {
        let before = bytes_written().unwrap();
        std::fs::write("/dev/null", [0; 1000]).unwrap();
        assert!(bytes_written().unwrap() >= before + 1000);
    }
}
