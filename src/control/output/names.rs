//! The choice of a file name that keeps the process's own files.
//!
//! A process can run several programs by `exec` with the same file name in the environment. Its own
//! files are kept; those of earlier runs are replaced, as in gperftools. Own files were modified
//! since the process started. They are not larger than all that it wrote, which separates the quick
//! runs of a loop.

use crate::sys::{
    entry::{FileKind, Status},
    process_age,
};

/// The treatment of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Replaces it: the user named this file.
    Exact,
    /// Keeps a file of this process, and uses the first free of NAME.2, NAME.3 and so on.
    Numbered,
}

pub(super) const MAX_NUMBER: u64 = 10_000;

/// How much older than the process its file may look: 2 s on FAT; a server's clock may differ.
const COARSE: i64 = 2_000_000_000;

/// Whether this process may have written the file. Without /proc always true.
pub(crate) fn is_own_work(file: &Status) -> bool {
    // mktemp(1) makes an empty file for a profile.
    let holds_something = file.kind == FileKind::Regular && file.bytes > 0;
    holds_something
        && process_age::start_time_nanos().is_none_or(|began| file.modified >= began - COARSE)
        && process_age::bytes_written().is_none_or(|written| written >= file.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::entry::Entry;
    use std::{fs, io::Write, os::unix::ffi::OsStrExt, time::Duration};

    fn status(path: &std::path::Path) -> Status {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        Entry::at(&path).status().unwrap()
    }

    #[test]
    fn recognises_files_that_this_process_may_have_written() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&[1; 5000]).unwrap();
        assert!(is_own_work(&status(&path)));
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(1_000_000_000)).unwrap();
        assert!(!is_own_work(&status(&path)), "it is thirty years old");
        file.set_len(1 << 50).or_else(|_| file.set_len(1 << 40)).unwrap();
        file.set_modified(std::time::SystemTime::now()).unwrap();
        assert!(!is_own_work(&status(&path)), "nobody writes a petabyte in a test");
        file.set_len(0).unwrap();
        assert!(!is_own_work(&status(&path)), "it is empty");
        assert!(!is_own_work(&status(scratch.path())), "a directory");
    }
}
