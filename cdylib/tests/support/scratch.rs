//! A directory for one test, and the programs compiled into it.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use super::compiled;
use super::library::{archive_dependencies, include_directory, shared_library, static_library};
use super::process::{run, tool};

/// The names for which a linker and a loader search.
const LIBRARY_NAMES: [&str; 2] = ["libprofiler.so", "libprofiler.so.0"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// It is profiled by preloading, or not at all.
    None,
    /// `-lprofiler`, resolved to the shared library under test.
    Shared,
    Static,
}

/// A directory that is removed when the test ends.
pub(crate) struct Scratch {
    directory: TempDir,
    memory: OnceCell<TempDir>,
}

fn temporary_directory() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    static PREFIX: LazyLock<String> = LazyLock::new(|| {
        // `ci/run_tests.py` finds leftover files by this name.
        std::env::var("SIGPROF_TEST_RUN").unwrap_or_else(|_| "sigprof-test".to_owned()) + "-"
    });
    builder.prefix(&**PREFIX);
    builder
}

/// Removes the spools of programs that were killed before they could write their profiles here.
impl Drop for Scratch {
    fn drop(&mut self) {
        let found = sigprof::recover::spools(&sigprof::recover::default_directory()).unwrap_or_default();
        for spool in found.spools.iter().filter(|spool| spool.target().starts_with(self.root())) {
            let _ = spool.discard();
        }
    }
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = temporary_directory().tempdir().expect("a temporary directory");
        Self { directory, memory: OnceCell::new() }
    }

    /// A path of a spool directory, which the profiler creates: in memory, as by default, if the
    /// system has a place for it. It is removed with this directory.
    pub(crate) fn spools(&self) -> PathBuf {
        let make = || temporary_directory().tempdir_in("/dev/shm");
        let memory = self.memory.get_or_init(|| {
            make().or_else(|_| temporary_directory().tempdir()).expect("a temporary directory")
        });
        memory.path().join("spools")
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Gives other users access. They can write here, and their programs find the library that they
    /// are linked with.
    pub(crate) fn open_to_all(&self) {
        fs::set_permissions(self.root(), Permissions::from_mode(0o777)).expect("our own directory");
        for name in LIBRARY_NAMES {
            let link = self.path("lib").join(name);
            if link.exists() {
                fs::remove_file(&link).expect("our own link");
                fs::copy(shared_library(), &link).expect("the library can be copied");
            }
        }
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        names_in(self.root(), prefix)
    }

    /// Compiles `programs/<source>`, with warnings as errors, into a program of the same stem.
    pub(crate) fn compile(&self, source: &str, linkage: Linkage, flags: &[&str]) -> PathBuf {
        let program = self.path(Path::new(source).file_stem().and_then(OsStr::to_str).expect("a plain name"));
        let mut compiler = compiler_for(source);
        compiler.args(flags).arg(program_source(source));
        match linkage {
            Linkage::None => {}
            Linkage::Shared => self.link_shared(&mut compiler),
            Linkage::Static => link_static(&mut compiler),
        }
        compiler.args(["-lpthread", "-ldl"]);
        self.run_compiler(compiler, linkage, &program);
        program
    }

    /// Compiles `programs/<source>` into the shared library `lib<stem>.so`.
    pub(crate) fn compile_library(&self, source: &str, flags: &[&str]) -> PathBuf {
        self.compile_library_with(source, Linkage::None, flags)
    }

    /// The same, with the static library inside if `linkage` is `Static`.
    pub(crate) fn compile_library_with(&self, source: &str, linkage: Linkage, flags: &[&str]) -> PathBuf {
        let stem = Path::new(source).file_stem().and_then(OsStr::to_str).expect("a plain name");
        let library = self.path(&format!("lib{stem}.so"));
        let mut compiler = compiler_for(source);
        compiler.args(["-shared", "-fPIC"]).args(flags).arg(program_source(source));
        if linkage == Linkage::Static {
            link_static(&mut compiler);
        }
        compiler.args(["-lpthread", "-ldl"]);
        self.run_compiler(compiler, linkage, &library);
        library
    }

    /// Makes `output` by `compiler`, unless it exists already. Our library changes with each build.
    fn run_compiler(&self, mut compiler: Command, linkage: Linkage, output: &Path) {
        if linkage == Linkage::None {
            compiled::compile(&mut compiler, output, self.root());
        } else {
            compiled::compile_anew(&mut compiler, output);
        }
    }

    /// Makes the shared library available under both names for which a linker and a loader search.
    fn link_shared(&self, compiler: &mut Command) {
        let directory = self.path("lib");
        if !directory.exists() {
            self.directory("lib");
            for name in LIBRARY_NAMES {
                std::os::unix::fs::symlink(shared_library(), directory.join(name)).expect("a symbolic link");
            }
        }
        compiler.arg("-L").arg(&directory).arg(format!("-Wl,-rpath,{}", directory.display()));
        compiler.args(["-Wl,--no-as-needed", "-lprofiler"]);
    }
}

/// The names in `directory` that begin with `prefix`, sorted.
pub(crate) fn names_in(directory: &Path, prefix: &str) -> Vec<String> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a directory entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

pub(crate) fn program_source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Panics if a program's source does not compile; every warning is an error.
pub(crate) fn check_syntax(source: &Path) {
    let name = source.to_str().expect("a plain path");
    run(compiler_for(name).arg("-fsyntax-only").arg(source)).expect_success();
}

fn compiler_for(source: &str) -> Command {
    let (compiler, standard) = match Path::new(source).extension().and_then(OsStr::to_str) {
        Some("c") => ("gcc", "-std=c11"),
        Some("cc") => ("g++", "-std=c++17"),
        other => panic!("no compiler for {other:?} files"),
    };
    let mut command = tool(compiler);
    command.args([standard, "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg("-I").arg(include_directory());
    command
}

fn link_static(compiler: &mut Command) {
    compiler.arg(static_library()).args(archive_dependencies());
}
