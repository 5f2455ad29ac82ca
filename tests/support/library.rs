//! C code that a test compiles and loads at run time.
//!
//! # Safety
//! Calls `dlopen(3)` and the like with NUL-terminated strings; reads what `dladdr` points to.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sigprof::Pc;

/// Compiles `programs/<source>` with `flags` into the shared library `name` in `directory`.
#[track_caller]
pub(crate) fn compile_library(source: &str, flags: &[&str], directory: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let library = directory.join(name);
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).args(flags);
    let output = compiler.arg(source).arg("-o").arg(&library).output().unwrap_or_else(|error| {
        panic!("cannot start gcc: {error}; ci/setup.sh installs the Debian package gcc")
    });
    assert!(output.status.success(), "{compiler:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    library
}

pub(crate) struct Library {
    handle: *mut c_void,
}

impl Library {
    #[track_caller]
    pub(crate) fn open(path: &Path) -> Self {
        let name = CString::new(path.as_os_str().as_bytes()).expect("a path without a nul");
        // SAFETY: the name is NUL-terminated; the tests' libraries have no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{} cannot be loaded", path.display());
        Self { handle }
    }

    #[track_caller]
    pub(crate) fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is loaded as long as `self` lives, and the name is NUL-terminated.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!address.is_null(), "no symbol {name:?}");
        address
    }

    /// Unloads the library.
    ///
    /// # Safety
    /// * None of its code runs, or is called later.
    pub(crate) unsafe fn close(self) {
        // SAFETY: the last use of a `dlopen` handle; no code runs, guaranteed by the caller.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
    }
}

/// Returns the name of the exported symbol at `address` (dladdr(3)), or an empty string.
pub(crate) fn symbol_at(address: usize) -> String {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address is allowed, and the answer goes into a local.
    unsafe { libc::dladdr(address as *const c_void, found.as_mut_ptr()) };
    // SAFETY: the fields are pointers, for which zero is valid.
    let found = unsafe { found.assume_init() };
    if found.dli_sname.is_null() {
        return String::new();
    }
    // SAFETY: the name is a string of the shared object, which the tests keep loaded.
    unsafe { CStr::from_ptr(found.dli_sname) }.to_string_lossy().into_owned()
}

/// Whether `pc` lies in `_start`, by the kernel's AT_ENTRY (getauxval(3)).
pub(crate) fn is_programs_entry(pc: Pc) -> bool {
    // SAFETY: takes an integer.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    (entry..entry + 64).contains(&pc.address())
}
