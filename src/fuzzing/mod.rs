//! The fuzz targets (`fuzz/`), which panic if they find a fault, and a test that replays inputs.

mod environment;
mod frame_files;
mod profiles;
mod recovery;

/// The function of a target.
pub type FuzzTarget = fn(&[u8]);

/// All targets by name, as in `fuzz/targets/`.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    #[cfg(any(target_arch = "x86_64", fuzzing))]
    ("cfi", crate::sample::unwind::trial::any_bytes),
    ("environment", environment::any_bytes),
    ("frame_files", frame_files::any_bytes),
    ("maps", profiles::any_maps),
    ("profile_reader", profiles::any_profile),
    ("profile_writer", profiles::any_records),
    ("recover", recovery::any_bytes),
    ("spool", crate::recover::trial::any_input),
];

/// Runs a target.
///
/// # Panics
/// If the target finds a fault, or does not exist.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.0 == name);
    target.expect("a target of this name").1(bytes);
}

/// A temporary directory, in memory if possible; dropping the value removes it.
struct Room(std::path::PathBuf);

impl Room {
    fn new() -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let memory = std::path::PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("sigprof-fuzz-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a fresh directory");
        Self(path)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        // The package sigprof-analysis replays its own targets.
        names.retain(|name| !name.starts_with("analysis_"));
        names.sort();
        names
    }

    /// Replays the seeds, the corpus and past failures of a target; returns the number of inputs.
    fn replay(name: &str) -> usize {
        let mut inputs = 0;
        for kind in ["seeds", "corpora", "regressions"] {
            let directory = folder(kind).join(name);
            if !directory.is_dir() {
                assert_eq!(kind, "regressions", "{name} has no {kind}");
                continue;
            }
            for file in names(&directory) {
                // Identifies the input of a failure.
                println!("{kind}/{name}/{file}");
                run(name, &fs::read(directory.join(file)).unwrap());
                inputs += 1;
            }
        }
        inputs
    }

    #[cfg(target_arch = "x86_64")]
    macro_rules! replayed {
        ($($target:ident)*) => {
            $(#[test]
            fn $target() {
                assert!(replay(stringify!($target)) > 4);
            })*

            #[test]
            fn every_target_is_replayed() {
                let replayed = [$(stringify!($target)),*];
                assert_eq!(names(&folder("targets")), replayed.map(|name| format!("{name}.rs")));
                assert_eq!(names(&folder("seeds")), replayed);
                assert_eq!(names(&folder("corpora")), replayed);
                for name in names(&folder("regressions")) {
                    assert!(replayed.contains(&name.as_str()), "{name} is no target");
                }
                for (name, _) in TARGETS {
                    assert!(replayed.contains(name), "{name} is not replayed");
                }
            }
        };
    }

    // The inputs of `cfi` are x86-64 sections, so the complete list is checked there only.
    #[cfg(target_arch = "x86_64")]
    replayed!(cfi environment frame_files maps profile_reader profile_writer recover spool);
    #[cfg(not(target_arch = "x86_64"))]
    mod other {
        use super::*;
        #[test]
        fn replays_all_targets_except_frame_information() {
            for (name, _) in TARGETS {
                assert!(replay(name) > 4, "{name}");
            }
        }
    }
}
