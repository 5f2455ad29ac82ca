//! The commands: options and their execution. The library has no options.

mod callgraph;
mod completions;
mod convert;
mod database;
mod diff;
mod disasm;
mod environment;
mod flamegraph;
mod foreign;
mod functions;
mod gprof;
mod hpctoolkit;
mod input;
mod list;
mod manual;
mod output;
mod peek;
mod raw;
mod record;
mod recover;
mod report;
mod shown;
mod top;
mod traces;
mod tree;
mod view;

use clap::{Parser, Subcommand};
use sigprof_analysis::Error;
use std::process::ExitCode;

pub(crate) use foreign::translate;
pub(crate) use functions::Functions;
pub(crate) use input::{Input, NameOptions, warn_of_sums};
pub(crate) use shown::{Edges, Order, RowLimits, Shown};
pub(crate) use view::View;

/// Record programs, and show where their CPU time went
#[derive(Debug, Parser)]
#[command(
    name = "sigprof",
    version,
    max_term_width = 100,
    propagate_version = true,
    after_help = "Examples:
  sigprof record ./prog --option    # run a program; write sigprof.pb.gz
  sigprof top                       # its hottest functions
  sigprof report --open             # flame graph, callers and source in the browser"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::RecordArgs),
    Top(top::TopArgs),
    Diff(diff::DiffArgs),
    Tree(tree::TreeArgs),
    Peek(peek::PeekArgs),
    Traces(traces::TracesArgs),
    List(list::ListArgs),
    Disasm(disasm::DisasmArgs),
    Callgraph(callgraph::CallgraphArgs),
    Flamegraph(flamegraph::FlamegraphArgs),
    Report(report::ReportArgs),
    Convert(convert::ConvertArgs),
    Raw(raw::RawArgs),
    Hpctoolkit(hpctoolkit::HpctoolkitArgs),
    Gprof(gprof::GprofArgs),
    Recover(recover::RecoverArgs),
    Environment(environment::EnvironmentArgs),
    Completions(completions::CompletionsArgs),
    Manual(manual::ManualArgs),
}

impl Arguments {
    /// Executes the command; returns the exit status.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        match self.command {
            Command::Record(options) => options.run(),
            Command::Top(options) => options.run(),
            Command::Diff(options) => options.run(),
            Command::Tree(options) => options.run(),
            Command::Peek(options) => options.run(),
            Command::Traces(options) => options.run(),
            Command::List(options) => options.run(),
            Command::Disasm(options) => options.run(),
            Command::Callgraph(options) => options.run(),
            Command::Flamegraph(options) => options.run(),
            Command::Report(options) => options.run(),
            Command::Convert(options) => options.run(),
            Command::Raw(options) => options.run(),
            Command::Hpctoolkit(options) => options.run(),
            Command::Gprof(options) => options.run(),
            Command::Recover(options) => options.run(),
            Command::Environment(options) => options.run(),
            Command::Completions(options) => options.run(),
            Command::Manual(options) => options.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::{
        collections::BTreeMap,
        path::{Path, PathBuf},
    };

    /// Options that several reports have are defined once, with the same meaning and help.
    #[test]
    fn options_of_the_same_name_have_the_same_help() {
        let main = Arguments::command();
        let mut known: BTreeMap<String, (String, &str)> = BTreeMap::new();
        // These are not reports.
        let others = ["gprof", "hpctoolkit", "record", "recover", "environment", "completions", "manual"];
        for command in main.get_subcommands().filter(|command| !others.contains(&command.get_name())) {
            for option in command.get_arguments() {
                let value = option.get_value_names().map(|names| names.join(" "));
                let Some(name) = option.get_long().map(|long| format!("--{long}")).or(value) else {
                    continue;
                };
                let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                let (first, of) = known.entry(name.clone()).or_insert((help.clone(), command.get_name()));
                assert_eq!(help, *first, "{name} of {} and {of}", command.get_name());
            }
        }
        assert!(known.len() > 40, "{known:?}");
    }

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in directory.read_dir().expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() && !path.ends_with("command") {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// Advice in errors, warnings and reports outside this folder also names options.
    #[test]
    fn messages_name_existing_options() {
        /// Options of ld.so, objdump, perf, cargo, node.
        const OF_OTHERS: [&str; 8] = [
            "list",
            "no-show-raw-insn",
            "wide",
            "start-address",
            "stop-address",
            "event",
            "release",
            "perf-basic-prof",
        ];
        let mut main = Arguments::command();
        main.build();
        let commands = main.get_subcommands().flat_map(clap::Command::get_arguments);
        let known: Vec<&str> = commands.filter_map(clap::Arg::get_long).collect();
        let option = regex::Regex::new(r"--([a-z]{2}[a-z-]*)").expect("the pattern is valid");
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let mut checked = 0;
        for path in files {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for found in option.captures_iter(line) {
                    let name = &found[1];
                    assert!(
                        known.contains(&name) || OF_OTHERS.contains(&name),
                        "{}: --{name}",
                        path.display()
                    );
                    checked += 1;
                }
            }
        }
        assert!(checked > 15, "{checked}");
    }
}
