//! The private directory of a recording: the spools of its processes, and who records what.
//!
//! It lies in memory where that can be had, since its files are written to at every tick, and its name says whose it is. A
//! recorder that ends removes it; one that is killed leaves it to `sigprof recover`.

use super::{Collector, Output, directory_of, preload, reason_alone};
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

/// What the names of such directories begin with; the user's id and a random word follow.
const PREFIX: &str = "sigprof-record-";
/// Attempts to remove a directory in which processes may still be making spools.
const REMOVALS: usize = 10;
/// The file that says who records what.
const SESSION: &str = match RECORDERS_FILE.to_str() {
    Ok(name) => name,
    Err(_) => panic!("its name is text"),
};

/// The directory of this recording.
pub(super) struct PrivateDirectory {
    directory: TempDir,
    session: Session,
    /// Says that the recorder runs, to processes of other containers as well, which cannot tell by its process id. Those that
    /// begin when it is gone record nothing.
    going_on: Flock<File>,
}

impl PrivateDirectory {
    /// Makes it where there is a place for it, for a profile that goes to `output`.
    ///
    /// # Errors
    /// Where there is none.
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
                // Where there is no room for the few bytes of a session there is none for samples.
                .and_then(|directory| Self::of(directory, output, clock));
            match made {
                Ok(made) => return Ok(made),
                // The first place is the one that is worth mending.
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
        // Locked before it says anything: without a session a directory is nobody's.
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(fails)?;
        let going_on = locked(file, FlockArg::LockExclusiveNonblock).map_err(fails)?;
        fs::write(&path, session.to_bytes()).map_err(fails)?;
        Ok(Self { directory, session, going_on })
    }

    /// Who records what.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Where the spools go.
    pub(super) fn spools(&self) -> &Path {
        self.directory.path()
    }

    /// What the names of profiles begin with that find no place in a spool: beside the output, where there is room for them.
    pub(super) fn target(&self) -> &Path {
        &self.session.target
    }

    /// A path of the library that can stand in LD_PRELOAD: its own, or that of a link in here.
    ///
    /// # Errors
    /// Where there is none.
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

    /// Removes it, unless something in it `is_needed`: its path is then given. What comes of that has a name of its own, if
    /// the profile `is_written`.
    pub(super) fn close(self, is_needed: bool, is_written: bool) -> Option<PathBuf> {
        if is_needed {
            if is_written {
                let path = self.directory.path().join(SESSION);
                let mut session = self.session;
                session.output = late_name(&session.output);
                let _ = fs::write(path, session.to_bytes());
            }
            return Some(self.directory.keep());
        }
        self.remove_by(|path| fs::remove_dir_all(path));
        None
    }

    /// Removes it by `remove`, which finds it not empty where a process has made something there behind its look.
    fn remove_by(self, mut remove: impl FnMut(&Path) -> io::Result<()>) {
        // Who begins from now on finds no lock, and leaves nothing; who began before may still make its spool.
        drop(self.going_on);
        let path = self.directory.keep();
        for _ in 0..REMOVALS {
            // What a process has left there meanwhile is of no use: its profile has been written.
            match remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                _ => break,
            }
        }
    }
}

/// Where such a directory may lie: in memory, in the user's own, or wherever temporary files go.
fn places() -> Vec<PathBuf> {
    let variable = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let of_user = variable("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
    let mut places = vec![PathBuf::from("/dev/shm")];
    places.extend(of_user);
    places.push(env::temp_dir());
    places.dedup();
    places.into_iter().filter_map(|path| std::path::absolute(path).ok()).collect()
}

/// Who records what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Process id of the recorder.
    pub recorder: u32,
    /// The profile's file, absolute.
    pub output: PathBuf,
    /// What the names of profiles begin with that found no place in a spool.
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

    /// None for what was not written by [`to_bytes`](Self::to_bytes).
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.split(|&byte| byte == 0);
        let mut next = || fields.next().map(OsStr::from_bytes);
        let recorder = next()?.to_str()?.parse().ok()?;
        let (output, target) = (PathBuf::from(next()?), PathBuf::from(next()?));
        let clock = next()?;
        // Every field ends with a zero, so a fifth part is there, and empty.
        let is_whole = next()?.is_empty() && output.is_absolute() && target.is_absolute();
        is_whole.then_some(Self { recorder, output, target, is_wall: clock == "wall" })
    }
}

/// Locks a file until it is closed.
///
/// # Errors
/// Those of flock(2): `WouldBlock` where another process has locked it.
fn locked(file: File, how: FlockArg) -> io::Result<Flock<File>> {
    Flock::lock(file, how).map_err(|(_, errno)| errno.into())
}

/// The right to what a recorder has left, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    _locks: Vec<Flock<File>>,
}

/// A directory that a recorder has left, or still uses.
#[derive(Debug)]
pub struct Left {
    /// The directory.
    pub path: PathBuf,
    /// Who recorded what.
    pub session: Session,
}

impl Left {
    /// Looks at a directory; None for one that no recorder of this user has made.
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

    /// Has what is in it for itself, until that is dropped; None while the recorder runs, or another process recovers it.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn claim(&self) -> Result<Option<Claim>, Error> {
        // Of the session's file no more than processes take that look whether the recorder is there: to these it is not.
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

    /// Makes the profile of what is in it.
    pub fn collector(&self) -> Collector {
        Collector::new(&self.path, &self.session)
    }

    /// Removes the directory, and what is in it.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        fs::remove_dir_all(&self.path).map_err(|error| Error::io(&self.path, "remove the directory", error))
    }
}

/// The directories that recorders of this user have left or still use, in the order of their names.
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

/// Where another profile of a recording goes: beside its first one, `late` in its name.
pub(super) fn late_name(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().as_bytes();
    let dot = name.iter().skip(1).position(|&byte| byte == b'.').map_or(name.len(), |place| place + 1);
    let (stem, extension) = name.split_at(dot);
    directory_of(output).join(OsString::from_vec([stem, b"-late", extension].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_comes_back_as_it_was_written() {
        let session =
            Session { recorder: 7, output: "/a b/\n:c".into(), target: "/t/.x".into(), is_wall: true };
        let bytes = session.to_bytes();
        assert_eq!(Session::from_bytes(&bytes), Some(session));
        for cut in 0..bytes.len() {
            assert_eq!(Session::from_bytes(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_session_that_goes_on_is_claimed_by_nobody() {
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
        // As a process does that begins then.
        let _look = locked(File::open(&path).unwrap(), FlockArg::LockSharedNonblock).unwrap();
        assert!(left.claim().unwrap().is_some(), "who looks is in nobody's way");
    }

    /// A process that began in time makes its spool behind the look at the directory, and before that is removed.
    #[test]
    fn a_directory_is_removed_behind_its_lock_and_though_files_come_meanwhile() {
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

    #[test]
    fn a_late_profile_has_a_name_of_its_own() {
        for (output, late) in [
            ("/a.b/sigprof.pb.gz", "/a.b/sigprof-late.pb.gz"),
            ("/x/profile", "/x/profile-late"),
            ("/x/.hidden", "/x/.hidden-late"),
        ] {
            assert_eq!(late_name(Path::new(output)), Path::new(late));
        }
    }
}
