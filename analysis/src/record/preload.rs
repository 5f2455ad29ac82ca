//! The library's path as it stands in LD_PRELOAD: where that can be had, one that glibc's loader finds and musl's does not.
//!
//! A program of musl's that a recorded one starts is ended by its loader when that opens the library, which wants symbols
//! that only glibc has. A file that is not there it passes over. glibc's loader puts its own directory of libraries in
//! the place of `${LIB}` (ld.so(8), "Dynamic string tokens"), and musl's takes it as it stands. So the path leads through that
//! directory, and out of it again:
//!
//! ```text
//! /usr/${LIB}/../../../../../../../../home/me/lib/libprofiler.so
//!      lib/x86_64-linux-gnu, lib64, lib   glibc: /home/me/lib/libprofiler.so, as the kernel's list of mapped files has it
//!      ${LIB}                             musl: no such directory
//!      (nothing)                          a shell or make that expands it once more, and has no such variable: the path alone
//! ```
//!
//! Through `/usr`, which small roots of sandboxes have where they lack `/lib`; through the root where the loader does not find it so.

use super::program::Program;
use std::{
    ffi::{OsStr, OsString},
    io::Read as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
    process::{Command, Stdio},
};

/// Up to the root, which is its own parent, also where `/lib64` is a link to a directory that lies deeper.
const UP: &str = "/../../../../../../../..";

/// Bytes that are read of a loader's list: what writes more is none.
const MAX_LISTED: u64 = 1 << 20;

/// True for a path that can stand in LD_PRELOAD, which the loader takes apart at spaces and colons, and in which it replaces
/// what follows a dollar sign.
pub(super) fn is_possible(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte) || byte.is_ascii_whitespace())
}

/// What LD_PRELOAD names the library by, an absolute path, for a program and those that it starts: so that only glibc's loader
/// finds it, if the program's own does, or by the path alone.
pub(super) fn name_for(program: &Program, library: &Path) -> OsString {
    let Some(loader) = program.loader.as_deref().filter(|loader| is_of_glibc(loader)) else {
        return library.into();
    };
    let guarded = |directory: &&str| {
        let name = [directory.as_bytes(), UP.as_bytes(), library.as_os_str().as_bytes()].concat();
        Some(OsString::from_vec(name)).filter(|name| finds(loader, &program.binary, name, library))
    };
    ["/usr/${LIB}", "/${LIB}"].iter().find_map(guarded).unwrap_or_else(|| library.into())
}

/// True for a loader that has a name as glibc's have: to no other is said what only it understands. One that the kernel looks for
/// in the working directory is not asked.
fn is_of_glibc(loader: &Path) -> bool {
    if !loader.is_absolute() {
        return false;
    }
    let name = loader.file_name().unwrap_or_default().as_bytes();
    [&b"ld-linux"[..], b"ld64.so", b"ld.so"].iter().any(|start| name.starts_with(start))
}

/// Asks a loader which files it would map for a program under such an LD_PRELOAD, as ldd(1) does; nothing of the program is
/// run but what audits its loading. True where the library is among them.
fn finds(loader: &Path, binary: &Path, name: &OsStr, library: &Path) -> bool {
    let mut command = Command::new(loader);
    command.arg("--list").arg(binary).env_clear().env("LD_PRELOAD", name);
    // What is wrong with the program is said when it is run.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let mut list = Vec::new();
    let read = child.stdout.take().map(|out| out.take(MAX_LISTED).read_to_end(&mut list));
    // Without an end to be had, where the recorder was started with SIGCHLD ignored.
    let _ = child.wait();
    // The address follows; a file that is not found has none.
    let path = [UP.as_bytes(), library.as_os_str().as_bytes(), b" (0x"].concat();
    matches!(read, Some(Ok(_))) && list.windows(path.len()).any(|part| part == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::PathBuf};

    /// This program, and any library that its loader can preload.
    fn own() -> (Program, PathBuf) {
        let own = std::env::current_exe().unwrap();
        let program = super::super::program::find(own.as_os_str(), None, &own).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps.lines().find(|line| line.contains("libc.so.6")).expect("it is dynamic");
        let library = PathBuf::from(&library[library.find('/').unwrap()..]);
        (program, library)
    }

    #[test]
    fn a_path_with_a_space_a_colon_or_a_dollar_sign_cannot_be_preloaded() {
        for (path, can) in [("/a/b.so", true), ("/a b.so", false), ("/a:b.so", false), ("/$LIB/b.so", false)]
        {
            assert_eq!(is_possible(Path::new(path)), can, "{path}");
        }
    }

    #[test]
    fn only_a_path_that_the_loader_finds_leads_through_its_directory() {
        let (program, library) = own();
        let guarded = format!("/usr/${{LIB}}{UP}{}", library.display());
        assert_eq!(name_for(&program, &library), OsString::from(&guarded));
        let missing = library.with_file_name("no-such-library.so");
        assert_eq!(name_for(&program, &missing), missing.clone().into_os_string());
        // One that has no such directory.
        let (loader, binary) = (program.loader.clone().unwrap(), program.binary.clone());
        let elsewhere = guarded.replace("/usr/${LIB}", "/no-such-directory");
        assert!(finds(&loader, &binary, guarded.as_ref(), &library));
        assert!(!finds(&loader, &binary, elsewhere.as_ref(), &library));
        for loader in [None, Some(PathBuf::from("/no/such/ld-linux.so.2"))] {
            let program = Program { loader, ..program.clone() };
            assert_eq!(name_for(&program, &library), library.clone().into_os_string());
        }
    }

    /// Such a program may be anything; a script shows whether it was run.
    #[test]
    fn a_loader_that_may_not_be_of_glibc_is_asked_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let (program, library) = own();
        for (name, is_asked) in [
            ("linker64", false),
            ("ld-uClibc.so.0", false),
            ("ld64-uClibc.so.1", false),
            ("ld-linux.so.2", true),
        ] {
            let (loader, ran) = (scratch.path().join(name), scratch.path().join("ran"));
            let script = format!("#!/bin/sh\n: > '{}'\n", ran.display());
            // By another process: what this one has open for writing, a child of another test's may have, too, and then it cannot run.
            let written = Command::new("sh")
                .args(["-c", "printf %s \"$0\" >\"$1\"; chmod 755 \"$1\"", &script])
                .arg(&loader)
                .status();
            assert!(written.unwrap().success());
            let program = Program { loader: Some(loader), ..program.clone() };
            assert_eq!(name_for(&program, &library), library.clone().into_os_string());
            assert_eq!(ran.exists(), is_asked, "{name}");
        }
    }
}
