//! The library under test: from this checkout, or the one that `SIGPROF_TEST_LIBRARY` names.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::built::Libraries;

/// Names a library to test instead of ours.
const OVERRIDE: &str = "SIGPROF_TEST_LIBRARY";

pub(crate) fn shared_library() -> &'static Path {
    &libraries().shared
}

pub(crate) fn static_library() -> &'static Path {
    &libraries().archive
}

/// System libraries that a program with the static library needs: those of Rust's standard library,
/// or of gperftools, which is C++ and uses libunwind.
pub(crate) fn archive_dependencies() -> &'static [&'static str] {
    match std::env::var_os(OVERRIDE) {
        Some(_) => &["-lstdc++", "-lunwind"],
        None => &["-lgcc_s", "-lutil", "-lrt", "-lm"],
    }
}

/// The include directory that has `gperftools/profiler.h`.
pub(crate) fn include_directory() -> PathBuf {
    match std::env::var_os(OVERRIDE) {
        Some(_) => system_header_directory(),
        None => repository_root().join("include"),
    }
}

/// The directory in which Debian's libgoogle-perftools-dev installs the header.
pub(crate) fn system_header_directory() -> PathBuf {
    let directory = PathBuf::from("/usr/include");
    assert!(
        directory.join("gperftools/profiler.h").exists(),
        "the header of libgoogle-perftools-dev is missing: ci/setup.sh installs it"
    );
    directory
}

pub(crate) fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is a folder of the workspace")
}

fn libraries() -> &'static Libraries {
    static LIBRARIES: OnceLock<Libraries> = OnceLock::new();
    LIBRARIES.get_or_init(|| match std::env::var_os(OVERRIDE) {
        Some(path) => named(Path::new(&path)),
        None => Libraries::find_or_build(),
    })
}

fn named(path: &Path) -> Libraries {
    let shared = path.canonicalize().unwrap_or_else(|error| panic!("{OVERRIDE}={}: {error}", path.display()));
    let archive = path.with_file_name("libprofiler.a");
    Libraries { shared, archive }
}
