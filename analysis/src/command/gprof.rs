//! `sigprof gprof`: reports of programs compiled with `-pg`.

use super::output::{self, OutputKind, Target};
use clap::{Args, ValueEnum, ValueHint};
use sigprof_analysis::{
    Error,
    formats::gmon::{FileFormat, FileInfo, Gmon, read_bytes},
    gprof::{Executable, Options, Report, SymbolOptions},
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The file that `--sum` writes.
const SUM: &str = "gmon.sum";

/// Show gmon.out, the data of a program compiled with `-pg`, like gprof
///
/// Prints a flat profile and a call graph. Options and reports are those of GNU gprof.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gcc -pg -o prog prog.c && ./prog     # writes gmon.out
  sigprof gprof prog gmon.out
  sigprof gprof -b -p prog             # only the flat profile, without explanations
  sigprof gprof --sum prog gmon.out.*  # writes gmon.sum")]
pub(crate) struct GprofArgs {
    /// The program
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::FilePath, default_value = "a.out")]
    program: PathBuf,

    /// Its data; several files are added
    #[arg(value_name = "GMON", value_hint = ValueHint::FilePath, default_value = "gmon.out")]
    data: Vec<PathBuf>,

    /// Print the flat profile
    #[arg(short = 'p', long, help_heading = "Output")]
    flat_profile: bool,

    /// Print no flat profile
    #[arg(short = 'P', long, help_heading = "Output")]
    no_flat_profile: bool,

    /// Print the call graph and its index
    #[arg(short = 'q', long, help_heading = "Output")]
    graph: bool,

    /// Print no call graph
    #[arg(short = 'Q', long, help_heading = "Output")]
    no_graph: bool,

    /// Print no explanations after the tables
    #[arg(short, long, help_heading = "Output")]
    brief: bool,

    /// Print only version and number of records of each file
    #[arg(short = 'i', long, help_heading = "Output")]
    file_info: bool,

    /// Also print functions without time and calls
    #[arg(short = 'z', long, help_heading = "Output")]
    display_unused_functions: bool,

    /// Width of the index, in columns
    #[arg(short, long, value_name = "COLUMNS", default_value_t = 80, help_heading = "Output")]
    width: usize,

    /// Print names of C++ and Rust as in the source, which is the default
    #[arg(
        long,
        value_name = "STYLE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto",
        overrides_with = "no_demangle",
        help_heading = "Output"
    )]
    demangle: Option<String>,

    /// Print names as the linker has them
    #[arg(long, help_heading = "Output")]
    no_demangle: bool,

    /// Print the same text as GNU gprof 2.40, also where it is wrong; explanations differ
    #[arg(long, help_heading = "Output")]
    compat: bool,

    /// Add static functions to the function before them
    #[arg(short = 'a', long, help_heading = "Analysis")]
    no_static: bool,

    /// Ignore symbols that are not functions
    #[arg(short = 'D', long, help_heading = "Analysis")]
    ignore_non_functions: bool,

    /// Write the sum of all files to gmon.sum
    #[arg(short = 's', long, help_heading = "Files")]
    sum: bool,

    /// Format of the data
    #[arg(short = 'O', long, value_name = "FORMAT", default_value = "auto", help_heading = "Files")]
    file_format: HeaderFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderFormat {
    /// By the first bytes
    Auto,
    /// Of BSD
    Bsd,
    /// Of 4.4BSD
    #[value(name = "4.4bsd")]
    Bsd44,
    /// With the word `gmon`, as the GNU C library writes it
    Magic,
}

impl GprofArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let symbols = SymbolOptions {
            omits_static: self.no_static,
            only_functions: self.ignore_non_functions,
            is_compatible: self.compat,
        };
        let program = Executable::open(&self.program, symbols)?;
        let format = match self.file_format {
            HeaderFormat::Auto => FileFormat::Auto,
            HeaderFormat::Bsd => FileFormat::Bsd,
            HeaderFormat::Bsd44 => FileFormat::Bsd44,
            HeaderFormat::Magic => FileFormat::Gmon,
        };
        let mut sum = Gmon::default();
        let mut files = Vec::new();
        for path in &self.data {
            let bytes = read_bytes(path)?;
            files.push(sum.read(&bytes, program.layout, format).map_err(|error| error.at(path))?);
        }
        if self.file_info {
            Target::default().write_text(|out| self.print_files(&files, out))?;
            return Ok(ExitCode::SUCCESS);
        }
        let is_default = !self.flat_profile && !self.graph;
        if self.sum {
            sum.merge_repeated();
            output::stream(Some(Path::new(SUM)), OutputKind::Not, |out| sum.write(program.layout, out))?;
            if is_default {
                return Ok(ExitCode::SUCCESS);
            }
        }
        let options = Options {
            has_flat: self.flat_profile || is_default && !self.no_flat_profile && !sum.histograms.is_empty(),
            has_call_graph: self.graph || is_default && !self.no_graph && !sum.arcs.is_empty(),
            is_brief: self.brief,
            shows_unused: self.display_unused_functions,
            demangles: !self.no_demangle,
            width: self.width,
            is_compatible: self.compat,
        };
        let report = Report::new(program, &sum, options)?;
        Target::default().write_text(|out| report.write(out))?;
        Ok(ExitCode::SUCCESS)
    }

    fn print_files(&self, files: &[FileInfo], out: &mut dyn Write) -> io::Result<()> {
        let records =
            |count: u64, kind: &str| format!("\t{count} {kind} record{}", if count == 1 { "" } else { "s" });
        for (path, file) in self.data.iter().zip(files) {
            let version = file.version.unwrap_or(0);
            writeln!(out, "File `{}' (version {version}) contains:", path.display())?;
            writeln!(out, "{}", records(file.histograms, "histogram"))?;
            writeln!(out, "{}", records(file.arcs, "call-graph"))?;
            writeln!(out, "{}", records(file.blocks, "basic-block count"))?;
        }
        Ok(())
    }
}
