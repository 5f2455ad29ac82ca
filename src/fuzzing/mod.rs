//! The bodies of the fuzz targets (`fuzz/`), for them and for the test that replays their inputs; in no other build.
//!
//! Each takes any bytes and panics where something is not as it must be.

mod environment;
mod frame_files;
mod profiles;
mod recovery;

/// A target's body.
pub type Target = fn(&[u8]);

/// All targets by name, as in `fuzz/targets/`.
pub const TARGETS: &[(&str, Target)] = &[
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

/// Runs a target's body.
///
/// # Panics
/// Where it finds something, and where there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.0 == name);
    target.expect("a target of this name").1(bytes);
}

/// A file of its own for a body that needs one, in memory where that is to be had; gone with the value.
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

    /// The names in a directory, but for those of the targets that the package `sigprof-analysis` has, and replays.
    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with("analysis_"));
        names.sort();
        names
    }

    /// Replays what a target begins with, what reached new code and what once failed; gives the number of inputs.
    fn replay(name: &str) -> usize {
        let mut inputs = 0;
        for kind in ["seeds", "corpora", "regressions"] {
            let directory = folder(kind).join(name);
            if !directory.is_dir() {
                assert_eq!(kind, "regressions", "{name} has no {kind}");
                continue;
            }
            for file in names(&directory) {
                // The name of an input that fails is the last one written.
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

            /// A target that is added is replayed, and its inputs are not left behind when it goes.
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

    // On other machines the sections of `cfi`'s inputs mean nothing; the list below is complete where it is run.
    #[cfg(target_arch = "x86_64")]
    replayed!(cfi environment frame_files maps profile_reader profile_writer recover spool);
    #[cfg(not(target_arch = "x86_64"))]
    mod other {
        use super::*;
        #[test]
        fn all_but_frame_information() {
            for (name, _) in TARGETS {
                assert!(replay(name) > 4, "{name}");
            }
        }
    }
}
