//! First commands of users of other profilers.

use crate::built::Libraries;
use std::{path::Path, process::Command};

#[test]
fn first_attempts_of_users_of_other_profilers_succeed() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/first_minutes.sh");
    let output = Command::new("bash")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_sigprof"))
        .env("SIGPROF_LIBRARY", Libraries::find_or_build().shared)
        .output()
        .expect("bash starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}
