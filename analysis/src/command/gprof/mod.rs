//! `sigprof gprof`: reports of programs compiled with `-pg`.

mod sections;
mod words;

pub(super) use words::separate;

use super::output::{self, OutputKind, Target};
use clap::{Args, ValueEnum, ValueHint};
use sections::Sections;
use sigprof_analysis::{
    Error,
    error::ErrorKind,
    formats::gmon::{FileFormat, FileInfo, Gmon, read_bytes},
    gprof::{AnnotatedSource, Executable, Options, Report, Section, SourceOptions, Specs, SymbolOptions},
    report::SourcePaths,
};
use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
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
#[command(
    args_override_self = true,
    after_help = "Examples:
  gcc -pg -o prog prog.c && ./prog     # writes gmon.out
  sigprof gprof prog gmon.out
  sigprof gprof -b -p prog             # only the flat profile, without explanations
  sigprof gprof --sum prog gmon.out.*  # writes gmon.sum"
)]
pub(crate) struct GprofArgs {
    /// The program
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::FilePath, default_value = "a.out")]
    program: PathBuf,

    /// Its data; several files are added
    #[arg(value_name = "GMON", value_hint = ValueHint::FilePath, default_value = "gmon.out")]
    data: Vec<PathBuf>,

    #[command(flatten)]
    sections: Sections,

    /// Print no explanations after the tables
    #[arg(short, long, help_heading = "Output")]
    brief: bool,

    /// Print version and number of records of each file
    #[arg(short = 'i', long, help_heading = "Output")]
    file_info: bool,

    /// Also print functions without time and calls
    #[arg(short = 'z', long, help_heading = "Output")]
    display_unused_functions: bool,

    /// Print in the style of BSD: first the call graph
    #[arg(short = 'T', long, help_heading = "Output")]
    traditional: bool,

    /// Print source files with their directories
    #[arg(short = 'L', long, help_heading = "Output")]
    print_path: bool,

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

    /// Also look for sources in these directories, separated by `:`; `GPROF_PATH` has more
    #[arg(short = 'I', long, value_name = "DIRECTORIES", help_heading = "Sources")]
    directory_path: Vec<OsString>,

    /// Mark lines of sources with fewer executions by `#####`
    #[arg(short = 'm', long, value_name = "NUMBER", default_value_t = 1, help_heading = "Sources")]
    min_count: u64,

    /// Number of lines in the table of those with the most executions
    #[arg(short = 't', long, value_name = "LINES", default_value_t = 10, help_heading = "Sources")]
    table_length: usize,

    /// With -l, mark all lines of sources, not only the first of a function
    #[arg(short = 'x', long, help_heading = "Sources")]
    all_lines: bool,

    /// Write each source to a file of its own: NAME-ann
    #[arg(short = 'y', long, help_heading = "Sources")]
    separate_files: bool,

    /// Add static functions to the function before them
    #[arg(short = 'a', long, help_heading = "Analysis")]
    no_static: bool,

    /// Ignore symbols that are not functions
    #[arg(short = 'D', long, help_heading = "Analysis")]
    ignore_non_functions: bool,

    /// Add calls that are in the code, but were not executed, to the call graph
    #[arg(short = 'c', long, help_heading = "Analysis")]
    static_call_graph: bool,

    /// Show source lines instead of functions
    #[arg(short = 'l', long, help_heading = "Analysis")]
    line: bool,

    /// Remove these calls from the call graph
    #[arg(short = 'k', value_name = "FROM/TO", help_heading = "Analysis")]
    removed_calls: Vec<String>,

    /// Use only the times of these functions in the call graph
    #[arg(short = 'n', long, value_name = "SPEC", help_heading = "Analysis")]
    time: Vec<String>,

    /// Do not use the times of these functions in the call graph
    #[arg(short = 'N', long, value_name = "SPEC", help_heading = "Analysis")]
    no_time: Vec<String>,

    /// Like -Q SPEC
    #[arg(short = 'e', value_name = "SPEC", help_heading = "Deprecated")]
    omitted: Vec<String>,

    /// Like -Q SPEC and -N SPEC
    #[arg(short = 'E', value_name = "SPEC", help_heading = "Deprecated")]
    omitted_with_time: Vec<String>,

    /// Like -q SPEC
    #[arg(short = 'f', value_name = "SPEC", help_heading = "Deprecated")]
    only: Vec<String>,

    /// Like -q SPEC and -n SPEC
    #[arg(short = 'F', value_name = "SPEC", help_heading = "Deprecated")]
    only_with_time: Vec<String>,

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
            by_line: self.line,
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
        let mut sections = self.sections.clone();
        if !self.sum && !self.file_info && !sections.is_any() {
            sections.choose_default(!sum.histograms.is_empty(), !sum.arcs.is_empty());
        }
        if self.sum {
            sum.merge_repeated();
            output::stream(Some(Path::new(SUM)), OutputKind::Not, |out| sum.write(program.layout, out))?;
        }
        let parts = sections.parts();
        let has_tables = parts[..3].iter().any(|section| section.is_printed);
        let report = Report::new(program, &sum, self.report_options(parts))?;
        let mut sources = report.annotated_sources();
        for source in sources.iter().filter(|source| source.text.is_none()) {
            let error = Error::new(ErrorKind::Io, "the source is missing").at(Path::new(&*source.path));
            eprintln!("sigprof: {}", error.advise("name its directory with -I"));
        }
        sources.retain(|source| source.text.is_some());
        if self.separate_files {
            write_separately(&std::mem::take(&mut sources))?;
        }
        Target::default().write_text(|out| {
            if self.file_info {
                self.print_files(&files, out)?;
            }
            if self.file_info && has_tables {
                writeln!(out, "\x0c")?;
            }
            report.write(out)?;
            for (place, source) in sources.iter().enumerate() {
                match (place, self.file_info || has_tables) {
                    (0, false) => {}
                    (0, true) => writeln!(out, "\x0c")?,
                    _ => writeln!(out, "\n\x0c")?,
                }
                source.write(out)?;
            }
            Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn report_options(&self, parts: [Section; 4]) -> Options {
        let [flat, mut call_graph, exec_counts, sources] = parts;
        let mut arcs = Specs::default();
        // Symspecs with a slash select calls instead of functions.
        let specs = &mut call_graph.specs;
        let divide = |specs: &mut Vec<String>| {
            let (arcs, functions) = std::mem::take(specs).into_iter().partition(|spec| spec.contains('/'));
            *specs = functions;
            arcs
        };
        (arcs.included, arcs.excluded) = (divide(&mut specs.included), divide(&mut specs.excluded));
        arcs.excluded.extend_from_slice(&self.removed_calls);
        specs.included.extend([&self.only, &self.only_with_time].into_iter().flatten().cloned());
        let omitted = [&self.omitted, &self.omitted_with_time];
        specs.excluded.extend(omitted.into_iter().flatten().cloned());
        Options {
            flat,
            call_graph,
            exec_counts,
            sources,
            source_options: SourceOptions {
                paths: SourcePaths { directories: self.directories(), prefixes: Vec::new() },
                marks_all_lines: self.all_lines,
                min_count: self.min_count,
                table_length: self.table_length,
            },
            time: Specs {
                included: [self.time.as_slice(), &self.only_with_time].concat(),
                excluded: [self.no_time.as_slice(), &self.omitted_with_time].concat(),
            },
            arcs,
            has_static_calls: self.static_call_graph,
            is_traditional: self.traditional,
            by_line: self.line,
            prints_paths: self.print_path,
            is_brief: self.brief,
            shows_unused: self.display_unused_functions,
            demangles: !self.no_demangle,
            width: self.width,
            is_compatible: self.compat,
        }
    }

    fn directories(&self) -> Vec<PathBuf> {
        let lists = self.directory_path.iter().cloned().chain(env::var_os("GPROF_PATH"));
        lists.flat_map(|list| env::split_paths(&list).collect::<Vec<_>>()).collect()
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

/// Writes each source to a file of its own, in the current directory. Sources of the same name share
/// a file, with a line before each.
fn write_separately(sources: &[AnnotatedSource]) -> Result<(), Error> {
    let mut files: BTreeMap<String, Vec<&AnnotatedSource>> = BTreeMap::new();
    for source in sources {
        let name = source.path.rsplit('/').next().unwrap_or_default();
        files.entry(format!("{name}-ann")).or_default().push(source);
    }
    for (file, sources) in files {
        output::stream(Some(Path::new(&file)), OutputKind::Not, |out| {
            let result = match sources.as_slice() {
                [source] => out.write_all(source.text.as_deref().unwrap_or_default()),
                several => several.iter().try_for_each(|source| source.write(out)),
            };
            result.map_err(Error::output)
        })?;
    }
    Ok(())
}
