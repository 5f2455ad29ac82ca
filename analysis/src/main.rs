//! The command `sigprof`.
//!
//! Exit status: 0; 1 where something cannot be read, written or done; 2 where it is called wrongly. `sigprof record` ends
//! with the status of the command that it ran.

mod command;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match command::Arguments::parse().run() {
        Ok(status) => status,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sigprof: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(error: &sigprof_analysis::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
