//! `sigprof completions`: what a shell needs to complete the commands.

use super::Arguments;
use clap::{Args, CommandFactory as _};
use sigprof_analysis::Error;
use std::{io, path::Path, process::ExitCode};

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof completions bash > ~/.local/share/bash-completion/completions/sigprof
  sigprof completions zsh > ~/.zfunc/_sigprof
  sigprof completions fish > ~/.config/fish/completions/sigprof.fish")]
pub(crate) struct Options {
    /// The shell
    shell: clap_complete::Shell,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "sigprof", &mut text);
        io::Write::write_all(&mut io::stdout(), &text)
            .map_err(|error| Error::io(Path::new("standard output"), "write", error))?;
        Ok(ExitCode::SUCCESS)
    }
}
