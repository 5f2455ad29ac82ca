//! Environment of the command.

use super::RecordOptions;
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
};

/// Paths for the processes.
pub(super) struct ProcessDirectories<'a> {
    pub(super) library: &'a OsStr,
    pub(super) spools: &'a Path,
    /// Prefix of profiles of processes without a spool.
    pub(super) target: &'a Path,
}

/// Returns the command's variables: the recorder's, without those of the library, and the options.
pub(super) fn of_command(
    own: impl Iterator<Item = (OsString, OsString)>,
    options: &RecordOptions,
    places: &ProcessDirectories<'_>,
    recorder: u32,
) -> Vec<(OsString, OsString)> {
    let mut preload = OsString::from(places.library);
    let mut variables = Vec::new();
    for (name, value) in own {
        if name == "LD_PRELOAD" {
            // sigprof's library comes first: the first of two profilers is active.
            if !value.is_empty() {
                preload.push(":");
                preload.push(value);
            }
        } else if !is_of_profiling(&name) {
            variables.push((name, value));
        }
    }
    variables.push(("LD_PRELOAD".into(), preload));
    variables.extend(settings(options).map(|(name, value)| (name.into(), value.into())));
    variables.push(("CPUPROFILE".into(), places.target.into()));
    variables.push(("CPUPROFILE_SPOOL".into(), places.spools.into()));
    for name in ALWAYS_ON {
        variables.push((name.into(), "1".into()));
    }
    if !options.children {
        variables.push(("CPUPROFILE_FOLLOW_FORK".into(), "0".into()));
        variables.push(("CPUPROFILE_CHILD_OF".into(), recorder.to_string().into()));
    }
    variables
}

/// Settings of all recordings.
const ALWAYS_ON: [&str; 5] = [
    "CPUPROFILE_KEEP_SPOOL",
    "CPUPROFILE_THREADS",
    "CPUPROFILE_USE_PID",
    "CPUPROFILE_QUIET",
    // Most processes of a build exit before their first period.
    "CPUPROFILE_RANDOM_START",
];

/// Returns the options as settings of the library.
pub(super) fn settings(options: &RecordOptions) -> impl Iterator<Item = (&'static str, String)> {
    let always = [
        ("CPUPROFILE_CLOCK", options.clock.to_string()),
        ("CPUPROFILE_FREQUENCY", options.frequency.to_string()),
        ("CPUPROFILE_MAX_DEPTH", options.depth.to_string()),
        ("CPUPROFILE_MAX_MEMORY", options.max_memory.to_string()),
    ];
    let signal = options.timer_signal.clone().map(|signal| ("CPUPROFILE_TIMER_SIGNAL", signal));
    always.into_iter().chain(signal)
}

/// True for a variable of the library: settings for other runs must not affect this one.
fn is_of_profiling(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name == b"CPUPROFILE" || name == b"CPUPROFILESIGNAL" || name.starts_with(b"CPUPROFILE_")
}

/// True if a process of this user, except zombies, was started with these `spools`.
pub(super) fn is_anyones(spools: &Path) -> bool {
    let mut entry = b"CPUPROFILE_SPOOL=".to_vec();
    entry.extend_from_slice(spools.as_os_str().as_bytes());
    let is_process = |name: &OsStr| name.as_bytes().iter().all(u8::is_ascii_digit);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    // Processes of other users cannot be read.
    processes.filter(|process| is_process(&process.file_name())).any(|process| {
        let variables = fs::read(process.path().join("environ")).unwrap_or_default();
        variables.split(|&byte| byte == 0).any(|variable| variable == entry)
    })
}

pub(super) fn entry((name, value): (OsString, OsString)) -> Vec<u8> {
    let mut entry = name.into_vec();
    entry.push(b'=');
    entry.extend_from_slice(value.as_bytes());
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read as _, Write as _},
        process::{Command, Stdio},
    };

    fn made(own: &[(&str, &str)], options: &RecordOptions) -> Vec<(String, String)> {
        let own = own.iter().map(|&(name, value)| (name.into(), value.into()));
        let places = ProcessDirectories {
            library: OsStr::new("/lib/ours.so"),
            spools: Path::new("/spools"),
            target: Path::new("/out/target"),
        };
        let text = |text: OsString| text.into_string().unwrap();
        of_command(own, options, &places, 77)
            .into_iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    fn value<'v>(variables: &'v [(String, String)], name: &str) -> Option<&'v str> {
        let mut found = variables.iter().filter(|variable| variable.0 == name);
        let value = found.next().map(|variable| variable.1.as_str());
        assert!(found.next().is_none(), "{name} is there twice");
        value
    }

    #[test]
    fn keeps_the_users_preload_after_the_library() {
        let options = RecordOptions::default();
        assert_eq!(value(&made(&[], &options), "LD_PRELOAD"), Some("/lib/ours.so"));
        assert_eq!(value(&made(&[("LD_PRELOAD", "")], &options), "LD_PRELOAD"), Some("/lib/ours.so"));
        let both = made(&[("LD_PRELOAD", "/a.so /b.so"), ("HOME", "/h")], &options);
        assert_eq!(value(&both, "LD_PRELOAD"), Some("/lib/ours.so:/a.so /b.so"));
        assert_eq!(value(&both, "HOME"), Some("/h"));
    }

    #[test]
    fn removes_settings_of_other_profiles() {
        let own = [
            ("CPUPROFILE", "mine"),
            ("CPUPROFILESIGNAL", "12"),
            ("CPUPROFILE_REALTIME", "1"),
            ("CPUPROFILE_TIMER_SIGNAL", "40"),
            ("CPUPROFILER", "kept"),
        ];
        let made = made(&own, &RecordOptions::default());
        assert_eq!(value(&made, "CPUPROFILE"), Some("/out/target"));
        assert_eq!(value(&made, "CPUPROFILER"), Some("kept"));
        for name in
            ["CPUPROFILESIGNAL", "CPUPROFILE_REALTIME", "CPUPROFILE_TIMER_SIGNAL", "CPUPROFILE_CHILD_OF"]
        {
            assert_eq!(value(&made, name), None, "{name}");
        }
    }

    #[test]
    fn finds_running_processes_by_their_spools() {
        let scratch = tempfile::tempdir().unwrap();
        let spools = scratch.path().join("spools");
        assert!(!is_anyones(&spools));
        let mut command = Command::new("cat");
        command.env("CPUPROFILE_SPOOL", &spools).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Its environment exists after exec, which an answer proves.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let seen = (is_anyones(&spools), is_anyones(scratch.path()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, (true, false), "the whole path counts");
        assert!(!is_anyones(&spools));
    }

    #[test]
    fn without_children_only_the_recorders_child_is_profiled() {
        let options = RecordOptions { children: false, ..RecordOptions::default() };
        assert_eq!(value(&made(&[], &options), "CPUPROFILE_CHILD_OF"), Some("77"));
        assert_eq!(value(&made(&[], &options), "CPUPROFILE_FOLLOW_FORK"), Some("0"));
    }
}
