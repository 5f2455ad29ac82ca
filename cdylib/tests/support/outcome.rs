//! Checks of the results of programs under the profiler.

use std::path::Path;

use super::process::{Finished, exit_code};
use super::profile::Profile;

#[track_caller]
pub(crate) fn expect_status(finished: &Finished, status: i32) {
    let text = finished.text();
    assert_eq!(exit_code(finished.status), status, "stdout: {text}\nstderr: {}", finished.stderr);
}

/// Panics unless the program exited with status 3, as without a profiler.
#[track_caller]
pub(crate) fn expect_unharmed(finished: &Finished) {
    let text = finished.text();
    assert_eq!(exit_code(finished.status), 3, "the application was harmed: {text}{}", finished.stderr);
}

/// Panics unless the status is 3, the only line is the summary line, and the profile is written.
#[track_caller]
pub(crate) fn expect_profile(finished: &Finished, path: &Path, samples: usize) {
    expect_unharmed(finished);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{}", finished.stderr);
    assert_eq!(Profile::read(path).samples(), samples, "samples were lost");
}

/// Panics unless standard error is one line with the path and the reason.
#[track_caller]
pub(crate) fn expect_one_line(finished: &Finished, path: &Path, reason: &str) {
    let line = only_line(finished, path);
    assert!(line.to_lowercase().contains(reason), "not {reason:?}: {line}");
}

/// Panics unless the status is 3, and standard error is one line with the path and these words.
#[track_caller]
pub(crate) fn expect_words(finished: &Finished, path: &Path, words: &[&str]) {
    expect_unharmed(finished);
    let line = only_line(finished, path);
    for word in words {
        assert!(line.contains(word), "not {word:?}: {line}");
    }
}

/// The only line on standard error, which must have the path in it.
#[track_caller]
fn only_line<'f>(finished: &'f Finished, path: &Path) -> &'f str {
    let [line] = finished.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("not one line: {:?}", finished.stderr)
    };
    assert!(line.contains(path.to_str().expect("a path in UTF-8")), "no path in: {line}");
    line
}

/// Panics unless a run with statistics exited with status 0, no process lost a tick, and none found
/// a handler that never returned.
#[track_caller]
pub(crate) fn expect_success_without_loss(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    for line in finished.complaints() {
        if line.starts_with("sigprof: thread: ") {
            continue;
        }
        assert!(line.starts_with("sigprof: statistics: "), "{line}");
        for nothing in [" no_slot=0 ", " table_full=0 ", " stuck_handlers=0 "] {
            assert!(line.contains(nothing), "not {nothing:?}: {line}");
        }
    }
}
