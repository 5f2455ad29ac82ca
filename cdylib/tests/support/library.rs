//! The library under test: as this checkout builds it, or another one, which `SIGPROF_TEST_LIBRARY` names.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::built::Libraries;

/// Names a library to test instead of ours.
const OVERRIDE: &str = "SIGPROF_TEST_LIBRARY";

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
        None => Libraries::find_or_build(),
    })
}

fn named(path: &Path) -> Libraries {
    let shared = path.canonicalize().unwrap_or_else(|error| panic!("{OVERRIDE}={}: {error}", path.display()));
    let archive = path.with_file_name("libprofiler.a");
    Libraries { shared, archive }
}
