//! HPCToolkit's databases, version 4: a directory with these files.
//!
//! | file | contents |
//! | --- | --- |
//! | meta.db | metrics, modules, files, functions, and the tree of contexts |
//! | profile.db | the values of each thread, by context |
//! | cct.db | the same values, by context and then thread |
//! | trace.db | the context of each thread over time; optional |
//! | metrics/default.yaml | which metrics a viewer shows |
//! | src/ | copies of sources |
//!
//! Source: `FORMATS.md` of HPCToolkit 2024, and databases that hpcprof wrote.

mod check;
mod file;
mod layout;
#[cfg(test)]
mod made;
mod meta;
mod profile_db;
mod read;
#[cfg(test)]
mod tests;
mod trace_db;
mod write;

pub use check::{DatabaseSize, Finding, check};
pub use read::read;
pub use write::{DatabaseWriter, WriteOptions};

#[cfg(any(test, fuzzing))]
pub(crate) use self::{
    check::{CheckedFiles, check_files},
    read::{DatabaseFiles, read_files},
};

#[cfg(test)]
use crate::profile::ValueType;
use std::path::Path;

/// Beginning of the description of databases that sigprof has written; its version follows.
const CONVERTED_BY: &str = "Converted by sigprof ";

/// True for a directory that contains a database.
pub fn is_database(directory: &Path) -> bool {
    directory.join(layout::META.name).is_file()
}
