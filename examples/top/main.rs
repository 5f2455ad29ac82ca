//! Prints the hottest functions of CPU profiles that sigprof or gperftools wrote.
//!
//! ```text
//! cargo run --release --example top -- [-n N] [--tree] FILE...
//! ```
//!
//! Names come from the symbols of the mapped files and of their separate debug files, so the files should
//! still be those that ran. Inlined functions count for the function that they are part of. A row without a
//! name says what is known, and no more:
//!
//! | row | its samples |
//! | --- | --- |
//! | `name [object]` | in this function of this object |
//! | `[object]+0x1234` | in the unnamed function that begins here, or if none is known, just here |
//! | `[object]` | anywhere in an object that cannot be read: the vDSO, a file that is gone or is no ELF |
//! | `[unmapped]` | in no mapping that the profile lists |
//!
//! These addresses are those that `objdump -d` prints; the bounds of unnamed functions are from `.eh_frame`.

mod report;
mod symbols;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use report::Report;

const USAGE: &str = "\
usage: top [-n N] [--tree] FILE...
  -n N     print the N hottest functions (default 10)
  --tree   print the calls from the entry points down instead
Several profiles are merged; their periods must agree.";

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(reason) => return fail(&format!("{reason}\n{USAGE}")),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if options.help {
        return finish(writeln!(out, "{USAGE}").and_then(|()| out.flush()));
    }
    let report = match Report::read(&options.files) {
        Ok(report) => report,
        Err(reason) => return fail(&reason),
    };
    let printed = report.print_header(&mut out).and_then(|()| match options.tree {
        true => report.print_tree(&mut out),
        false => report.print_table(&mut out, options.rows),
    });
    finish(printed.and_then(|()| out.flush()))
}

fn finish(printed: io::Result<()>) -> ExitCode {
    match printed {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&format!("standard output: {error}")),
        _ => ExitCode::SUCCESS,
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("top: {reason}");
    ExitCode::FAILURE
}

/// What the command line asks for.
struct Options {
    help: bool,
    tree: bool,
    rows: usize,
    files: Vec<PathBuf>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self { help: false, tree: false, rows: 10, files: Vec::new() };
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("-h" | "--help") => options.help = true,
                Some("--tree") => options.tree = true,
                Some("-n") => {
                    let value = arguments.next().ok_or("-n needs a number")?;
                    let rows = value.to_str().and_then(|text| text.parse().ok());
                    options.rows =
                        rows.ok_or_else(|| format!("-n {}: not a number", value.to_string_lossy()))?;
                }
                Some("--") => options.files.extend(arguments.by_ref().map(PathBuf::from)),
                Some(text) if text.starts_with('-') => return Err(format!("unknown option {text}")),
                _ => options.files.push(argument.into()),
            }
        }
        if options.files.is_empty() && !options.help {
            return Err("no profile given".into());
        }
        Ok(options)
    }
}
