//! Lookup of the library to preload.

use crate::{Error, error::ErrorKind};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Variable with the library's path, if it is not beside the command.
pub const VARIABLE: &str = "SIGPROF_LIBRARY";

/// Its file name: beside the command in a cargo build, and in `lib` if installed.
const NAMES: [&str; 2] = ["libprofiler.so", "libprofiler.so.0"];

/// Finds the library: `SIGPROF_LIBRARY`, or beside this command, or in `../lib`.
///
/// # Errors
/// If it is in none of these places.
pub fn find() -> Result<PathBuf, Error> {
    let named = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    // The command may have been started through a symbolic link.
    let own = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    find_from(named.as_deref(), &own)
}

/// As [`find`], for the command at `own`.
fn find_from(named: Option<&Path>, own: &Path) -> Result<PathBuf, Error> {
    if let Some(path) = named {
        return path.canonicalize().ok().filter(|path| path.is_file()).ok_or_else(|| {
            Error::new(ErrorKind::Request, format!("{VARIABLE} is not the name of a file"))
                .at(path)
                .advise("name libprofiler.so, or unset it")
        });
    }
    let beside = own.parent().unwrap_or(Path::new("/"));
    let directories = [beside.to_path_buf(), beside.join("../lib")];
    let places = directories.iter().flat_map(|directory| NAMES.map(|name| directory.join(name)));
    let found = places.filter_map(|path| path.canonicalize().ok()).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::Request,
            "libprofiler.so is neither beside the executable of sigprof nor in ../lib",
        )
        .at(own)
        .advise(format!("build it with `cargo build --release`, or set {VARIABLE}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn finds_the_named_library_or_one_beside_the_command_or_in_lib() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let own = root.join("bin/sigprof");
        for directory in ["bin", "lib"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        let error = find_from(None, &own).unwrap_err().to_string();
        assert!(error.contains("bin/sigprof") && error.contains(VARIABLE), "{error}");
        fs::write(root.join("lib/libprofiler.so.0"), "").unwrap();
        assert_eq!(find_from(None, &own).unwrap(), root.join("lib/libprofiler.so.0"));
        fs::write(root.join("bin/libprofiler.so"), "").unwrap();
        assert_eq!(find_from(None, &own).unwrap(), root.join("bin/libprofiler.so"));
        fs::write(root.join("another.so"), "").unwrap();
        assert_eq!(find_from(Some(&root.join("another.so")), &own).unwrap(), root.join("another.so"));
        for wrong in ["missing.so", "lib"] {
            let error = find_from(Some(&root.join(wrong)), &own).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("is not the name of a file"), "{error}");
        }
    }
}
