//! Compiled programs of earlier tests: most tests use the same few.
//!
//! They are kept in cargo's temporary directory for tests, under a hash of everything that
//! determines them.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

use super::library::include_directory;
use super::process::{run, tool};
use super::scratch::program_source;

/// Runs `compiler`, which writes `output`, a file in `root`, or copies the result of the same
/// command.
///
/// A command that contains `root` always runs, because its result may contain the path. The hash
/// omits library directories.
pub(super) fn compile(compiler: &mut Command, output: &Path, root: &Path) {
    let root = root.to_str().expect("a plain path");
    let words: Vec<&str> = std::iter::once(compiler.get_program())
        .chain(compiler.get_args())
        .map(|word| word.to_str().expect("a plain word"))
        .filter(|word| !word.starts_with("-L"))
        .collect();
    let is_of_root = words.iter().any(|word| word.contains(root));
    if is_of_root {
        return compile_anew(compiler, output);
    }
    let kept = directory().join(format!("{:016x}", hash(&words)));
    if kept.exists() {
        return copy(&kept, output);
    }
    compile_anew(compiler, output);
    if sources() != *SOURCES {
        // The sources are being edited: it is unknown which version was compiled.
        return;
    }
    fs::create_dir_all(directory()).expect("cargo's directory for tests");
    // Complete or missing, even if another process writes it too.
    let part = tempfile::Builder::new().tempdir_in(directory()).expect("cargo's directory for tests");
    copy(output, &part.path().join("part"));
    fs::rename(part.path().join("part"), &kept).expect("our own file");
}

pub(super) fn compile_anew(compiler: &mut Command, output: &Path) {
    let finished = run(compiler.arg("-o").arg(output));
    assert!(finished.status.success(), "{compiler:?} failed:\n{}", finished.stderr);
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled")
}

/// Copies by another process: if this one wrote a program, it could not be executed while a child
/// that another thread forked has it open.
fn copy(from: &Path, to: &Path) {
    run(tool("cp").args(["--remove-destination", "--"]).arg(from).arg(to)).expect_success();
}

/// Changes with each source file that may be compiled.
static SOURCES: LazyLock<u64> = LazyLock::new(sources);

fn sources() -> u64 {
    let mut hasher = DefaultHasher::new();
    for directory in [program_source(""), include_directory().join("gperftools")] {
        hash_files(&directory, &mut hasher)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    }
    hasher.finish()
}

/// Changes with the command, the sources, and the compiler.
fn hash(words: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (words, *SOURCES, changed(words[0])).hash(&mut hasher);
    hasher.finish()
}

fn hash_files(directory: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        path.hash(hasher);
        if path.is_dir() {
            hash_files(&path, hasher)?;
        } else {
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}

/// The compiler's file in PATH, its date, and its version text: the file may be a wrapper of
/// another compiler.
fn changed(compiler: &str) -> (PathBuf, SystemTime, String) {
    let path = std::env::var_os("PATH").expect("it was found there");
    let places = std::env::split_paths(&path).map(|directory| directory.join(compiler));
    let found = places.filter_map(|place| place.canonicalize().ok()).next().expect("it was found there");
    let modified = fs::metadata(&found).and_then(|status| status.modified()).expect("a program has a date");
    (found, modified, run(tool(compiler).arg("--version")).expect_success().text())
}
