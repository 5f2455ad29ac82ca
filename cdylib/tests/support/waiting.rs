//! Waits for processes that are not the test's children.

use std::path::Path;
use std::time::{Duration, Instant};

use super::process::time_limit;

/// Waits until `done` returns a value; panics shortly before the program would hang.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let (start, limit) = (Instant::now(), time_limit() * 9 / 10);
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(start.elapsed() < limit, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The only line of a file, after it has been written completely.
pub(crate) fn line_in(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.strip_suffix('\n').map(str::to_owned)
}

/// Waits until a process exits. It stays a zombie if no process reaps orphans.
#[track_caller]
pub(crate) fn wait_for_end(process: &str) {
    wait_for("the end of a process", || {
        let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
        let lives = stat.is_ok_and(|stat| !stat.contains(") Z "));
        (!lives).then_some(())
    });
}
