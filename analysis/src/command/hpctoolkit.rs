//! `sigprof hpctoolkit`: databases of HPCToolkit.

use super::output::Target;
use clap::{Args, Subcommand, ValueHint};
use sigprof_analysis::{
    Error,
    formats::hpctoolkit::{DatabaseSize, Finding, check},
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Verify databases of HPCToolkit
///
/// All reports read these databases: `sigprof top DIR` shows one like a profile.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof hpctoolkit check hpctoolkit-prog-database
  sigprof top hpctoolkit-prog-database      # reports read databases, too")]
pub(crate) struct HpctoolkitArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(CheckArgs),
}

/// Verify the rules of the format
///
/// Prints each violation with file and offset, and remarks, which readers cope with. Exits with status 1 if there is a violation.
#[derive(Debug, Args)]
struct CheckArgs {
    /// Directory with the database
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

/// Lines that are printed of one database.
const MAX_LINES: usize = 100;

impl HpctoolkitArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let Action::Check(CheckArgs { directory }) = self.action;
        let (size, findings) = check(&directory)?;
        let breaches = findings.iter().filter(|one| one.is_breach).count();
        Target::default().write_text(|out| print(&directory, size, &findings, breaches, out))?;
        Ok(if breaches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(
    directory: &Path,
    size: DatabaseSize,
    findings: &[Finding],
    breaches: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    for Finding { file, offset, is_breach, text } in findings.iter().take(MAX_LINES) {
        let kind = if *is_breach { "" } else { "note: " };
        writeln!(out, "{file}: at offset {offset:#x}: {kind}{text}")?;
    }
    if findings.len() > MAX_LINES {
        writeln!(out, "and {} more", findings.len() - MAX_LINES)?;
    }
    let DatabaseSize { metrics, contexts, threads, values, traces } = size;
    let verdict = match breaches {
        0 => "no rule is violated".to_owned(),
        1 => "1 violation".to_owned(),
        more => format!("{more} violations"),
    };
    let name = directory.display();
    writeln!(
        out,
        "{name}: {metrics} metrics, {contexts} contexts, {threads} threads, {values} values, {traces} traces: {verdict}"
    )
}
