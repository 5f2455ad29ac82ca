//! The command `sigprof`.
//!
//! Exit status: 0; 1 if something cannot be read, written or done; 2 if the arguments are wrong.
//! `sigprof record` exits with the status of the command that it ran.

mod command;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words = match command::translate(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(answer) => {
            eprintln!("sigprof: {answer}");
            return ExitCode::from(2);
        }
    };
    match command::Arguments::parse_from(words).run() {
        Ok(status) => status,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sigprof: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &sigprof_analysis::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
