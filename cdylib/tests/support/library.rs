//! The library under test: always freshly built, or named by `SIGPROF_TEST_LIBRARY`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Names a library to test instead of ours.
const OVERRIDE: &str = "SIGPROF_TEST_LIBRARY";

/// The two libraries that one build makes.
struct Libraries {
    shared: PathBuf,
    archive: PathBuf,
}

/// The absolute path of the shared library.
pub(crate) fn shared_library() -> &'static Path {
    &libraries().shared
}

/// The absolute path of the static library.
pub(crate) fn static_library() -> &'static Path {
    &libraries().archive
}

/// What a program that links the static library needs besides: the system libraries of Rust's standard library, or
/// those of the incumbent, which is C++ and unwinds with libunwind.
pub(crate) fn archive_dependencies() -> &'static [&'static str] {
    match std::env::var_os(OVERRIDE) {
        Some(_) => &["-lstdc++", "-lunwind"],
        None => &["-lgcc_s", "-lutil", "-lrt", "-lm"],
    }
}

/// The folder to put on a compiler's include path for `gperftools/profiler.h`.
pub(crate) fn include_directory() -> PathBuf {
    match std::env::var_os(OVERRIDE) {
        Some(_) => system_header_directory(),
        None => repository_root().join("include"),
    }
}

/// Where Debian's libgoogle-perftools-dev puts the incumbent's header.
pub(crate) fn system_header_directory() -> PathBuf {
    let directory = PathBuf::from("/usr/include");
    assert!(
        directory.join("gperftools/profiler.h").exists(),
        "the header of libgoogle-perftools-dev is missing: ci/setup.sh installs it"
    );
    directory
}

/// The root of the workspace.
pub(crate) fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is a folder of the workspace")
}

fn libraries() -> &'static Libraries {
    static LIBRARIES: OnceLock<Libraries> = OnceLock::new();
    LIBRARIES.get_or_init(|| match std::env::var_os(OVERRIDE) {
        Some(path) => named(Path::new(&path)),
        None => build(),
    })
}

fn named(path: &Path) -> Libraries {
    let shared = path.canonicalize().unwrap_or_else(|error| panic!("{OVERRIDE}={}: {error}", path.display()));
    let archive = path.with_file_name("libprofiler.a");
    Libraries { shared, archive }
}

/// Asks cargo for an up-to-date library; a build already done costs a fraction of a second, and cargo's own lock
/// serves the test processes that ask at the same time.
fn build() -> Libraries {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "sigprof-cdylib", "--lib", "--message-format=json"])
        .current_dir(repository_root())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo could not build the shared library");
    let messages = String::from_utf8(output.stdout).expect("cargo's messages are UTF-8");
    Libraries {
        shared: artifact(&messages, "/libprofiler.so"),
        archive: artifact(&messages, "/libprofiler.a"),
    }
}

/// The path in cargo's messages that ends in `name`: paths are JSON strings, hence between quotes.
fn artifact(messages: &str, name: &str) -> PathBuf {
    let path = messages.split('"').find(|text| text.ends_with(name));
    PathBuf::from(path.unwrap_or_else(|| panic!("cargo reported no artifact {name}")))
}
