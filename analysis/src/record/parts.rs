//! Part files: samples collected while the command runs, which survive a killed recorder.

use super::directory_of;
use crate::{
    Error,
    formats::{self, pprof},
    profile::Profile,
};
use sigprof::recover::Spool;
use std::{
    fs,
    io::{BufWriter, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

const PART: &str = "collected-";
/// Prefix of comments that name the spools in a part file.
const PART_OF: &str = "collected from ";

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CollectedSoFar {
    /// Sum of the counts.
    pub samples: u64,
    /// The time that they represent.
    pub time: Duration,
}

pub(super) fn parts_in(directory: &Path) -> Vec<PathBuf> {
    files_of(directory, |name| name.starts_with(PART.as_bytes()) && name.ends_with(b".pb"))
}

/// Reads a part file, and the paths of its spools.
pub(super) fn read_part(path: &Path) -> Result<(Profile, Vec<PathBuf>), Error> {
    let mut profile = formats::read_file(path)?;
    let directory = directory_of(path);
    let spools = profile.comments.iter().filter_map(|comment| comment.strip_prefix(PART_OF));
    // Only file names: an untrusted file must not refer to other directories.
    let spools = spools.filter(|name| !name.contains('/')).map(|name| directory.join(name)).collect();
    profile.comments.retain(|comment| !comment.starts_with(PART_OF));
    Ok((profile, spools))
}

/// Writes the profile of `spools` to a part file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn keep_part(
    directory: &Path,
    mut profile: Profile,
    spools: &[Spool],
) -> Result<CollectedSoFar, Error> {
    let name = |spool: &Spool| Some(spool.path().file_name()?.to_str()?.to_owned());
    profile.comments.extend(spools.iter().filter_map(name).map(|name| format!("{PART_OF}{name}").into()));
    let profile = &profile;
    let fails = |error| Error::io(directory, "keep what was collected", error);
    // Atomically: a recorder may be killed here.
    let temporary = tempfile::NamedTempFile::new_in(directory).map_err(fails)?;
    let mut out = BufWriter::new(temporary.as_file());
    pprof::write_unpacked(profile, &mut out).and_then(|()| out.flush()).map_err(fails)?;
    drop(out);
    let mut number = 0;
    loop {
        let path = directory.join(format!("{PART}{number}.pb"));
        if !path.exists() {
            temporary.persist(path).map_err(|error| fails(error.error))?;
            return Ok(progress_of(profile));
        }
        number += 1;
    }
}

/// Returns the user's files with wanted names in a directory, sorted. Other users may write to it.
pub(super) fn files_of(directory: &Path, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let user = nix::unistd::geteuid().as_raw();
    // Symbolic links are not followed.
    let is_own =
        |entry: &fs::DirEntry| entry.metadata().is_ok_and(|status| status.is_file() && status.uid() == user);
    let wanted = entries.filter(|entry| is_wanted(entry.file_name().as_bytes()) && is_own(entry));
    let mut paths: Vec<PathBuf> = wanted.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn progress_of(profile: &Profile) -> CollectedSoFar {
    let at_least_zero = |number: i64| u64::try_from(number).unwrap_or(0);
    let nanos = Duration::from_nanos(at_least_zero(profile.total(profile.sample_types.len() - 1)));
    CollectedSoFar { samples: at_least_zero(profile.total(0)), time: nanos }
}
