//! Reads of source files.

use std::{fs, path::Path};

/// Usual limit; larger files are generated, or not source.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// Returns the bytes of a regular file of at most `max_bytes`; reads of other files may block.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    let status = fs::metadata(path).ok()?;
    (status.is_file() && status.len() <= max_bytes).then(|| fs::read(path).ok())?
}
