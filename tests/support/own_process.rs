//! Tests in their own processes: the test program runs itself again with one test.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Set to the test's name in the process that runs its body.
const MARK: &str = "SIGPROF_TEST_IN_OWN_PROCESS";

/// More than a hundred times as long as a test takes, and ten times on an overloaded machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs `body` in its own process. `test` is the calling test's name, as `cargo test` prints it.
#[track_caller]
pub(crate) fn in_own_process(test: &str, body: impl FnOnce()) {
    in_own_process_after(test, |_| (), body);
}

/// The same, with `prepare` for the command that starts the process.
#[track_caller]
pub(crate) fn in_own_process_after(test: &str, prepare: impl FnOnce(&mut Command), body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some_and(|name| name == test) {
        return body();
    }
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(MARK, test);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    prepare(&mut command);
    let output = wait(command.spawn().expect("this program can be started again"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{stdout}\n{stderr}");
    assert!(output.status.success(), "{test} failed in its own process ({})", output.status);
    // A misspelt name runs no test, successfully.
    assert!(stdout.contains("1 passed"), "{test} is not the name of a test");
}

/// Waits for a child that leads a process group; kills the group and panics after [`LIMIT`].
#[track_caller]
fn wait(child: Child) -> Output {
    let group = Pid::from_raw(child.id().try_into().expect("a process id"));
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let hangs = end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
        hangs && killpg(group, Signal::SIGKILL).is_ok()
    });
    let output = child.wait_with_output().expect("the process can be waited for");
    drop(ended);
    let hung = watchdog.join().expect("the watchdog does not panic");
    let printed = [&output.stdout[..], &output.stderr].concat();
    assert!(!hung, "still running after {LIMIT:?}:\n{}", String::from_utf8_lossy(&printed));
    output
}
