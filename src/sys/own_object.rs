//! The object that contains this code: the program, `libprofiler.so`, or another library.
//!
//! # Safety
//! Calls `dlopen` through the address from `dlsym`, with the loader's name of a loaded object.
#![allow(unsafe_code)]

use super::{
    errno,
    loader::{self, symbol},
};
use crate::sync::{AtomicBool, Ordering};
use core::{ffi::c_char, ffi::c_int, ffi::c_void, mem};

type OpenFunction = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// Pins the object until the process exits: the kernel and libc will have addresses of functions in
/// it. The program itself is never unloaded. For ordinary context.
///
/// # Errors
/// `ENOENT` if the object is a library that `dlopen` does not find.
pub(crate) fn pin() -> Result<(), i32> {
    static IS_PINNED: AtomicBool = AtomicBool::new(false);
    if IS_PINNED.load(Ordering::Acquire) {
        return Ok(());
    }
    let own = pin as *const () as usize;
    // Without `_dl_find_object` the program looks like a library; its `dlopen` fails harmlessly.
    let (name, is_library) = match loader::find(own) {
        Some(object) => (object.name(), object.has_name()),
        None => (loader::dladdr(own).map_or(core::ptr::null(), |info| info.dli_fname), false),
    };
    // By `dlsym`: linkers warn if a static program references `dlopen`.
    let address = symbol(c"dlopen");
    if !name.is_null() && !address.is_null() {
        // SAFETY: `dlopen` has this type.
        let open = unsafe { mem::transmute::<*mut c_void, OpenFunction>(address) };
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the loader's string of a loaded object; RTLD_NOLOAD loads nothing.
        if unsafe { open(name, flags) }.is_null() && is_library {
            return Err(errno::ENOENT);
        }
    }
    IS_PINNED.store(true, Ordering::Release);
    Ok(())
}

/// Whether `address` is in the object. For ordinary context: it takes the loader's lock.
pub(crate) fn contains(address: usize) -> bool {
    let start = |address| loader::dladdr(address).map(|info| info.dli_fbase as usize);
    address != 0 && start(address).is_some_and(|found| Some(found) == start(pin as *const () as usize))
}

/// Returns the object's path. For ordinary context, as [`contains`].
pub(crate) fn file() -> Option<Vec<u8>> {
    loader::file_of(pin as *const () as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_program_as_its_own_object() {
        loader::resolve();
        assert_eq!(pin(), Ok(()));
        assert!(contains(pin as *const () as usize));
        assert!(!contains(symbol(c"getpid") as usize));
        assert!(!contains(0));
        let file = file().unwrap();
        assert!(file.starts_with(b"/") || file.contains(&b'/'), "{}", String::from_utf8_lossy(&file));
    }
}
