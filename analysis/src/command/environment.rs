//! `sigprof environment`: the environment variables of the shared library.

use super::output::Target;
use clap::Args;
use sigprof::interface::{VARIABLES, Variable};
use sigprof_analysis::Error;
use std::{fmt::Write as _, process::ExitCode};

/// List the environment variables of libprofiler.so
#[derive(Debug, Args)]
#[command(long_about = text())]
pub(crate) struct EnvironmentArgs {
    /// Print the tables of docs/reference/environment.md
    #[arg(long, hide = true)]
    markdown: bool,
}

impl EnvironmentArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let text = if self.markdown { markdown() } else { text() };
        Target::default().write_text(|out| out.write_all(text.as_bytes()))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn text() -> String {
    let mut text = String::from(
        "Environment variables of libprofiler.so. `sigprof record` ignores them, and has options.\n",
    );
    for variable in VARIABLES {
        let Variable { name, values, default, meaning, .. } = variable;
        let _ = write!(text, "\n{name}={values}  [default: {default}]\n  {meaning}\n");
    }
    text.replace('`', "")
}

/// Formats two tables: variables for users, and those that `sigprof record` or the library sets.
fn markdown() -> String {
    let mut text = String::new();
    for is_for_users in [true, false] {
        text.push_str("| variable | value | default | meaning |\n| --- | --- | --- | --- |\n");
        for variable in VARIABLES.iter().filter(|variable| variable.is_for_users == is_for_users) {
            let Variable { name, values, default, meaning, .. } = variable;
            let _ = writeln!(text, "| `{name}` | {values} | {default} | {meaning} |");
        }
        text.push('\n');
    }
    text
}
