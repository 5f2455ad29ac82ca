//! Private directory of a recording: the spools of its processes, and the session file.
//!
//! It is in memory if possible, because its files are written at every tick, and its name has the
//! user ID. The recorder removes it at its exit, `sigprof recover` after a kill.

use super::{Collector, Output, preload, reason_alone, with_word};
use crate::{Error, error::ErrorKind};
use nix::fcntl::{Flock, FlockArg};
use sigprof::{Clock, interface::RECORDERS_FILE};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Prefix of such directories; the user ID and a random word follow.
const PREFIX: &str = "sigprof-record-";
/// Attempts to remove a directory in which processes may still create spools.
const REMOVALS: usize = 10;
const SESSION: &str = match RECORDERS_FILE.to_str() {
    Ok(name) => name,
    Err(_) => panic!("its name is text"),
};

pub(super) struct PrivateDirectory {
    directory: TempDir,
    session: Session,
    /// Lock that shows that the recorder runs, also to processes of other containers, where its
    /// process ID is unknown. Processes that start later do not record.
    going_on: Flock<File>,
}

impl PrivateDirectory {
    /// Creates the directory in the first usable place, for a profile written to `output`.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn make(output: &Output, clock: Clock) -> Result<Self, Error> {
        let prefix = format!("{PREFIX}{}-", nix::unistd::geteuid());
        let mut failure = None;
        for place in places() {
            let private = fs::Permissions::from_mode(0o700);
            let directory = tempfile::Builder::new().prefix(&prefix).permissions(private).tempdir_in(&place);
            let made = directory
                .map_err(|error| {
                    Error::io(&place, "make a directory for the samples", reason_alone(&place, error))
                })
                // If there is no space for the small session file, there is none for samples.
                .and_then(|directory| Self::of(directory, output, clock));
            match made {
                Ok(made) => return Ok(made),
                // Report the preferred place.
                Err(error) => _ = failure.get_or_insert(error),
            }
        }
        let failure =
            failure.unwrap_or_else(|| Error::new(ErrorKind::Io, "no directory found for the samples"));
        Err(failure.advise("set TMPDIR to a directory that you may write to"))
    }

    fn of(directory: TempDir, output: &Output, clock: Clock) -> Result<Self, Error> {
        let word = directory.path().file_name().unwrap_or_default();
        let target = output.beside().unwrap_or(directory.path()).join(concat(b".", word, b".prof"));
        let recorder = std::process::id();
        let session =
            Session { recorder, output: output.path().into(), target, is_wall: clock == Clock::Wall };
        let path = directory.path().join(SESSION);
        let fails = |error| Error::io(&path, "write", error);
        // Locked before it is written: without a session the directory is ignored.
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(fails)?;
        let going_on = locked(file, FlockArg::LockExclusiveNonblock).map_err(fails)?;
        fs::write(&path, session.to_bytes()).map_err(fails)?;
        Ok(Self { directory, session, going_on })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn spools(&self) -> &Path {
        self.directory.path()
    }

    /// Prefix of profiles without a spool: beside the output, where there is space for them.
    pub(super) fn target(&self) -> &Path {
        &self.session.target
    }

    /// Returns a path of the library that is valid in LD_PRELOAD: its own, or a symbolic link here.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn preloadable(&self, library: &Path) -> Result<PathBuf, Error> {
        if preload::is_possible(library) {
            return Ok(library.into());
        }
        let link = self.directory.path().join("libprofiler.so");
        symlink(library, &link).map_err(|error| Error::io(&link, "make a link to the library", error))?;
        if preload::is_possible(&link) {
            return Ok(link);
        }
        let reason = "LD_PRELOAD cannot contain a path with a space, a colon or a dollar sign";
        Err(Error::new(ErrorKind::Request, reason).at(&link).advise("set TMPDIR to another"))
    }

    /// Removes the directory, unless it `is_needed`: then its path is returned. If the profile
    /// `is_written`, a later recovery writes to another name.
    pub(super) fn close(self, is_needed: bool, is_written: bool) -> Option<PathBuf> {
        if is_needed {
            if is_written {
                let path = self.directory.path().join(SESSION);
                let mut session = self.session;
                session.output = with_word(&session.output, "-late");
                let _ = fs::write(path, session.to_bytes());
            }
            return Some(self.directory.keep());
        }
        self.remove_by(|path| fs::remove_dir_all(path));
        None
    }

    /// Removes it by `remove`, which fails with ENOTEMPTY if a process creates a file at that time.
    fn remove_by(self, mut remove: impl FnMut(&Path) -> io::Result<()>) {
        // Processes that start now find no lock and write nothing; earlier ones may still do so.
        drop(self.going_on);
        let path = self.directory.keep();
        for _ in 0..REMOVALS {
            // Files created since are obsolete: the profile has been written.
            match remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                _ => break,
            }
        }
    }
}

/// Returns possible parent directories: in memory, the user's own, or for temporary files.
fn places() -> Vec<PathBuf> {
    let variable = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let of_user = variable("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
    let mut places = vec![PathBuf::from("/dev/shm")];
    places.extend(of_user);
    places.push(env::temp_dir());
    places.dedup();
    places.into_iter().filter_map(|path| std::path::absolute(path).ok()).collect()
}

/// Parameters of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Process ID of the recorder.
    pub recorder: u32,
    /// The profile's file, absolute.
    pub output: PathBuf,
    /// Prefix of profiles of processes without a spool.
    pub target: PathBuf,
    /// Elapsed time is sampled, not CPU time.
    pub is_wall: bool,
}

impl Session {
    fn to_bytes(&self) -> Vec<u8> {
        let recorder = self.recorder.to_string();
        let fields = [
            recorder.as_bytes(),
            self.output.as_os_str().as_bytes(),
            self.target.as_os_str().as_bytes(),
            if self.is_wall { b"wall" } else { b"cpu" },
        ];
        fields.iter().flat_map(|field| field.iter().copied().chain([0])).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.split(|&byte| byte == 0);
        let mut next = || fields.next().map(OsStr::from_bytes);
        let recorder = next()?.to_str()?.parse().ok()?;
        let (output, target) = (PathBuf::from(next()?), PathBuf::from(next()?));
        let clock = next()?;
        // Every field ends with a zero byte, so the fifth part exists and is empty.
        let is_whole = next()?.is_empty() && output.is_absolute() && target.is_absolute();
        is_whole.then_some(Self { recorder, output, target, is_wall: clock == "wall" })
    }
}

/// Locks a file until it is closed.
///
/// # Errors
/// Those of flock(2): `WouldBlock` if another process has locked it.
fn locked(file: File, how: FlockArg) -> io::Result<Flock<File>> {
    Flock::lock(file, how).map_err(|(_, errno)| errno.into())
}

/// Exclusive access to a recorder's directory, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    _locks: Vec<Flock<File>>,
}

/// A directory of a recorder that has exited or still runs.
#[derive(Debug)]
pub struct Left {
    /// The directory.
    pub path: PathBuf,
    /// The session.
    pub session: Session,
}

impl Left {
    /// Opens a directory; None if it was not created by a recorder of this user.
    pub fn at(path: &Path) -> Option<Self> {
        let status = fs::symlink_metadata(path).ok()?;
        let is_own =
            status.is_dir() && status.uid() == nix::unistd::geteuid().as_raw() && status.mode() & 0o077 == 0;
        if !is_own {
            return None;
        }
        let session = Session::from_bytes(&fs::read(path.join(SESSION)).ok()?)?;
        Some(Self { path: path.into(), session })
    }

    /// Gets exclusive access; None while the recorder runs, or another process recovers it.
    ///
    /// # Errors
    /// If the system cannot lock it.
    pub fn claim(&self) -> Result<Option<Claim>, Error> {
        // A shared lock on the session file, so that processes that test for the recorder see none.
        let session = self.path.join(SESSION);
        let locks = [(&session, FlockArg::LockSharedNonblock), (&self.path, FlockArg::LockExclusiveNonblock)];
        let mut claim = Vec::new();
        for (path, how) in locks {
            match File::open(path).and_then(|file| locked(file, how)) {
                Ok(lock) => claim.push(lock),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(Error::io(path, "lock", error)),
            }
        }
        Ok(Some(Claim { _locks: claim }))
    }

    /// Returns a collector of its samples.
    pub fn collector(&self) -> Collector {
        Collector::new(&self.path, &self.session)
    }

    /// Removes the directory and its contents.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        fs::remove_dir_all(&self.path).map_err(|error| Error::io(&self.path, "remove the directory", error))
    }
}

/// Returns the directories of this user's recorders that have exited or still run, sorted by name.
pub fn left_behind() -> Vec<Left> {
    let prefix = format!("{PREFIX}{}-", nix::unistd::geteuid());
    let is_one = |entry: &fs::DirEntry| entry.file_name().as_bytes().starts_with(prefix.as_bytes());
    let entries = places().into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().filter(is_one).map(|entry| entry.path()).collect();
    paths.sort();
    paths.dedup();
    paths.iter().filter_map(|path| Left::at(path)).collect()
}

fn concat(before: &[u8], word: &OsStr, behind: &[u8]) -> OsString {
    OsString::from_vec([before, word.as_bytes(), behind].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_a_session_as_written() {
        let session =
            Session { recorder: 7, output: "/a b/\n:c".into(), target: "/t/.x".into(), is_wall: true };
        let bytes = session.to_bytes();
        assert_eq!(Session::from_bytes(&bytes), Some(session));
        for cut in 0..bytes.len() {
            assert_eq!(Session::from_bytes(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn refuses_to_claim_a_running_session() {
        let private = fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        let path = directory.path().join(SESSION);
        let file = File::create(&path).unwrap();
        let recorder = locked(file, FlockArg::LockExclusiveNonblock).unwrap();
        let (output, target) = ("/o".into(), "/t".into());
        let session = Session { recorder: 1, output, target, is_wall: false };
        fs::write(&path, session.to_bytes()).unwrap();
        let left = Left::at(directory.path()).unwrap();
        assert!(left.claim().unwrap().is_none());
        drop(recorder);
        let claim = left.claim().unwrap();
        assert!(claim.is_some() && left.claim().unwrap().is_none(), "two recover it at once");
        drop(claim);
        // As in a process that starts at this moment.
        let _look = locked(File::open(&path).unwrap(), FlockArg::LockSharedNonblock).unwrap();
        assert!(left.claim().unwrap().is_some(), "who looks is in nobody's way");
    }

    /// A process creates its spool after the directory was read, and before it is removed.
    #[test]
    fn removes_a_directory_although_files_are_created() {
        let scratch = tempfile::tempdir().unwrap();
        let private = |name: &str| {
            let output = Output::prepare(&scratch.path().join("profile")).unwrap();
            let directory = tempfile::Builder::new().prefix(name).tempdir_in(scratch.path()).unwrap();
            PrivateDirectory::of(directory, &output, Clock::Cpu).unwrap()
        };
        let mut tries = 0;
        private("busy").remove_by(|path| {
            let session = File::open(path.join(SESSION));
            if tries == 0 {
                locked(session.unwrap(), FlockArg::LockSharedNonblock).unwrap();
            }
            for entry in fs::read_dir(path).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            tries += 1;
            if tries < 4 {
                fs::write(path.join("1-1-a.spool"), "").unwrap();
            }
            fs::remove_dir(path)
        });
        assert_eq!((tries, fs::read_dir(scratch.path()).unwrap().count()), (4, 0));
        for (kind, expected) in
            [(io::ErrorKind::DirectoryNotEmpty, REMOVALS), (io::ErrorKind::PermissionDenied, 1)]
        {
            let mut tries = 0;
            private("stays").remove_by(|_| {
                tries += 1;
                Err(kind.into())
            });
            assert_eq!(tries, expected, "{kind}");
        }
    }
}
