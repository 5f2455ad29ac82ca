//! Checks that profiles are complete.
//!
//! ```sh
//! cargo run --release --example check -- FILE...
//! cargo run --release --example check -- DIRECTORY
//! ```
//!
//! Prints the number of profiles, of samples in them, and of damaged profiles. Errors go to stderr.

use sigprof::format::CpuProfile;
use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (mut profiles, mut samples, mut broken) = (0u64, 0u128, 0u64);
    for path in env::args_os().skip(1).map(PathBuf::from) {
        for file in files(&path)? {
            profiles += 1;
            match check(&file) {
                Ok(found) => samples += found,
                Err(fault) => {
                    broken += 1;
                    eprintln!("{}: {fault}", file.display());
                }
            }
        }
    }
    println!("{profiles} {samples} {broken}");
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the files of a directory, sorted by name, or `path` itself.
fn files(path: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    files.sort();
    Ok(files)
}

/// Returns the number of samples, if all records and the list of mapped objects are complete.
fn check(path: &Path) -> Result<u128, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let profile = CpuProfile::parse(&bytes)?;
    if profile.mappings.is_empty() || !profile.unknown_lines.is_empty() || !bytes.ends_with(b"\n") {
        return Err("the list of mapped objects is incomplete".into());
    }
    Ok(profile.total_samples())
}
