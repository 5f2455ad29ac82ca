//! Files from the servers in `DEBUGINFOD_URLS` (debuginfod(8)), by debuginfod-find(1), which caches
//! them (debuginfod-client-config(7)).

use crate::text::printable;
use std::{
    env,
    ffi::OsStr,
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const URLS: &str = "DEBUGINFOD_URLS";
const PROGRAM: &str = "debuginfod-find";

/// Default limits: seconds that a server may be silent, seconds for a file, retries.
const LIMITS: [(&str, &str); 3] =
    [("DEBUGINFOD_TIMEOUT", "10"), ("DEBUGINFOD_MAXTIME", "300"), ("DEBUGINFOD_RETRY_LIMIT", "0")];

/// Limit for the time of failures. Fast failures do not prevent retries: other files may be cached.
const MAX_FAILURE_TIME: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// The debug information that was stripped from a binary.
    DebugFile,
    Binary,
}

/// Servers of debug files.
#[derive(Clone, Debug)]
pub struct Servers {
    program: PathBuf,
    failures: Arc<Mutex<Failures>>,
    waits: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Failures {
    reason: Option<String>,
    time: Duration,
}

impl Servers {
    /// Returns the servers of the environment; None if there are none.
    pub fn from_environment() -> Option<Self> {
        let urls = env::var_os(URLS)?;
        let is_blank = urls.as_bytes().trim_ascii().is_empty();
        (!is_blank).then(|| Self { program: PROGRAM.into(), failures: Arc::default(), waits: Arc::default() })
    }

    /// Returns the file in the user's cache; None if no server has it, or the request failed.
    pub(super) fn find(&self, kind: FileKind, build_id: &str) -> Option<PathBuf> {
        // Other IDs, such as Go's, are unknown to servers.
        let is_id = !build_id.is_empty() && build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id || self.failures().time >= MAX_FAILURE_TIME {
            return None;
        }
        self.waits.fetch_add(1, Ordering::Relaxed);
        let since = Instant::now();
        let answer = self.ask(kind, build_id);
        self.waits.fetch_sub(1, Ordering::Relaxed);
        answer.unwrap_or_else(|reason| {
            let mut failures = self.failures();
            failures.reason.get_or_insert(reason);
            failures.time += since.elapsed();
            None
        })
    }

    /// # Errors
    /// If the request failed.
    fn ask(&self, kind: FileKind, build_id: &str) -> Result<Option<PathBuf>, String> {
        let what = match kind {
            FileKind::DebugFile => "debuginfo",
            FileKind::Binary => "executable",
        };
        let mut command = Command::new(&self.program);
        command.args([what, build_id]).stdin(Stdio::null()).env("LC_ALL", "C");
        for (variable, limit) in LIMITS.into_iter().filter(|(variable, _)| env::var_os(variable).is_none()) {
            command.env(variable, limit);
        }
        let output = command.output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => "it is not installed; Debian has it in `debuginfod`".into(),
            _ => error.to_string(),
        })?;
        if output.status.success() {
            let path = output.stdout.trim_ascii();
            return Ok(path.starts_with(b"/").then(|| OsStr::from_bytes(path).into()));
        }
        let lines = String::from_utf8_lossy(&output.stderr);
        let reason = lines.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it was killed").trim();
        // No server has the file.
        if reason.ends_with("No such file or directory") {
            return Ok(None);
        }
        Err(printable(reason.as_bytes()))
    }

    pub(super) fn is_asked(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn warning(&self) -> Option<String> {
        let reason = self.failures().reason.clone()?;
        Some(format!(
            "{PROGRAM}: {reason}; some names are missing that the servers of {URLS} may have (--no-debuginfod does not ask them)"
        ))
    }
}
