//! Sampled threads: names, IDs and times.

use core::{fmt, time::Duration};

/// Bytes of a name, with its NUL.
pub(crate) const NAME_BYTES: usize = 16;

/// A thread's name, as `PR_GET_NAME` of prctl(2) returns it: at most 15 bytes, in any encoding.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadName([u8; NAME_BYTES]);

impl ThreadName {
    pub(crate) const fn new(bytes: [u8; NAME_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns two words; zeros are an empty name.
    pub(crate) fn words(self) -> [u64; 2] {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.0;
        [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes(rest)]
    }

    pub(crate) fn from_words([first, second]: [u64; 2]) -> Self {
        let mut bytes = [0; NAME_BYTES];
        let words = first.to_ne_bytes().into_iter().chain(second.to_ne_bytes());
        for (place, byte) in bytes.iter_mut().zip(words) {
            *place = byte;
        }
        Self(bytes)
    }

    /// Returns the bytes of the name; empty if it is unknown.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// Prints one line of text; unprintable characters are replaced.
impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                fmt::Write::write_char(f, if character.is_control() { ' ' } else { character })?;
            }
            if !chunk.invalid().is_empty() {
                fmt::Write::write_char(f, char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A thread that was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Thread {
    /// The thread ID, as gettid(2) returns it. If the kernel reuses the ID of an exited thread, the
    /// samples of both are added, with the newer name.
    pub id: u32,
    /// The name. It is read at the first tick, each time the number of ticks has doubled, and, for
    /// the busiest threads, at the end.
    pub name: ThreadName,
}

/// Samples and CPU time of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadUse {
    /// The thread.
    pub thread: Thread,
    /// Sum of the weights: a number of periods.
    pub samples: u64,
    /// CPU time since the thread's start; None if it has exited.
    pub cpu: Option<Duration>,
}

/// The threads with samples.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SampledThreads {
    pub(crate) count: u64,
    pub(crate) others: u64,
    /// Entries with samples come first.
    pub(crate) busiest: [ThreadUse; Self::SHOWN],
}

impl SampledThreads {
    /// The maximum length of [`busiest`](Self::busiest).
    pub const SHOWN: usize = 16;

    /// Returns the number of known threads with samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the periods without a thread: of threads without an entry, because a session has
    /// 4096 of them, and after [`before_sandbox`](crate::before_sandbox).
    pub fn others(&self) -> u64 {
        self.others
    }

    /// Returns the threads with the most samples, the busiest first; see [`SHOWN`](Self::SHOWN).
    pub fn busiest(&self) -> &[ThreadUse] {
        let used = self.busiest.iter().position(|thread| thread.samples == 0).unwrap_or(Self::SHOWN);
        self.busiest.get(..used).unwrap_or_default()
    }
}

impl fmt::Debug for SampledThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampledThreads")
            .field("count", &self.count)
            .field("others", &self.others)
            .field("busiest", &self.busiest())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &[u8]) -> ThreadName {
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name);
        ThreadName::new(bytes)
    }

    #[test]
    fn converts_a_name_to_words_and_back() {
        for name in [&b""[..], b"a", b"12345678", b"123456789", b"123456789012345"] {
            let name = named(name);
            assert_eq!(ThreadName::from_words(name.words()), name);
        }
        assert_eq!(named(b"").words(), [0, 0]);
    }

    #[test]
    fn ends_a_name_at_its_first_nul() {
        assert_eq!(named(b"one\0two").as_bytes(), b"one");
        assert_eq!(ThreadName::new([b'x'; NAME_BYTES]).as_bytes(), [b'x'; NAME_BYTES]);
    }

    #[test]
    fn shows_any_name_as_one_line() {
        assert_eq!(named(b"tab\there\n\x1b[1m").to_string(), "tab here  [1m");
        assert_eq!(named("ä\u{9b}é".as_bytes()).to_string(), "ä é");
        assert_eq!(named(b"cut \xe2\x82").to_string(), "cut \u{fffd}");
        assert_eq!(format!("{:?}", named(b"worker")), "\"worker\"");
    }

    #[test]
    fn returns_only_threads_with_samples() {
        let mut threads = SampledThreads::default();
        assert!(threads.busiest().is_empty());
        threads.busiest[0].samples = 2;
        threads.busiest[1].samples = 1;
        assert_eq!(threads.busiest().len(), 2);
        threads.busiest = [ThreadUse { samples: 1, ..ThreadUse::default() }; SampledThreads::SHOWN];
        assert_eq!(threads.busiest().len(), SampledThreads::SHOWN);
    }
}
