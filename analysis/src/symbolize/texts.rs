//! Names and paths of an object's files, stored once, with a size limit.
//!
//! String tables are referred to by offset. So a file can use a different suffix of one long string
//! for each function, with a total of the square of the table's length.

use crate::text::printable;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

/// Limit of names: a minimum, plus a multiple of the files' size. Sampled functions of the largest
/// programs, which have hundreds of megabytes, have some megabytes of names.
const ALWAYS: usize = 8 << 20;
const FACTOR: usize = 2;
/// Length of names beyond the limit.
const BEGINNING: usize = 128;

pub(super) struct Texts {
    kept: Mutex<Kept>,
}

struct Kept {
    known: HashSet<Arc<str>>,
    left: usize,
}

impl Texts {
    /// Creates an empty set for files of this total size.
    pub(super) fn of_files(bytes: usize) -> Self {
        let left = bytes.saturating_mul(FACTOR).saturating_add(ALWAYS);
        Self { kept: Mutex::new(Kept { known: HashSet::new(), left }) }
    }

    /// Returns the shared copy of a string, safe for a terminal.
    pub(super) fn get(&self, bytes: &[u8]) -> Arc<str> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() > kept.left {
            // Without a search: hashing takes time proportional to its length.
            return printable(&bytes[..bytes.len().min(BEGINNING)]).into();
        }
        let text = printable(bytes);
        if let Some(known) = kept.known.get(text.as_str()) {
            return known.clone();
        }
        // An invalid UTF-8 byte becomes three bytes.
        kept.left = kept.left.saturating_sub(text.len());
        let text: Arc<str> = text.into();
        kept.known.insert(text.clone());
        text
    }
}

impl Texts {
    /// Returns the shared copy of a composed string; None beyond the limit.
    pub(super) fn account(&self, text: &str) -> Option<Arc<str>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.known.get(text) {
            return Some(known.clone());
        }
        kept.left = kept.left.checked_sub(text.len())?;
        let text: Arc<str> = text.into();
        kept.known.insert(text.clone());
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_a_text_once() {
        let texts = Texts::of_files(0);
        assert!(Arc::ptr_eq(&texts.get(b"main"), &texts.get(b"main")));
        assert_eq!(&*texts.get(b"\x1b[2J"), "\u{fffd}[2J");
    }

    #[test]
    fn counts_composed_texts_against_the_limit() {
        let texts = Texts::of_files(0);
        let whole = "a".repeat(ALWAYS - 1);
        let kept = texts.account(&whole).expect("there is room");
        assert!(Arc::ptr_eq(&kept, &texts.account(&whole).expect("it is kept")));
        assert_eq!(texts.account("bb"), None);
        assert_eq!(texts.account("b").as_deref(), Some("b"));
    }

    /// Each suffix of a string as a name.
    #[test]
    fn names_stay_within_the_limit() {
        let bytes = ["é".repeat(30_000), "x".into()].concat().into_bytes();
        let texts = Texts::of_files(bytes.len());
        let names: Vec<Arc<str>> = (0..10_000).map(|start| texts.get(&bytes[2 * start..])).collect();
        let sum: usize = names.iter().map(|name| name.len()).sum();
        assert!(sum <= ALWAYS + FACTOR * bytes.len() + 10_000 * 3 * BEGINNING, "{sum} bytes");
        // The first ones are complete, the last are cut.
        assert_eq!((names[0].len(), names[9_999].len()), (60_001, BEGINNING));
    }
}
