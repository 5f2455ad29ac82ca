//! The shared and the static library, built by cargo, which tests preload and link.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory of both libraries: `ci/run_tests.py` builds them once and sets the variable.
const DIRECTORY: &str = "SIGPROF_TEST_BUILT";

pub(crate) struct Libraries {
    pub(crate) shared: PathBuf,
    pub(crate) archive: PathBuf,
}

impl Libraries {
    /// Returns the libraries in `SIGPROF_TEST_BUILT`. If it is unset, cargo builds them; cargo's
    /// lock orders test processes that build at the same time.
    pub(crate) fn find_or_build() -> Self {
        match std::env::var_os(DIRECTORY) {
            Some(directory) => {
                let file = |name: &str| {
                    let path = Path::new(&directory).join(name);
                    path.canonicalize()
                        .unwrap_or_else(|error| panic!("{DIRECTORY}: {}: {error}", path.display()))
                };
                Self { shared: file("libprofiler.so"), archive: file("libprofiler.a") }
            }
            None => Self::build(),
        }
    }

    fn build() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["build", "--release", "--package", "sigprof-cdylib", "--lib", "--message-format=json"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stderr(Stdio::inherit())
            .output()
            .expect("cargo starts");
        assert!(output.status.success(), "cargo could not build the shared library");
        let messages = String::from_utf8(output.stdout).expect("cargo's messages are UTF-8");
        Self {
            shared: artifact(&messages, "/libprofiler.so"),
            archive: artifact(&messages, "/libprofiler.a"),
        }
    }
}

/// Finds the path that ends in `name` in cargo's messages, in which paths are JSON strings.
fn artifact(messages: &str, name: &str) -> PathBuf {
    let path = messages.split('"').find(|text| text.ends_with(name));
    PathBuf::from(path.unwrap_or_else(|| panic!("cargo reported no artifact {name}")))
}
