//! SessionSelector file of that name a session may replace.
//!
//! A process can run several programs, one after another by exec, and each may be told the same name by its
//! environment. What the process itself wrote under it must stay; what an earlier run left is replaced, as gperftools
//! does. A file is taken for the process's own work if it was modified since the process began, and is no larger than
//! all that the process has ever written. The second rule tells runs apart that follow each other at once, as in a
//! shell's loop: a new process has written nothing.

use crate::sys::{
    entry::{FileKind, Status},
    process_age,
};

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// It is replaced: somebody has named this very file.
    Exact,
    /// One that this process wrote is kept; the session takes the next free of NAME.2, NAME.3, and so on.
    Numbered,
}

/// Names that are tried behind a kept one.
pub(super) const MAX_NUMBER: u64 = 10_000;

/// How much older than the process a file of its own may look. Time stamps are as coarse as 2 s on some file systems
/// (FAT), and those of a server need not agree with our clock.
const COARSE: i64 = 2_000_000_000;

/// Whether this process may have written the file itself. Without /proc every file may be its own.
pub(crate) fn is_own_work(file: &Status) -> bool {
    // A file that was made for the profile beforehand, as by mktemp(1), is empty.
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
    fn a_file_just_written_is_own_work_and_an_old_or_larger_one_is_not() {
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
