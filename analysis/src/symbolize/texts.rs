//! The names and paths that an object's files give, each kept once, and no more of them than the files account for.
//!
//! A table of texts is named by offsets, so a file can give a suffix of one long text to each of its functions: as many bytes
//! as the square of the table's length.

use crate::text::printable;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

/// What the names of a small file may take in any case, and those of a larger one for each of its bytes. Functions that samples are
/// in have some megabytes of names in the largest programs, which are hundreds of megabytes.
const ALWAYS: usize = 8 << 20;
const FACTOR: usize = 2;
/// Where that is used up a name keeps its beginning.
const BEGINNING: usize = 128;

/// The texts of one object.
pub(super) struct Texts {
    kept: Mutex<Kept>,
}

struct Kept {
    known: HashSet<Arc<str>>,
    left: usize,
}

impl Texts {
    /// None yet, of files with so many bytes.
    pub(super) fn of_files(bytes: usize) -> Self {
        let left = bytes.saturating_mul(FACTOR).saturating_add(ALWAYS);
        Self { kept: Mutex::new(Kept { known: HashSet::new(), left }) }
    }

    /// The text that these bytes are, as a terminal may show it.
    pub(super) fn get(&self, bytes: &[u8]) -> Arc<str> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() > kept.left {
            // Not looked for among those that are known, either: that takes as long as it is.
            return printable(&bytes[..bytes.len().min(BEGINNING)]).into();
        }
        let text = printable(bytes);
        if let Some(known) = kept.known.get(text.as_str()) {
            return known.clone();
        }
        // Bytes that are no UTF-8 become three.
        kept.left = kept.left.saturating_sub(text.len());
        let text: Arc<str> = text.into();
        kept.known.insert(text.clone());
        text
    }
}

impl Texts {
    /// A text that was made of some of these; None where the files do not account for it.
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
    fn a_text_is_kept_once() {
        let texts = Texts::of_files(0);
        assert!(Arc::ptr_eq(&texts.get(b"main"), &texts.get(b"main")));
        assert_eq!(&*texts.get(b"\x1b[2J"), "\u{fffd}[2J");
    }

    #[test]
    fn what_is_made_of_texts_is_accounted_for_as_well() {
        let texts = Texts::of_files(0);
        let whole = "a".repeat(ALWAYS - 1);
        let kept = texts.account(&whole).expect("there is room");
        assert!(Arc::ptr_eq(&kept, &texts.account(&whole).expect("it is kept")));
        assert_eq!(texts.account("bb"), None);
        assert_eq!(texts.account("b").as_deref(), Some("b"));
    }

    /// Each suffix of a text as a name.
    #[test]
    fn names_take_no_more_than_the_files_account_for() {
        let bytes = ["é".repeat(30_000), "x".into()].concat().into_bytes();
        let texts = Texts::of_files(bytes.len());
        let names: Vec<Arc<str>> = (0..10_000).map(|start| texts.get(&bytes[2 * start..])).collect();
        let sum: usize = names.iter().map(|name| name.len()).sum();
        assert!(sum <= ALWAYS + FACTOR * bytes.len() + 10_000 * 3 * BEGINNING, "{sum} bytes");
        // Those that came first are whole, and the last have their beginning.
        assert_eq!((names[0].len(), names[9_999].len()), (60_001, BEGINNING));
    }
}
