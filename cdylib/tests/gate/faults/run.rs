//! One run of the application, with one fault, and its results.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;

use super::cases::Case;
use crate::support::{Finished, Linkage, Scratch, exit_code, plain, run};

/// Seconds in which each application exits on any machine, unless it hangs.
pub(crate) const TIMEOUT_SECONDS: u32 = 540;

/// The programs of one test, and their directory.
pub(crate) struct Bench {
    scratch: Scratch,
    injector: PathBuf,
    shim: PathBuf,
    app: PathBuf,
    profiler: PathBuf,
    /// Seconds after which an application hangs. On an idle machine they take a tenth of a second.
    pub(crate) timeout_seconds: u32,
    /// Additional environment variables of the application.
    pub(crate) variables: Vec<(&'static str, &'static str)>,
}

impl Bench {
    pub(crate) fn new(profiler: &Path) -> Self {
        let scratch = Scratch::new();
        let injector = scratch.compile("fault_injector.c", Linkage::None, &[]);
        let shim = scratch.compile_library("fault_shim.c", &[]);
        let app = scratch.compile("fault_app.c", Linkage::None, &[]);
        let (profiler, variables) = (profiler.to_owned(), Vec::new());
        Self { scratch, injector, shim, app, profiler, timeout_seconds: TIMEOUT_SECONDS, variables }
    }

    /// The application's output without a profiler.
    pub(crate) fn undisturbed(&self, case: &Case) -> String {
        let finished = run(plain(&self.app).args([case.name, "/nowhere/prof"]));
        assert_eq!(exit_code(finished.status), case.status, "{}", finished.stderr);
        finished.text()
    }

    /// Runs the application with the profiler and `fault`, with an older profile if `is_old_there`.
    pub(crate) fn run(&self, case: &Case, fault: &Fault, is_old_there: bool) -> Outcome {
        let directory = self.scratch.directory("run");
        // The profiler creates it.
        let spool = self.scratch.spools();
        let (profile, report) = (directory.join("prof"), self.scratch.path("report"));
        if is_old_there {
            case.names.iter().for_each(|name| make_old(&directory.join(name)));
        }
        let mut command = plain(&self.injector);
        command.env("FAULT_TIMEOUT", self.timeout_seconds.to_string());
        command.arg(&report).args(fault.arguments());
        command.arg("/usr/bin/env");
        command.arg(format!("LD_PRELOAD={} {}", self.profiler.display(), self.shim.display()));
        command.arg(format!("CPUPROFILE_SPOOL={}", spool.display()));
        command.args(["CPUPROFILE_FREQUENCY=1", "CPUPROFILE_MAX_DEPTH=4096"]);
        let variables = case.variables.iter().chain(&self.variables);
        command.args(variables.map(|(name, value)| format!("{name}={value}")));
        if case.is_started_by_environment {
            command.arg(format!("CPUPROFILE={}", profile.display()));
        }
        command.arg(&self.app).arg(case.name).arg(&profile);
        let finished = run(&mut command);
        Outcome {
            report: Report::read(&report),
            files: files_of(&directory),
            left_in_spool: if spool.exists() { files_of(&spool).len() } else { 0 },
            profile,
            finished,
        }
    }

    pub(crate) fn clear(&self) {
        for path in [self.scratch.path("run"), self.scratch.spools()].iter().filter(|path| path.exists()) {
            fs::remove_dir_all(path).expect("our own directory");
        }
        fs::remove_file(self.scratch.path("report")).expect("our own file");
    }
}

pub(crate) const OLD: &str = "an older profile";

/// Makes an older profile, an hour old: one that the program may have written itself would be kept.
fn make_old(path: &Path) {
    fs::write(path, OLD).expect("our own directory");
    let file = fs::File::options().write(true).open(path).expect("our own file");
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("our own file");
}

/// The faults of the profiler's calls.
#[derive(Clone)]
pub(crate) struct Fault {
    /// Numbers of system calls; empty for all.
    pub(crate) calls: Vec<i64>,
    pub(crate) answer: Answer,
    /// Occurrences, from 1; an empty range for none.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Whether lines to standard error fail, too.
    pub(crate) hits_lines: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Answer {
    Error(Errno),
    /// Reads or writes half of the bytes.
    Half,
}

impl Fault {
    fn arguments(&self) -> [String; 5] {
        let calls: Vec<_> = self.calls.iter().map(i64::to_string).collect();
        [
            if self.hits_lines { "lines" } else { "work" }.to_owned(),
            if calls.is_empty() { "all".to_owned() } else { calls.join(",") },
            match self.answer {
                Answer::Error(error) => (error as i32).to_string(),
                Answer::Half => "short".to_owned(),
            },
            self.first.to_string(),
            self.last.to_string(),
        ]
    }

    pub(crate) fn hits(&self, calls: &[i64]) -> bool {
        self.calls.iter().any(|call| calls.contains(call))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault_injector REPORT {}", self.arguments().join(" "))
    }
}

pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) finished: Finished,
    pub(crate) profile: PathBuf,
    pub(crate) files: BTreeMap<String, PathBuf>,
    pub(crate) left_in_spool: usize,
}

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) has_begun: bool,
    pub(crate) calls: BTreeMap<i64, u64>,
    pub(crate) answered: u64,
    pub(crate) hung: bool,
}

impl Report {
    fn read(path: &Path) -> Self {
        let mut report = Self::default();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let words: Vec<_> = line.split(' ').collect();
            let number = |i: usize| words[i].parse::<u64>().expect("a number");
            match words[0] {
                "begun" => report.has_begun = true,
                "called" => drop(report.calls.insert(number(1) as i64, number(2))),
                "answered" => report.answered = number(1),
                "hung" => report.hung = true,
                other => panic!("unknown line {other}"),
            }
        }
        report
    }
}

fn files_of(directory: &Path) -> BTreeMap<String, PathBuf> {
    let entries =
        fs::read_dir(directory).expect("our own directory").map(|entry| entry.expect("an entry").path());
    entries.map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path)).collect()
}
