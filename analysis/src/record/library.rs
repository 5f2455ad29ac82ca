//! Where the library lies that is preloaded.

use crate::{Error, error::ErrorKind};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Names the library, where it does not lie beside the command.
pub const VARIABLE: &str = "SIGPROF_LIBRARY";

/// What it is called: beside the command where cargo built both, and below `lib` where it was installed.
const NAMES: [&str; 2] = ["libprofiler.so", "libprofiler.so.0"];

/// Finds the library: the one that `SIGPROF_LIBRARY` names, or else beside this command, or else in `../lib`.
///
/// # Errors
/// Where it is in none of these places.
pub fn find() -> Result<PathBuf, Error> {
    let named = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    // The command may have been called by a link.
    let own = env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    find_from(named.as_deref(), &own)
}

/// The same, for the command at `own`.
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
    fn it_is_the_named_one_or_beside_the_command_or_in_lib() {
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
