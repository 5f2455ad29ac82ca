//! trace.db: the context of each thread over time.

use super::{
    file::DbFile,
    layout::{TRACE, Traces},
};
use crate::error::Error;

/// Returns the times of the first and the last sample, in nanoseconds since 1970.
///
/// # Errors
/// If it is another file.
pub(super) fn times(bytes: &[u8]) -> Result<(u64, u64), Error> {
    let head: Traces = DbFile::new(TRACE, bytes)?.head("CtxTraces")?;
    Ok((head.first_nanos, head.last_nanos))
}
