//! The profile's file: checked before the command runs, written after its exit.

use super::directory_of;
use crate::{Error, error::ErrorKind, formats::pprof, profile::Profile};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Destination of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    path: PathBuf,
    /// A device or a pipe, which is written directly.
    is_special: bool,
    /// Permissions of a new file, according to the umask.
    permissions: u32,
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Its length; 0 for a device.
    pub bytes: u64,
}

impl Output {
    /// Checks that a profile can be written to `path`. Leaves no file.
    ///
    /// # Errors
    /// If it cannot.
    pub fn prepare(path: &Path) -> Result<Self, Error> {
        let cannot = |reason: &str| {
            Err(Error::new(ErrorKind::Request, format!("the profile cannot be written: {reason}"))
                .at(path)
                .advise("name another file by --output"))
        };
        let absolute =
            std::path::absolute(path).map_err(|error| Error::io(path, "write the profile", error))?;
        if path == Path::new("-") {
            return cannot("standard output belongs to the recorded command");
        }
        if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return cannot("it is not the name of a file");
        }
        let kind = fs::metadata(&absolute).ok().map(|status| status.file_type());
        let is_special = match kind {
            Some(kind) if kind.is_dir() => return cannot("it is a directory"),
            Some(kind) if kind.is_socket() => return cannot("it is a socket"),
            Some(kind) => !kind.is_file(),
            None => false,
        };
        if is_special {
            nix::unistd::access(&absolute, nix::unistd::AccessFlags::W_OK)
                .map_err(|errno| Error::io(path, "write the profile", errno.into()))?;
            return Ok(Self { path: absolute, is_special, permissions: 0 });
        }
        // A symbolic link is kept: its target is replaced.
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        let trial = tempfile::Builder::new()
            .prefix(".sigprof-")
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(directory_of(&absolute))
            .map_err(|error| {
                let error = reason_alone(directory_of(&absolute), error);
                Error::io(path, "write the profile", error).advise("name another file by --output")
            })?;
        let permissions =
            trial.as_file().metadata().map_or(0o644, |status| status.permissions().mode() & 0o777);
        Ok(Self { path: absolute, is_special, permissions })
    }

    /// The absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory for other files; None for a device.
    pub(super) fn beside(&self) -> Option<&Path> {
        (!self.is_special).then(|| directory_of(&self.path))
    }

    /// Writes the profile atomically (temporary file). An existing file is renamed to `.old`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, profile: &Profile) -> Result<Written, Error> {
        self.put(profile, true)
    }

    /// Replaces the file of [`write`](Self::write); does nothing for a device.
    ///
    /// # Errors
    /// If it cannot be written; the first file then stays.
    pub(super) fn rewrite(&self, profile: &Profile) -> Result<Written, Error> {
        if self.is_special {
            return Ok(Written { path: self.path.clone(), bytes: 0 });
        }
        self.put(profile, false)
    }

    fn put(&self, profile: &Profile, keeps_older: bool) -> Result<Written, Error> {
        let fails = |error| Error::io(&self.path, "write the profile", error);
        if self.is_special {
            let file = OpenOptions::new().write(true).open(&self.path).map_err(fails)?;
            fill(&self.path, profile, &file).map_err(fails)?;
            return Ok(Written { path: self.path.clone(), bytes: 0 });
        }
        let temporary = tempfile::Builder::new()
            .prefix(".sigprof-")
            .permissions(fs::Permissions::from_mode(self.permissions))
            .tempfile_in(directory_of(&self.path))
            .map_err(fails)?;
        fill(&self.path, profile, temporary.as_file()).map_err(fails)?;
        let bytes = temporary.as_file().metadata().map_err(fails)?.len();
        if keeps_older && self.path.exists() {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            fs::rename(&self.path, old).map_err(fails)?;
        }
        temporary.persist(&self.path).map_err(|error| fails(error.error))?;
        Ok(Written { path: self.path.clone(), bytes })
    }
}

/// Writes the profile in the format of the file name.
fn fill(path: &Path, profile: &Profile, file: &File) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    if path.extension().is_some_and(|extension| extension == "pb") {
        pprof::write_unpacked(profile, &mut out)?;
    } else {
        pprof::write(profile, &mut out)?;
    }
    out.flush()
}

/// Returns why a file could not be created in a directory; `tempfile`'s error has a temporary name.
pub fn reason_alone(directory: &Path, error: io::Error) -> io::Error {
    match fs::metadata(directory) {
        Err(error) => error,
        Ok(status) if !status.is_dir() => io::Error::from_raw_os_error(nix::libc::ENOTDIR),
        Ok(_) => error.kind().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn refuses_unwritable_paths_and_leaves_no_file() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, reason) in [
            (".", "a directory"),
            ("missing/profile", "No such file or directory"),
            ("new/", "not the name of a file"),
        ] {
            let error = Output::prepare(&scratch.path().join(name)).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("--output"), "{error}");
        }
        let error = Output::prepare(Path::new("-")).unwrap_err().to_string();
        assert!(error.contains("standard output") && error.contains("--output"), "{error}");
        Output::prepare(&scratch.path().join("profile")).unwrap();
        assert_eq!(names(scratch.path()), [""; 0]);
    }

    #[test]
    fn keeps_an_older_profile_and_a_symbolic_link() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, link) = (scratch.path().join("p.pb.gz"), scratch.path().join("link"));
        fs::write(&path, "older").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let output = Output::prepare(&link).unwrap();
        let written = output.write(&Profile::new(Profile::cpu_types())).unwrap();
        assert_eq!(names(scratch.path()), ["link", "p.pb.gz", "p.pb.gz.old"]);
        assert_eq!(fs::read(scratch.path().join("p.pb.gz.old")).unwrap(), b"older");
        assert_eq!(fs::read(&path).unwrap().len() as u64, written.bytes);
        assert!(formats::read_file(&link).unwrap().samples.is_empty());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn compresses_according_to_the_name() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, is_packed) in [("a.pb", false), ("b.pb.gz", true), ("c", true)] {
            let output = Output::prepare(&scratch.path().join(name)).unwrap();
            output.write(&Profile::new(Profile::cpu_types())).unwrap();
            let bytes = fs::read(output.path()).unwrap();
            assert_eq!(bytes.starts_with(b"\x1f\x8b"), is_packed, "{name}");
        }
    }

    #[test]
    fn writes_a_device_directly() {
        let output = Output::prepare(Path::new("/dev/null")).unwrap();
        assert_eq!(
            (output.beside(), output.write(&Profile::new(Profile::cpu_types())).unwrap().bytes),
            (None, 0)
        );
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
