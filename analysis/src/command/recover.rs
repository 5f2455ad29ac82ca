//! `sigprof recover`: profiles of killed programs.

use super::output::profile_file;
use clap::Args;
use sigprof::recover::{self, Owner, Spool};
use sigprof_analysis::{
    Error,
    error::ErrorKind,
    record::{Collected, Left, Output, left_behind},
};
use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Recover profiles after the program, or `sigprof record`, was killed
///
/// Samples are kept in a spool, a file that survives the program. For each program that has exited, or for the named ones, this
/// command writes the profile from the spool.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof recover --list                 # what was left behind, and by whom
  sigprof recover                        # makes profiles of all of it
  sigprof recover 4711                   # that of one recorder or program
  sigprof recover -o crash.pb.gz 4711
  sigprof recover /var/tmp/spools        # those in a directory that CPUPROFILE_SPOOL named")]
pub(crate) struct RecoverArgs {
    /// List what was left behind; change nothing
    #[arg(short, long)]
    list: bool,

    /// Profile to write, for one named recording or program
    #[arg(short, long, value_name = "FILE", requires = "named", conflicts_with = "list", value_parser = profile_file(),
        value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Process ids of programs or of `sigprof record`, spools, or directories of spools [default: all]
    #[arg(value_name = "PID|PATH", value_hint = clap::ValueHint::AnyPath)]
    named: Vec<String>,
}

/// A recording or a program's spool.
enum Found {
    Recording(Left),
    Program(Box<Spool>),
}

impl RecoverArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let mut problems = Vec::new();
        let found = if self.named.is_empty() {
            all(&mut problems)
        } else {
            let mut found = Vec::new();
            for name in &self.named {
                found.extend(by_name(name, &mut problems)?);
            }
            found
        };
        if self.output.is_some() && found.len() > 1 {
            let reason = format!("--output is one file, but there are {} profiles", found.len());
            return Err(Error::new(ErrorKind::Request, reason).advise("recover them one by one"));
        }
        if found.is_empty() && problems.is_empty() {
            say("nothing to recover".into())?;
        }
        for one in found {
            let done = if self.list { one.describe() } else { one.recover(self.output.as_deref()) };
            match done {
                Ok(line) => say(line)?,
                Err(error) => problems.push(error),
            }
        }
        for problem in &problems {
            let _ = writeln!(io::stderr(), "sigprof: {problem}");
        }
        Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn say(line: String) -> Result<(), Error> {
    writeln!(io::stdout(), "{line}").map_err(|error| Error::io(Path::new("standard output"), "write", error))
}

/// Returns everything of this user's recorders and programs in the default directories.
fn all(problems: &mut Vec<Error>) -> Vec<Found> {
    let mut found: Vec<Found> = left_behind().into_iter().map(Found::Recording).collect();
    found.extend(programs_in(&recover::default_directory(), problems));
    found
}

fn programs_in(directory: &Path, problems: &mut Vec<Error>) -> Vec<Found> {
    match recover::spools(directory) {
        Ok(spools) => {
            problems.extend(spools.unusable.into_iter().map(fails));
            spools.spools.into_iter().map(|spool| Found::Program(Box::new(spool))).collect()
        }
        Err(error) => {
            problems.push(fails(error));
            Vec::new()
        }
    }
}

/// Finds what a name refers to: a process ID or a path.
fn by_name(name: &str, problems: &mut Vec<Error>) -> Result<Vec<Found>, Error> {
    let path = Path::new(name);
    let found = if let Ok(process) = name.parse::<u32>() {
        let is_meant = |found: &Found| match found {
            Found::Recording(left) => left.session.recorder == process,
            Found::Program(spool) => spool.process() == process,
        };
        all(&mut Vec::new()).into_iter().filter(is_meant).collect()
    } else if let Some(left) = Left::at(path) {
        vec![Found::Recording(left)]
    } else if path.is_dir() {
        programs_in(path, problems)
    } else {
        vec![Found::Program(Box::new(Spool::open(path).map_err(fails)?))]
    };
    if found.is_empty() && problems.is_empty() {
        let reason = format!("{name} left nothing behind");
        return Err(Error::new(ErrorKind::Request, reason)
            .advise("`sigprof recover --list` shows what can be recovered"));
    }
    Ok(found)
}

fn fails(error: recover::RecoverError) -> Error {
    Error::new(ErrorKind::Io, error.to_string()).caused_by(error)
}

impl Found {
    /// Describes it in a line.
    fn describe(&self) -> Result<String, Error> {
        Ok(match self {
            Self::Recording(left) => {
                let (recorder, output) = (left.session.recorder, left.session.output.display());
                let running = left.collector().running();
                let path = left.path.display();
                match () {
                    () if left.claim()?.is_none() => {
                        format!("recording {recorder} is still running, for {output} ({path})")
                    }
                    () if running > 0 => {
                        format!(
                            "recording {recorder} has ended, but {running} of its processes are still running; profile: {output} ({path})"
                        )
                    }
                    () => format!("recording {recorder} has ended; profile: {output} ({path})"),
                }
            }
            Self::Program(spool) => {
                let process = process_name(spool);
                let (target, path) = (spool.target().display(), spool.path().display());
                match spool.owner() {
                    Owner::Running => format!("{process} is still running; profile: {target} ({path})"),
                    Owner::Gone => format!("{process} has exited; profile: {target} ({path})"),
                    _ => format!("{process} is in another container; profile: {target} ({path})"),
                }
            }
        })
    }

    /// Writes the profile.
    fn recover(self, output: Option<&Path>) -> Result<String, Error> {
        match self {
            Self::Recording(left) => recover_recording(&left, output),
            Self::Program(spool) => {
                let process = process_name(&spool);
                if spool.owner() == Owner::Running {
                    return Ok(format!("{process} is still running; it writes its profile at exit"));
                }
                let recovered = match output {
                    Some(path) => spool.recover_to(path),
                    None => spool.recover(),
                };
                recovered.map(|recovered| format!("{process}: {recovered}")).map_err(fails)
            }
        }
    }
}

fn process_name(spool: &Spool) -> String {
    format!("process {} ({})", spool.process(), spool.program().display())
}

fn recover_recording(left: &Left, output: Option<&Path>) -> Result<String, Error> {
    let recorder = left.session.recorder;
    let Some(_claim) = left.claim()? else {
        return Ok(format!(
            "recording {recorder} is still running; it writes its profile when the command exits"
        ));
    };
    let collector = left.collector();
    let running = collector.running();
    if running > 0 {
        return Ok(format!(
            "recording {recorder}: {running} of its processes are still running; run this command again after they have exited"
        ));
    }
    let output = Output::prepare(output.unwrap_or(&left.session.output))?;
    let Collected { profile, tally: _, mut problems, sources, .. } = collector.finish();
    let line = match &profile {
        None => format!("recording {recorder}: nothing to recover"),
        Some(profile) => {
            let written = output.write(profile)?;
            let samples = profile.total(0);
            format!("recording {recorder}: {samples} samples recovered to {}", written.path.display())
        }
    };
    problems.extend(sources.remove());
    match problems.pop() {
        // Unreadable files are kept.
        Some(problem) => Err(problem),
        None => left.remove().map(|()| line),
    }
}
