//! What /proc tells of this process's threads, without an allocation.

use super::{entries, file::File};
use crate::thread::{NAME_BYTES, ThreadName};
use core::ffi::CStr;

/// How many threads beside the calling one, which has all signals blocked, block `signal`; 0 without /proc. Signal-safe: system
/// calls, and none but those for files.
pub(crate) fn blocking(signal: i32) -> u32 {
    let mut blocking = 0;
    for_each(|id| {
        blocking += u32::from(blocked_by(id).is_some_and(|mask| mask >> (signal - 1) & 1 == 1));
    });
    blocking.saturating_sub(1)
}

/// Calls `visit` with the id of each thread. Signal-safe: system calls.
pub(crate) fn for_each(mut visit: impl FnMut(u32)) {
    let Ok(tasks) = File::open_at(libc::AT_FDCWD, c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY)
    else {
        return;
    };
    entries::for_each(tasks.number(), |name| {
        let id = name.to_bytes().iter().try_fold(0u32, |id, byte| {
            byte.is_ascii_digit().then(|| id.saturating_mul(10).saturating_add(u32::from(byte - b'0')))
        });
        if let Some(id) = id.filter(|id| *id != 0) {
            visit(id);
        }
        true
    });
}

/// What a thread of this process is called; None where there is none, or no /proc. Signal-safe: system calls.
pub(crate) fn name_of(thread: u32) -> Option<ThreadName> {
    // With the newline that /proc adds.
    let mut name = [0; NAME_BYTES + 1];
    let got = open(thread, b"/comm\0")?.read_some(&mut name).ok()?;
    let [name @ .., _] = &mut name;
    let length = got.saturating_sub(1);
    name.get_mut(length..)?.fill(0);
    Some(ThreadName::new(*name))
}

/// The signals that a thread blocks, as bits.
fn blocked_by(thread: u32) -> Option<u64> {
    let status = open(thread, b"/status\0")?;
    let mut mask = Mask::default();
    let mut buffer = [0; 512];
    loop {
        let got = status.read_some(&mut buffer).ok().filter(|got| *got > 0)?;
        for byte in buffer.get(..got)? {
            if let Some(found) = mask.take(*byte) {
                return Some(found);
            }
        }
    }
}

/// Opens a file that /proc has of a thread, whose name ends in a NUL.
fn open(thread: u32, name: &[u8]) -> Option<File> {
    let mut path = Path::new();
    path.push(b"/proc/self/task/");
    path.push_decimal(thread);
    path.push(name);
    File::read(CStr::from_bytes_until_nul(&path.bytes).ok()?).ok()
}

/// A path in /proc, which is short.
struct Path {
    bytes: [u8; 48],
    length: usize,
}

impl Path {
    fn new() -> Self {
        Self { bytes: [0; 48], length: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    fn push_decimal(&mut self, number: u32) {
        if number >= 10 {
            self.push_decimal(number / 10);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }
}

/// Finds the line `SigBlk:` of `proc_pid_status(5)` in text that comes byte by byte: a line before it, `Groups:`, can be
/// longer than any buffer.
#[derive(Default)]
struct Mask {
    /// Bytes of the present line that are the name's; None in a line that is another one.
    matched: Option<usize>,
    has_begun: bool,
    value: u64,
}

impl Mask {
    const NAME: &[u8] = b"SigBlk:\t";

    fn take(&mut self, byte: u8) -> Option<u64> {
        let matched = if self.has_begun { self.matched } else { Some(0) };
        self.has_begun = true;
        if byte == b'\n' {
            let is_done = matched == Some(Self::NAME.len());
            self.matched = Some(0);
            return is_done.then_some(self.value);
        }
        self.matched = match matched {
            Some(matched) if matched == Self::NAME.len() => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                self.value = self.value << 4 | digit;
                Some(matched)
            }
            Some(matched) if Self::NAME.get(matched) == Some(&byte) => Some(matched + 1),
            _ => None,
        };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{signal::AllBlocked, thread};
    use std::sync::Barrier;

    #[test]
    fn threads_that_block_a_signal_are_counted() {
        let (begin, end) = (Barrier::new(4), Barrier::new(4));
        std::thread::scope(|scope| {
            for i in 0..3 {
                let (begin, end) = (&begin, &end);
                scope.spawn(move || {
                    let _blocked = (i < 2).then(AllBlocked::new);
                    begin.wait();
                    end.wait();
                });
            }
            begin.wait();
            let _own = AllBlocked::new();
            // Other tests' threads may block it, too.
            assert!(blocking(libc::SIGPROF) >= 2);
            end.wait();
        });
        let mut threads = Vec::new();
        for_each(|id| threads.push(id));
        assert!(threads.contains(&thread::id()) && threads.contains(&std::process::id()));
    }

    #[test]
    fn threads_have_the_names_that_they_were_given() {
        let (begin, end) = (Barrier::new(3), Barrier::new(3));
        let ids = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for name in ["a", "fifteen letters"] {
                let (begin, end, ids) = (&begin, &end, &ids);
                let body = move || {
                    ids.lock().unwrap().push((thread::id(), name));
                    begin.wait();
                    end.wait();
                };
                std::thread::Builder::new().name(name.into()).spawn_scoped(scope, body).unwrap();
            }
            begin.wait();
            let found: Vec<_> = ids.lock().unwrap().iter().map(|&(id, name)| (name_of(id), name)).collect();
            // First, or a failure would wait for them.
            end.wait();
            for (found, name) in found {
                let found = found.map(|found| found.as_bytes().to_vec());
                assert_eq!(found.as_deref(), Some(name.as_bytes()));
            }
        });
        assert_eq!(name_of(1 << 30), None, "no thread has such an id");
    }

    #[test]
    fn the_mask_is_found_behind_lines_of_any_length() {
        let find = |text: &str| {
            let mut mask = Mask::default();
            text.bytes().find_map(|byte| mask.take(byte))
        };
        let groups = "1000 ".repeat(10_000);
        let text = format!(
            "Name:\tSigBlk:\t1\nGroups:\t{groups}\nSigBl:\t2\nSigBlk:\t0000000004000200\nSigIgn:\t1\n"
        );
        assert_eq!(find(&text), Some(0x400_0200));
        assert_eq!(find("SigBlk:\tffffffffffffffff\n"), Some(u64::MAX));
        assert_eq!((find("SigIgn:\t1\n"), find("SigBlk:\t1"), find("")), (None, None, None));
    }
}
