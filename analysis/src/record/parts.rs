//! Files of what was collected meanwhile, beside the spools: so they outlive a recorder that is killed.

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

/// What the names of files begin with that were collected meanwhile.
const PART: &str = "collected-";
/// What comments of such a file begin with; the name of a spool follows that is in it.
const PART_OF: &str = "collected from ";

/// How far a recording has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CollectedSoFar {
    /// Sum of the counts.
    pub samples: u64,
    /// The time that they represent.
    pub time: Duration,
}

/// The files of what was collected meanwhile.
pub(super) fn parts_in(directory: &Path) -> Vec<PathBuf> {
    files_of(directory, |name| name.starts_with(PART.as_bytes()) && name.ends_with(b".pb"))
}

/// Reads such a file, and what spools it was made of.
pub(super) fn read_part(path: &Path) -> Result<(Profile, Vec<PathBuf>), Error> {
    let mut profile = formats::read_file(path)?;
    let directory = directory_of(path);
    let spools = profile.comments.iter().filter_map(|comment| comment.strip_prefix(PART_OF));
    // Only a name: what somebody else has written leads nowhere else.
    let spools = spools.filter(|name| !name.contains('/')).map(|name| directory.join(name)).collect();
    profile.comments.retain(|comment| !comment.starts_with(PART_OF));
    Ok((profile, spools))
}

/// Keeps the profile of `spools` in a file of its own beside them, where a collector finds it.
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
    // Under another name first: a recorder may be killed here, too.
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

/// The user's own files of a directory that have wanted names, sorted. Others may write to it, too.
pub(super) fn files_of(directory: &Path, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let user = nix::unistd::geteuid().as_raw();
    // Links are not followed here.
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
