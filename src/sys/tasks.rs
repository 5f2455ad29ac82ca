//! This process's threads in /proc, without allocation. Signal-safe: system calls for files.

use super::{
    entries,
    file::{self, File},
};
use crate::{
    sync::{AtomicI32, AtomicU64, Ordering},
    thread::{NAME_BYTES, ThreadName},
};
use core::{ffi::CStr, mem};

/// Counts other threads that block `signal`; 0 without /proc. The caller blocks all signals.
pub(crate) fn count_blocking(signal: i32) -> u32 {
    let mut blocking = 0;
    for_each(|id| {
        blocking += u32::from(blocked_by(id).is_some_and(|mask| mask >> (signal - 1) & 1 == 1));
    });
    blocking.saturating_sub(1)
}

pub(crate) fn for_each(visit: impl FnMut(u32)) {
    if let Ok(tasks) = open() {
        for_each_in(tasks.number(), visit);
    }
}

fn open() -> Result<File, i32> {
    File::open_at(libc::AT_FDCWD, c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY)
}

fn for_each_in(descriptor: i32, mut visit: impl FnMut(u32)) {
    entries::for_each(descriptor, |name| {
        let id = name.to_bytes().iter().try_fold(0u32, |id, byte| {
            byte.is_ascii_digit().then(|| id.saturating_mul(10).saturating_add(u32::from(byte - b'0')))
        });
        if let Some(id) = id.filter(|id| *id != 0) {
            visit(id);
        }
        true
    });
}

/// /proc/self/task, kept open under a high number: a handler that opened it briefly could take a
/// low number that another thread expects. One reader at a time, because they share the offset.
pub(crate) struct TaskDirectory {
    /// -1 if closed.
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl TaskDirectory {
    pub(crate) const fn closed() -> Self {
        Self { descriptor: AtomicI32::new(-1), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    /// Opens the directory; ignores errors: then there are no threads to visit.
    pub(crate) fn open(&self) {
        if self.checked_descriptor().is_some() {
            return;
        }
        let Ok(low) = open() else { return };
        let Some((device, inode)) = file::identity(low.number()) else { return };
        let descriptor = file::duplicate_high(low.number()).unwrap_or_else(|| {
            let descriptor = low.number();
            mem::forget(low);
            descriptor
        });
        self.device.store(device, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
        self.descriptor.store(descriptor, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        let opened = self.checked_descriptor();
        self.descriptor.store(-1, Ordering::Relaxed);
        if let Some(descriptor) = opened {
            let _ = file::close(descriptor);
        }
    }

    pub(crate) fn for_each(&self, visit: impl FnMut(u32)) {
        if let Some(descriptor) = self.checked_descriptor() {
            for_each_in(descriptor, visit);
        }
    }

    /// Returns None if the application has closed the descriptor, or reused its number.
    fn checked_descriptor(&self) -> Option<i32> {
        let descriptor = self.descriptor.load(Ordering::Acquire);
        let identity = (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed));
        (descriptor >= 0 && file::identity(descriptor) == Some(identity)).then_some(descriptor)
    }
}

/// Returns a thread's name; None without the thread or /proc.
pub(crate) fn name_of(thread: u32) -> Option<ThreadName> {
    // With the newline that /proc adds.
    let mut name = [0; NAME_BYTES + 1];
    let got = open_task_file(thread, b"/comm\0")?.read_some(&mut name).ok()?;
    let [name @ .., _] = &mut name;
    let length = got.saturating_sub(1);
    name.get_mut(length..)?.fill(0);
    Some(ThreadName::new(*name))
}

fn blocked_by(thread: u32) -> Option<u64> {
    let status = open_task_file(thread, b"/status\0")?;
    let mut mask = MaskParser::default();
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

/// Opens /proc/self/task/`thread` + `name`, which must end with a NUL.
fn open_task_file(thread: u32, name: &[u8]) -> Option<File> {
    let mut path = Path::new();
    path.push(b"/proc/self/task/");
    path.push_decimal(thread);
    path.push(name);
    File::read(CStr::from_bytes_until_nul(&path.bytes).ok()?).ok()
}

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

/// A parser of `SigBlk:` of `proc_pid_status(5)`: `Groups:`, before it, may exceed any buffer.
#[derive(Default)]
struct MaskParser {
    /// Bytes of NAME matched in this line; None if the line is another.
    matched: Option<usize>,
    has_begun: bool,
    value: u64,
}

impl MaskParser {
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
    fn counts_threads_that_block_a_signal() {
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
            // Threads of other tests may block it too.
            assert!(count_blocking(libc::SIGPROF) >= 2);
            end.wait();
        });
        let mut threads = Vec::new();
        for_each(|id| threads.push(id));
        assert!(threads.contains(&thread::id()) && threads.contains(&std::process::id()));
    }

    #[test]
    fn keeps_the_directory_open_and_closes_no_other_file() {
        let tasks = TaskDirectory::closed();
        let count = || {
            let mut threads = 0;
            tasks.for_each(|_| threads += 1);
            threads
        };
        assert_eq!(count(), 0);
        tasks.open();
        let descriptor = tasks.checked_descriptor().unwrap();
        assert!(descriptor >= 20 && count() >= 1);
        let (begin, end) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                let own = thread::id();
                let mut is_there = false;
                tasks.for_each(|id| is_there |= id == own);
                end.wait();
                assert!(is_there, "a thread that began later is not in the list");
            });
            begin.wait();
            end.wait();
        });
        let other = std::fs::File::open("/dev/null").unwrap();
        file::close(descriptor).unwrap();
        // The next free number; another test may have taken the first.
        let number = nix::fcntl::fcntl(&other, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(descriptor)).unwrap();
        assert_eq!(count(), 0);
        tasks.close();
        assert!(file::identity(number).is_some(), "the descriptor of the other file was closed");
        file::close(number).unwrap();
    }

    #[test]
    fn returns_the_names_of_threads() {
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
            // Before the assertions: a failure would wait for the threads.
            end.wait();
            for (found, name) in found {
                let found = found.map(|found| found.as_bytes().to_vec());
                assert_eq!(found.as_deref(), Some(name.as_bytes()));
            }
        });
        assert_eq!(name_of(1 << 30), None, "no thread has such an id");
    }

    #[test]
    fn finds_the_mask_after_long_lines() {
        let find = |text: &str| {
            let mut mask = MaskParser::default();
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
