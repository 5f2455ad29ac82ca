//! Stand-ins for names of functions without a symbol: `[libc.so.6]+0x12340`, object and start.

use crate::text::{object_name, printable};
use std::{os::unix::ffi::OsStrExt as _, path::Path};

/// Returns an object's name in stand-ins.
pub(super) fn object(path: &Path) -> String {
    let name = object_name(path);
    if name.is_empty() { "anonymous".into() } else { printable(name.as_bytes()) }
}

pub(super) fn name(object: &str, start: u64) -> String {
    format!("[{object}]+0x{start:x}")
}

/// True for a stand-in of an object. A profile with stand-ins may be read where symbols exist.
pub(super) fn is_one(name: &str, path: &Path) -> bool {
    let Some(rest) = name.strip_prefix('[') else { return false };
    let start = rest.strip_prefix(&*object(path)).and_then(|rest| rest.strip_prefix("]+0x"));
    start.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
