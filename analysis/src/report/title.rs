//! Default title of a picture or page.

use super::frame_name;
use crate::profile::Profile;

/// Maximum characters, for a picture of the usual width.
const LONGEST: usize = 80;

/// Returns the recorded command, because the first program of a wrapper (`env`, `sh`) is not
/// helpful; without a unique command the first program's name, or else `otherwise`.
pub(super) fn of(profile: &Profile, otherwise: &str) -> String {
    if let Some(command) = profile.command() {
        let cut: String = command.chars().take(LONGEST).collect();
        return if cut.len() < command.len() { cut + "..." } else { cut };
    }
    match frame_name::object(profile.mappings.first()) {
        program if program.is_empty() => otherwise.into(),
        program => program.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Known, Mapping};

    #[test]
    fn is_the_recorded_command_or_the_program() {
        let mut profile = Profile::new(Profile::cpu_types());
        assert_eq!(of(&profile, "CPU profile"), "CPU profile");
        profile.mappings.push(Mapping {
            start: 0x1000,
            end: 0x2000,
            file_offset: 0,
            file: "/usr/bin/env".into(),
            build_id: "".into(),
            is_deleted: false,
            is_moved: false,
            process: None,
            has: Known::default(),
        });
        profile.comments = vec!["by hand".into()];
        assert_eq!(of(&profile, "CPU profile"), "env");
        profile.comments.push("command: pyenv exec thing".into());
        assert_eq!(of(&profile, "CPU profile"), "pyenv exec thing");
        profile.comments.push("command: another".into());
        assert_eq!(of(&profile, "CPU profile"), "env", "it is of two recordings");
        profile.comments = vec!["command: ".into()];
        assert_eq!(of(&profile, "CPU profile"), "env");
        profile.comments = vec![format!("command: {}", "ä".repeat(90)).into()];
        assert_eq!(of(&profile, "CPU profile"), format!("{}...", "ä".repeat(80)));
    }
}
