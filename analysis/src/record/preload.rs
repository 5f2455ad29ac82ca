//! The library's path in LD_PRELOAD, if possible one that glibc's loader finds and musl's does not.
//!
//! musl's loader fails if it opens the library, which needs symbols of glibc; it ignores a missing
//! file. glibc's loader replaces `${LIB}` by its library directory (ld.so(8), "Dynamic string
//! tokens"), musl's does not. So the path leads through that directory, and up again:
//!
//! ```text
//! /usr/${LIB}/../../../../../../../../home/me/lib/libprofiler.so
//!      lib/x86_64-linux-gnu, lib64, lib   glibc: /home/me/lib/libprofiler.so, as in its maps
//!      ${LIB}                             musl: no such directory
//!      (nothing)                          a shell or make that expands it again: the plain path
//! ```
//!
//! Through `/usr`, which minimal sandboxes have if `/lib` is missing; otherwise through the root.

use super::program::Program;
use std::{
    ffi::{OsStr, OsString},
    io::Read as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
    process::{Command, Stdio},
};

/// Up to the root, which is its own parent, even if `/lib64` is a link to a deeper directory.
const UP: &str = "/../../../../../../../..";

/// Limit of a loader's output.
const MAX_LISTED: u64 = 1 << 20;

/// True for a path that is valid in LD_PRELOAD: no separators (spaces, colons) or dollar signs.
pub(super) fn is_possible(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte) || byte.is_ascii_whitespace())
}

/// Returns the library's absolute path for LD_PRELOAD, for a program and its children: one that
/// only glibc's loader finds, if the program's loader does, otherwise the plain path.
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

/// True for an absolute path with a file name of glibc's loader: others do not support `--list`.
fn is_of_glibc(loader: &Path) -> bool {
    if !loader.is_absolute() {
        return false;
    }
    let name = loader.file_name().unwrap_or_default().as_bytes();
    [&b"ld-linux"[..], b"ld64.so", b"ld.so"].iter().any(|start| name.starts_with(start))
}

/// Whether a loader, with this LD_PRELOAD, would map the library for a program. Lists the files as
/// ldd(1) does; of the program only DT_AUDIT libraries are run.
fn finds(loader: &Path, binary: &Path, name: &OsStr, library: &Path) -> bool {
    let mut command = Command::new(loader);
    command.arg("--list").arg(binary).env_clear().env("LD_PRELOAD", name);
    // Errors of the program are reported when it runs.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let mut list = Vec::new();
    let read = child.stdout.take().map(|out| out.take(MAX_LISTED).read_to_end(&mut list));
    // Fails if the recorder was started with SIGCHLD ignored.
    let _ = child.wait();
    // An address follows, unless the file is not found.
    let path = [UP.as_bytes(), library.as_os_str().as_bytes(), b" (0x"].concat();
    matches!(read, Some(Ok(_))) && list.windows(path.len()).any(|part| part == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::PathBuf};

    /// This program, and a library that its loader can preload.
    fn own() -> (Program, PathBuf) {
        let own = std::env::current_exe().unwrap();
        let program = super::super::program::find(own.as_os_str(), None, &own).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps.lines().find(|line| line.contains("libc.so.6")).expect("it is dynamic");
        let library = PathBuf::from(&library[library.find('/').unwrap()..]);
        (program, library)
    }

    #[test]
    fn refuses_paths_with_space_colon_or_dollar_sign() {
        for (path, can) in [("/a/b.so", true), ("/a b.so", false), ("/a:b.so", false), ("/$LIB/b.so", false)]
        {
            assert_eq!(is_possible(Path::new(path)), can, "{path}");
        }
    }

    #[test]
    fn uses_a_guarded_path_only_if_the_loader_finds_it() {
        let (program, library) = own();
        let guarded = format!("/usr/${{LIB}}{UP}{}", library.display());
        assert_eq!(name_for(&program, &library), OsString::from(&guarded));
        let missing = library.with_file_name("no-such-library.so");
        assert_eq!(name_for(&program, &missing), missing.clone().into_os_string());
        // A program without such a directory.
        let (loader, binary) = (program.loader.clone().unwrap(), program.binary.clone());
        let elsewhere = guarded.replace("/usr/${LIB}", "/no-such-directory");
        assert!(finds(&loader, &binary, guarded.as_ref(), &library));
        assert!(!finds(&loader, &binary, elsewhere.as_ref(), &library));
        for loader in [None, Some(PathBuf::from("/no/such/ld-linux.so.2"))] {
            let program = Program { loader, ..program.clone() };
            assert_eq!(name_for(&program, &library), library.clone().into_os_string());
        }
    }

    /// The loader is a script, which shows whether it was run.
    #[test]
    fn does_not_run_a_loader_that_may_not_be_glibcs() {
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
            // Written by another process: another test's child may inherit a descriptor (ETXTBSY).
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
