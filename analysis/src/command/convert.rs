//! `sigprof convert`: other file formats.

use super::{
    Input, database,
    output::{self, OutputKind, Target},
    view::ValueOptions,
    warn_of_sums,
};
use clap::{Args, ValueEnum};
use flate2::{Compression, write::GzEncoder};
use sigprof_analysis::{
    Error,
    formats::{callgrind, chrome_trace, cpu_profile, firefox, folded, pprof, speedscope},
    profile::Profile,
};
use std::{io::Write, process::ExitCode};

/// Convert a profile to the format of another tool
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof convert --to pprof -o profile.pb.gz cpu.prof && go tool pprof -http=: profile.pb.gz
  sigprof convert --to folded cpu.prof | inferno-flamegraph > flame.svg
  sigprof convert --to callgrind -o callgrind.out.1 cpu.prof && kcachegrind callgrind.out.1
  sigprof convert --to speedscope -o s.json cpu.prof       # for https://speedscope.app
  sigprof convert --to firefox -o f.json.gz cpu.prof       # for profiler.firefox.com
  sigprof convert --to hpctoolkit -o database rank*.pb.gz  # for hpcviewer and Hatchet
  sigprof convert --to cpuprofile -o all.prof first.prof second.prof     # two profiles as one")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: Input,

    /// Output format
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    to: FileFormat,

    #[command(flatten)]
    output: Target,

    #[command(flatten)]
    values: ValueOptions,

    #[command(flatten)]
    database: database::DatabaseOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    /// pprof protobuf, gzipped: names, lines, labels, all values
    Pprof,
    /// Folded stacks, for flame graph tools
    Folded,
    /// For KCachegrind and callgrind_annotate: all values
    Callgrind,
    /// JSON for speedscope.app, one profile for each thread
    Speedscope,
    /// JSON for profiler.firefox.com, gzipped if the file name ends in .gz
    Firefox,
    /// JSON for ui.perfetto.dev and chrome://tracing; needs samples with time stamps
    ChromeTrace,
    /// CPU profile of gperftools: counts and addresses, without names
    Cpuprofile,
    /// Database of HPCToolkit, a directory: names, lines, all values by thread
    Hpctoolkit,
}

impl ConvertArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        if self.to == FileFormat::Hpctoolkit {
            return self.database.write(&self.input, self.output.path());
        }
        self.database.ensure_unused()?;
        // This format has no names, and symbolization takes time.
        let profile = if self.to == FileFormat::Cpuprofile {
            self.input.load_unnamed()?
        } else {
            self.input.load_all_samples()?
        };
        // Formats for several values contain all of them.
        let value = self.values.place(&profile)?;
        match self.to {
            // Samples are written unchanged.
            FileFormat::Pprof | FileFormat::Cpuprofile => {}
            FileFormat::Callgrind => warn_of_sums(&profile, 0..profile.sample_types.len()),
            _ => warn_of_sums(&profile, std::iter::once(value)),
        }
        let shown = match self.to {
            FileFormat::Pprof | FileFormat::Cpuprofile => OutputKind::Not,
            _ => OutputKind::AsText,
        };
        output::stream(self.output.path(), shown, |out| self.write(&profile, value, out))?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, profile: &Profile, value: usize, mut out: &mut dyn Write) -> Result<(), Error> {
        let name = self.input.title();
        match self.to {
            FileFormat::Pprof => pprof::write(profile, out).map_err(Error::output),
            FileFormat::Folded => folded::write(profile, value, out),
            FileFormat::Callgrind => callgrind::write(profile, out),
            FileFormat::Speedscope => speedscope::write(profile, value, &name, out),
            FileFormat::Firefox if self.is_packed() => {
                let mut packed = GzEncoder::new(&mut out, Compression::fast());
                firefox::write(profile, value, &name, &mut packed)?;
                packed.finish().map(drop).map_err(Error::output)
            }
            FileFormat::Firefox => firefox::write(profile, value, &name, out),
            FileFormat::ChromeTrace => chrome_trace::write(profile, value, out),
            FileFormat::Cpuprofile => cpu_profile::write(profile, out),
            FileFormat::Hpctoolkit => unreachable!("it is not one stream"),
        }
    }

    /// Whether the output's name ends with `.gz`.
    fn is_packed(&self) -> bool {
        self.output.path().is_some_and(|path| path.extension().is_some_and(|extension| extension == "gz"))
    }
}
