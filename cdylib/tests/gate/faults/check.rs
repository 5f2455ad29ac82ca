//! Checks that each run must pass, whichever calls failed.

use std::fs;
use std::path::Path;

use nix::errno::Errno;

use super::cases::Case;
use super::run::{Answer, Fault, OLD, Outcome};
use crate::support::{Finished, Profile, exit_code};

/// Returns the first fault of a run, if any.
pub(crate) fn check(case: &Case, fault: &Fault, undisturbed: &str, outcome: &Outcome) -> Result<(), String> {
    let Outcome { report, finished, files, .. } = outcome;
    let holds = |condition: bool, otherwise: String| if condition { Ok(()) } else { Err(otherwise) };
    holds(report.has_begun, "the profiler's library was not initialised".to_owned())?;
    holds(!report.hung, "the program hangs".to_owned())?;
    check_end(case, fault, undisturbed, finished)?;
    let is_missing = check_profiles(case, fault, outcome)?;

    // A file that cannot be removed remains, and so does one that may be another file.
    let may_stay = fault.hits(&[libc::SYS_unlinkat]) || fault.hits(STATUS);
    for name in files.keys() {
        let is_profile =
            case.names.contains(&name.as_str()) || is_numbered(case, name) || name.starts_with(CHILD);
        holds(is_profile || may_stay && name.starts_with(".sigprof-"), format!("the file {name} is left"))?;
    }
    // If a profile could not be written, the spool is kept for recovery.
    let may_be_kept = may_stay || is_missing;
    holds(outcome.left_in_spool == 0 || may_be_kept, "files are left in the spool".to_owned())
}

/// Output and status are as undisturbed, except for failed calls that the program reports.
fn check_end(case: &Case, fault: &Fault, undisturbed: &str, finished: &Finished) -> Result<(), String> {
    let mut expected = (case.status, undisturbed.to_owned());
    if let (Answer::Error(error), 1) = (fault.answer, fault.first) {
        if fault.hits(FORKS) {
            expected.1 = undisturbed.replace("the child ended with 7", &format!("no child: {error:?}"));
        } else if fault.hits(EXECS) && case.status == 0 {
            expected = (3, format!("no program: {error:?}\ndone\n"));
        } else if fault.hits(EXECS) {
            expected.1 = undisturbed.replace("no program: ENOENT", &format!("no program: {error:?}"));
        }
    }
    // A failed close leaves it open, and a descriptor that may be the program's is not closed.
    let may_stay_open = fault.hits(&[libc::SYS_close, libc::SYS_fcntl]) || fault.hits(STATUS);
    let text = finished.text();
    let text = if may_stay_open { text.replace("files are left open\n", "") } else { text };
    let ended = (exit_code(finished.status), text);
    if ended == expected {
        return Ok(());
    }
    Err(format!("the program ends with {ended:?} instead of {expected:?}: {}", finished.stderr))
}

/// Calls that return a file's status.
const STATUS: &[i64] = &[libc::SYS_newfstatat, libc::SYS_fstat, libc::SYS_statx];

/// Calls of the program itself that count with the profiler's: a failure must reach it.
const FORKS: &[i64] = &[libc::SYS_clone, libc::SYS_clone3];
const EXECS: &[i64] = &[libc::SYS_execve];

/// The prefix of a forked child's profile.
const CHILD: &str = "prof_";

/// Checks that each profile is complete, or a line says why it is missing; true if one is missing.
fn check_profiles(case: &Case, fault: &Fault, outcome: &Outcome) -> Result<bool, String> {
    let Outcome { finished, files, .. } = outcome;
    let lines: Vec<_> = finished.stderr.lines().filter(|line| !line.starts_with("PROFILE: ")).collect();
    let path = outcome.profile.to_str().expect("UTF-8");
    let cause = match fault.answer {
        Answer::Error(error) => description(error),
        Answer::Half => String::new(),
    };
    for line in &lines {
        let names_path =
            [path, "CPUPROFILESIGNAL=", "CPUPROFILE_SPOOL=", SPOOL_CUT].iter().any(|it| line.contains(it));
        let names_cause = line.contains(&cause) || [LOST, SPOOL_CUT].iter().any(|it| line.contains(it));
        if !names_path || !names_cause {
            return Err(format!("the line does not name the path and {cause:?}: {line}"));
        }
    }
    let is_overcome = matches!(fault.answer, Answer::Half | Answer::Error(Errno::EINTR));
    if is_overcome && !lines.is_empty() {
        return Err(format!("there was no reason to give up: {}", finished.stderr));
    }
    let reports = |of: &str| {
        let is_reported = fault.hits_lines || lines.iter().any(|line| line.contains(of));
        if is_reported {
            Ok(())
        } else {
            Err(format!("{of:?} is missing, and no line says so: {}", finished.stderr))
        }
    };
    let mut is_missing = false;
    let complete =
        |name: &str| is_complete(&outcome.profile.with_file_name(name), case.ticks, case.stages, finished);
    // A file that the process may have written itself is kept, and another name used.
    let mut others = files.keys().filter(|name| is_numbered(case, name));
    for name in case.names {
        if !complete(name)? && others.next().is_none_or(|other| complete(other) != Ok(true)) {
            is_missing = true;
        }
    }
    let mut is_child_missing = false;
    let child = files.iter().find(|(name, _)| name.starts_with(CHILD)).map(|(_, path)| path);
    if let Some(ticks) = case.ticks_of_child.filter(|_| finished.text().contains("child ended")) {
        let is_there = child.is_some_and(|path| path.exists())
            && is_complete(child.expect("just seen"), ticks, &[], finished)?;
        is_child_missing = !is_there;
        // A program that was never profiled has no profiled children.
        if is_child_missing && !is_missing {
            reports(CHILD)?;
        }
    }
    if is_missing {
        let is_toggle = lines.iter().any(|line| line.contains("CPUPROFILESIGNAL="));
        reports(if is_toggle { "CPUPROFILESIGNAL=" } else { "no profile " })?;
    }
    Ok(is_missing || is_child_missing)
}

/// Whether a file has a profile's name with an unexpected number.
fn is_numbered(case: &Case, name: &str) -> bool {
    let number = name.strip_prefix("prof.").and_then(|number| number.parse::<u32>().ok());
    number.is_some() && !case.names.contains(&name)
}

fn description(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The message about a spool that continues in anonymous memory.
const SPOOL_CUT: &str = "the spool was full";

/// The message about a profile without mappings, and so without names.
const NO_LIST: &str = "no list of mapped files in the profile at ";

/// The text after the number of ticks that a profile lacks.
const LOST: &str = " lost for the profile at ";

/// True for a profile with all ticks, except those that are counted as lost; false for none, an
/// older one, or one that was written before the exit.
fn is_complete(path: &Path, ticks: usize, stages: &[usize], finished: &Finished) -> Result<bool, String> {
    if !path.exists() || fs::read(path).is_ok_and(|bytes| bytes == OLD.as_bytes()) {
        return Ok(false);
    }
    let says_so = |line: &str| line.contains(NO_LIST) && line.contains(path.to_str().expect("UTF-8"));
    let samples = match Profile::try_read(path) {
        Ok(profile) => profile.samples(),
        Err(_) if finished.stderr.lines().any(says_so) => Profile::samples_without_list(path),
        Err(fault) => return Err(format!("{}: {fault}", path.display())),
    };
    let accounts_for_all = |line: &str| {
        // In the summary line, or, without one, before another program.
        let lost = match line.rsplit_once('(') {
            Some((_, rest)) if line.contains(&format!("= {samples}/0/")) => rest.strip_suffix(" lost)"),
            _ => line.strip_prefix("sigprof: ").and_then(|rest| rest.split_once(LOST)).map(|(lost, _)| lost),
        };
        lost.and_then(|lost| lost.parse::<usize>().ok()).is_some_and(|lost| samples + lost == ticks)
    };
    if samples == ticks || finished.stderr.lines().any(accounts_for_all) {
        Ok(true)
    } else if stages.contains(&samples) {
        Ok(false)
    } else {
        Err(format!("{} has {samples} of {ticks} ticks: {}", path.display(), finished.stderr))
    }
}
