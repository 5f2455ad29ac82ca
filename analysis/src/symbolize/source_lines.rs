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

/// The innermost function at an address, and the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The linker name; None if the debug information has none.
    pub(crate) function: Option<Arc<str>>,
    pub(crate) line: SourceLine,
}

/// Debug information of a file.
pub(crate) struct SourceLines(ObjectFile);

impl SourceLines {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it is not an ELF file, or cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let directories = SymbolizerOptions::default().debug_directories;
        Ok(Self(ObjectFile::new(Image::open(path)?, false, Places { directories, servers: None })))
    }

    /// Returns the position of each address, which are those of the file, sorted, without
    /// duplicates. None without debug information.
    pub(crate) fn find(&self, addresses: Vec<u64>) -> Vec<Option<Position>> {
        let mut positions = vec![None; addresses.len()];
        let plan = self.0.plan(addresses);
        let found = parallel::map(&plan.units, |unit| self.0.look_up_unit(&plan, unit), |_| {});
        for (unit, found) in plan.units.iter().zip(found) {
            for (&place, address) in unit.places.iter().zip(found) {
                if let Some(innermost) = address.calls.into_iter().next().filter(|call| call.line != 0) {
                    let line = SourceLine { file: innermost.file, line: innermost.line };
                    // C has no other names.
                    let is_plain =
                        |name: &str| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
                    let is_linker_name = |name: &Arc<str>| {
                        innermost.is_linker_name || innermost.scope.is_none() && is_plain(name)
                    };
                    let function = innermost.name.filter(is_linker_name);
                    positions[place] = Some(Position { function, line });
                }
            }
        }
        positions
    }

    /// Returns all addresses at which the result of [`SourceLines::find`] can differ from that of the
    /// address before: sorted, without duplicates.
    pub(crate) fn boundaries(&self) -> Vec<u64> {
        self.0.boundaries()
    }
}
