//! The checker of the CPU profile format, which shares no code with this crate's writer and reader.

use std::path::Path;
use std::process::Command;

use super::skip::{Lack, skip};

#[track_caller]
pub(crate) fn check(profile: &Path) {
    if let Some(faults) = faults(profile) {
        assert!(faults.is_empty(), "{faults}");
    }
}

/// Returns a line for each broken rule. Without python3: `None`, and the test is skipped.
#[track_caller]
pub(crate) fn faults(profile: &Path) -> Option<String> {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-I", "-c", include_str!("check_profile.py")]).arg(profile);
    match command.output() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            assert_eq!(output.status.success(), text.is_empty(), "{:?}: {text:?}", output.status);
            Some(String::from_utf8_lossy(&text).into_owned())
        }
        Err(error) => {
            skip(Lack::Tool, format_args!("the profile is not checked: /usr/bin/python3: {error}"));
            None
        }
    }
}
