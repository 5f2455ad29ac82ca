//! Stand-ins for names of functions that have none: `[libc.so.6]+0x12340`, the object and where the function starts in it.

use crate::text::{object_name, printable};
use std::{os::unix::ffi::OsStrExt as _, path::Path};

/// How an object is called in stand-ins.
pub(super) fn object(path: &Path) -> String {
    let name = object_name(path);
    if name.is_empty() { "anonymous".into() } else { printable(name.as_bytes()) }
}

/// The stand-in for a function.
pub(super) fn name(object: &str, start: u64) -> String {
    format!("[{object}]+0x{start:x}")
}

/// True for the stand-in of a function of an object. A profile that was written with it may be read where there are names.
pub(super) fn is_one(name: &str, path: &Path) -> bool {
    let Some(rest) = name.strip_prefix('[') else { return false };
    let start = rest.strip_prefix(&*object(path)).and_then(|rest| rest.strip_prefix("]+0x"));
    start.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
