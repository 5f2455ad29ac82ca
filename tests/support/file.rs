//! Profile files and their lists of mapped objects.

use std::path::Path;

use sigprof::format::{CpuProfile, Mapping};
use sigprof::{Pc, Profile};

use super::checker::check;

/// Reads a file that the checker accepts.
#[track_caller]
pub(crate) fn read_profile(path: &Path) -> CpuProfile {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let profile = CpuProfile::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    check(path);
    profile
}

pub(crate) fn mappings_of(profile: &Profile) -> Vec<Mapping<'static>> {
    let lines = profile.maps_text().split(|&byte| byte == b'\n');
    lines.filter_map(Mapping::parse_line).map(Mapping::into_owned).collect()
}

/// Returns the file name of the executable mapping that contains `pc`, or an empty string.
pub(crate) fn object_at(mappings: &[Mapping<'_>], pc: Pc) -> String {
    let found =
        mappings.iter().find(|mapping| mapping.is_executable() && mapping.contains(pc.address() as u64));
    let path = found.map(|mapping| String::from_utf8_lossy(&mapping.path).into_owned());
    path.and_then(|path| path.rsplit('/').next().map(str::to_owned)).unwrap_or_default()
}
