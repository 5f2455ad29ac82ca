//! `sigprof gprof`: reports of programs compiled with `-pg`.

use super::output::{self, OutputKind, Target};
use clap::{Args, ValueEnum, ValueHint};
use sigprof_analysis::{
    Error,
    formats::gmon::{FileFormat, FileInfo, Gmon, read_bytes},
    gprof::{Executable, Options, Report, Specs, SymbolOptions},
};
use std::{
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

    /// Print the flat profile, or only the functions that match
    #[arg(
        short = 'p',
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Output"
    )]
    flat_profile: Vec<String>,

    /// Print no flat profile, or the functions that do not match
    #[arg(
        short = 'P',
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Output"
    )]
    no_flat_profile: Vec<String>,

    /// Print the call graph and its index, or only the functions that match, and their callees; FROM/TO selects calls
    #[arg(
        short = 'q',
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Output"
    )]
    graph: Vec<String>,

    /// Print no call graph, or the functions that do not match
    #[arg(
        short = 'Q',
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Output"
    )]
    no_graph: Vec<String>,

    /// Print the number of calls of each function, or only of those that match
    #[arg(
        short = 'C',
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Output"
    )]
    exec_counts: Vec<String>,

    /// Print no numbers of calls, or those of functions that do not match
    #[arg(
        short = 'Z',
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Output"
    )]
    no_exec_counts: Vec<String>,

    /// Print no explanations after the tables
    #[arg(short, long, help_heading = "Output")]
    brief: bool,

    /// Print only version and number of records of each file
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
        if self.file_info {
            Target::default().write_text(|out| self.print_files(&files, out))?;
            return Ok(ExitCode::SUCCESS);
        }
        let is_default = ![&self.flat_profile, &self.graph, &self.exec_counts]
            .into_iter()
            .any(|option| !option.is_empty())
            && ![&self.no_flat_profile, &self.no_graph, &self.no_exec_counts]
                .into_iter()
                .any(|option| !symspecs(option).is_empty());
        if self.sum {
            sum.merge_repeated();
            output::stream(Some(Path::new(SUM)), OutputKind::Not, |out| sum.write(program.layout, out))?;
            if is_default {
                return Ok(ExitCode::SUCCESS);
            }
        }
        let report = Report::new(program, &sum, self.report_options(&sum, is_default))?;
        Target::default().write_text(|out| report.write(out))?;
        Ok(ExitCode::SUCCESS)
    }

    fn report_options(&self, data: &Gmon, is_default: bool) -> Options {
        // A table is printed if an option names it, or includes or excludes functions.
        let is_wanted = |yes: &[String], no: &[String], by_default: bool| {
            !yes.is_empty() || !symspecs(no).is_empty() || is_default && no.is_empty() && by_default
        };
        let is_call = |spec: &&String| spec.contains('/');
        let functions =
            |specs: &[String]| symspecs(specs).iter().filter(|spec| !is_call(spec)).cloned().collect();
        let calls = |specs: &[String]| symspecs(specs).iter().filter(is_call).cloned().collect();
        let joined = |lists: &[Vec<String>]| lists.concat();
        Options {
            has_flat: is_wanted(&self.flat_profile, &self.no_flat_profile, !data.histograms.is_empty()),
            has_call_graph: is_wanted(&self.graph, &self.no_graph, !data.arcs.is_empty()),
            has_exec_counts: is_wanted(&self.exec_counts, &self.no_exec_counts, false),
            flat: Specs { included: symspecs(&self.flat_profile), excluded: symspecs(&self.no_flat_profile) },
            call_graph: Specs {
                included: joined(&[functions(&self.graph), self.only.clone(), self.only_with_time.clone()]),
                excluded: joined(&[
                    functions(&self.no_graph),
                    self.omitted.clone(),
                    self.omitted_with_time.clone(),
                ]),
            },
            exec_counts: Specs {
                included: symspecs(&self.exec_counts),
                excluded: symspecs(&self.no_exec_counts),
            },
            time: Specs {
                included: joined(&[self.time.clone(), self.only_with_time.clone()]),
                excluded: joined(&[self.no_time.clone(), self.omitted_with_time.clone()]),
            },
            arcs: Specs {
                included: calls(&self.graph),
                excluded: joined(&[calls(&self.no_graph), self.removed_calls.clone()]),
            },
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

/// Returns the symspecs of an option that can be without one.
fn symspecs(values: &[String]) -> Vec<String> {
    values.iter().filter(|value| !value.is_empty()).cloned().collect()
}

/// Options with a value in the same word, such as `-pmain`, or without one.
const WITH_OPTIONAL_VALUE: &str = "pPqQCZ";
/// Options with a value in the same or the next word.
const WITH_VALUE: &str = "kneEfFNwO";

/// Separates letters and values as getopt(3) does: `-bpmain` becomes `-b -p=main`.
pub(super) fn separate(words: Vec<OsString>) -> Vec<OsString> {
    let mut separated = Vec::new();
    let mut words = words.into_iter();
    separated.extend(words.by_ref().take(2));
    while let Some(word) = words.next() {
        let letters = word.to_str().and_then(|word| word.strip_prefix('-'));
        let Some(letters) = letters.filter(|rest| !rest.is_empty() && !rest.starts_with('-')) else {
            let is_last = word == "--";
            separated.push(word);
            if is_last {
                separated.extend(words);
                break;
            }
            continue;
        };
        for (place, letter) in letters.char_indices() {
            let rest = &letters[place + letter.len_utf8()..];
            if WITH_OPTIONAL_VALUE.contains(letter) {
                separated.push(
                    if rest.is_empty() { format!("-{letter}") } else { format!("-{letter}={rest}") }.into(),
                );
                break;
            }
            separated.push(format!("-{letter}").into());
            if WITH_VALUE.contains(letter) {
                if rest.is_empty() {
                    separated.extend(words.next());
                } else {
                    separated.push(rest.into());
                }
                break;
            }
        }
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_letters_and_values() {
        for (typed, separated) in [
            ("-bpmain -z prog", "-b -p=main -z prog"),
            ("-p -qa/b prog -- -p", "-p -q=a/b prog -- -p"),
            ("-ka/b -n f -zw40 -O bsd", "-k a/b -n f -z -w 40 -O bsd"),
            ("--flat-profile=main -bp=x -", "--flat-profile=main -b -p==x -"),
        ] {
            let words =
                ["sigprof", "gprof"].into_iter().chain(typed.split(' ')).map(OsString::from).collect();
            let words: Vec<String> =
                separate(words).into_iter().skip(2).map(|word| word.into_string().expect("text")).collect();
            assert_eq!(words.join(" "), separated);
        }
    }
}
