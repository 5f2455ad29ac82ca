//! Source lines of the addresses of a file, without a profile.

use super::{SymbolizerOptions, debug_files::Places, image::Image, object_file::ObjectFile, parallel};
use crate::error::Error;
use std::{path::Path, sync::Arc};

/// A position in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// The file, with the path that the compiler was given.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u64,
}

/// Returns the source line of each address, which are those of the file at `path`, sorted, without
/// duplicates. None without debug information.
///
/// # Errors
/// If it is not an ELF file, or cannot be read.
pub(crate) fn source_lines(path: &Path, addresses: Vec<u64>) -> Result<Vec<Option<SourceLine>>, Error> {
    let directories = SymbolizerOptions::default().debug_directories;
    let object = ObjectFile::new(Image::open(path)?, false, Places { directories, servers: None });
    let count = addresses.len();
    let plan = object.plan(addresses);
    let found = parallel::map(&plan.units, |unit| object.look_up_unit(&plan, unit), |_| {});
    let mut lines = vec![None; count];
    for (unit, found) in plan.units.iter().zip(found) {
        for (&place, address) in unit.places.iter().zip(found) {
            let Some(innermost) = address.calls.into_iter().next().filter(|call| call.line != 0) else {
                continue;
            };
            lines[place] = Some(SourceLine { file: innermost.file, line: innermost.line });
        }
    }
    Ok(lines)
}
