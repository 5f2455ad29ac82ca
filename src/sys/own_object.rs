//! The object that this code is a part of: the program, `libprofiler.so`, or a library that the crate or the archive is
//! linked into.
//!
//! # Safety
//! Calls `dlopen` through the address that `dlsym` gave, with the loader's own name of an object that is loaded.
#![allow(unsafe_code)]

use super::{
    errno,
    loader::{self, symbol},
};
use crate::sync::{AtomicBool, Ordering};
use core::{ffi::c_char, ffi::c_int, ffi::c_void, mem};

type OpenFunction = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// Keeps the object mapped until the process ends, whoever closes it: the kernel and libc are about to be given addresses
/// of functions in it. Nothing is to be done for the program itself, which nobody unloads. For ordinary context.
///
/// # Errors
/// The object is a library, and the loader does not know it by its own name.
pub(crate) fn pin() -> Result<(), i32> {
    static IS_PINNED: AtomicBool = AtomicBool::new(false);
    if IS_PINNED.load(Ordering::Acquire) {
        return Ok(());
    }
    let own = pin as *const () as usize;
    // Without the loader's look-up the program cannot be told from a library; then the former is not found, and need
    // not be.
    let (name, is_library) = match loader::find(own) {
        Some(object) => (object.name(), object.has_name()),
        None => (loader::dladdr(own).map_or(core::ptr::null(), |info| info.dli_fname), false),
    };
    // By its address, since linkers warn of any static program that names it.
    let address = symbol(c"dlopen");
    if !name.is_null() && !address.is_null() {
        // SAFETY: it has this type.
        let open = unsafe { mem::transmute::<*mut c_void, OpenFunction>(address) };
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the loader's own string, of an object that is loaded: nothing is loaded or initialised here.
        if unsafe { open(name, flags) }.is_null() && is_library {
            return Err(errno::ENOENT);
        }
    }
    IS_PINNED.store(true, Ordering::Release);
    Ok(())
}

/// True when `address` lies in the object. For ordinary context: it takes the loader's lock.
pub(crate) fn contains(address: usize) -> bool {
    let start = |address| loader::dladdr(address).map(|info| info.dli_fbase as usize);
    address != 0 && start(address).is_some_and(|found| Some(found) == start(pin as *const () as usize))
}

/// The file of the object. For ordinary context, as [`contains`].
pub(crate) fn file() -> Option<Vec<u8>> {
    loader::file_of(pin as *const () as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_its_own_object_and_needs_no_keeping() {
        loader::resolve();
        assert_eq!(pin(), Ok(()));
        assert!(contains(pin as *const () as usize));
        assert!(!contains(symbol(c"getpid") as usize));
        assert!(!contains(0));
        let file = file().unwrap();
        assert!(file.starts_with(b"/") || file.contains(&b'/'), "{}", String::from_utf8_lossy(&file));
    }
}
