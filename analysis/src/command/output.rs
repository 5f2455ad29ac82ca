//! Where a picture or a converted profile goes: a file that appears when it is complete, or standard output.

use sigprof_analysis::{Error, error::ErrorKind};
use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Writes what there is to the file `path`; `-` is standard output, and so is no path at all unless that is a terminal,
/// which could not show it.
///
/// # Errors
/// Where it cannot be written; the file is then as it was before.
pub(crate) fn write(path: Option<&Path>, bytes: &[u8]) -> Result<(), Error> {
    match path {
        Some(path) if path != Path::new("-") => write_file(path, bytes),
        None if io::stdout().is_terminal() => {
            Err(Error::new(ErrorKind::Request, "this is not for a terminal")
                .advise("name a file with `-o FILE`"))
        }
        _ => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)
                .and_then(|()| out.flush())
                .map_err(|error| Error::io(Path::new("standard output"), "write", error))
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fails = |error| Error::io(path, "write", error);
    // Behind a symbolic link the file itself is replaced, and the link stays.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let before = fs::metadata(&target).ok();
    if let Some(status) = before.as_ref().filter(|status| !status.is_file()) {
        if status.is_dir() {
            return Err(fails(io::ErrorKind::IsADirectory.into()));
        }
        // A pipe or a device takes the bytes as they come; nothing can be put in its place.
        return fs::OpenOptions::new()
            .write(true)
            .open(&target)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(fails);
    }
    let directory = match target.parent() {
        Some(parent) if parent != Path::new("") => PathBuf::from(parent),
        _ => PathBuf::from("."),
    };
    // The umask takes its part of the mode away.
    let mode = before.as_ref().map_or(0o666, |status| status.permissions().mode() & 0o777);
    let mut file = tempfile::Builder::new()
        .prefix(".sigprof-")
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(directory)
        .map_err(fails)?;
    file.write_all(bytes).map_err(fails)?;
    file.persist(&target).map_err(|error| fails(error.error))?;
    Ok(())
}
