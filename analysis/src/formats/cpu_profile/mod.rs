//! The CPU profile format of gperftools.

mod java;
mod read;
mod write;

pub(super) use read::length;
pub use read::read;
pub use write::write;

use crate::error::{Error, ErrorKind};
use sigprof::format::{ReadError, Records};

/// Counts records and PCs, to reserve exactly: a vector that doubles may use three times its size.
fn count(mut records: Records<'_>) -> Result<(usize, usize), ReadError> {
    records.try_fold((0, 0), |(records, pcs), record| Ok((records + 1, pcs + record?.depth())))
}

fn fails(error: ReadError) -> Error {
    Error::new(ErrorKind::Format, error.to_string()).caused_by(error)
}
