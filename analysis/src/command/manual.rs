//! `sigprof manual`: the manual pages, made from the definitions of the options.

use super::Arguments;
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use sigprof_analysis::Error;
use std::{io, path::PathBuf, process::ExitCode};

/// Write the manual pages, one for each command
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof manual ~/.local/share/man/man1 && man sigprof-record")]
pub(crate) struct Options {
    /// The directory to write them to; made where it is not there
    #[arg(value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let fails = |error| Error::io(&self.directory, "write the manual pages", error);
        std::fs::create_dir_all(&self.directory).map_err(fails)?;
        let mut main = Arguments::command();
        main.build();
        for command in std::iter::once(&main).chain(main.get_subcommands()) {
            let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
            let page = page(command).map_err(fails)?;
            std::fs::write(self.directory.join(format!("{name}.1")), page).map_err(fails)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The page of one command, whose examples stand as they are, to be copied.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let examples = command.get_after_help().map(ToString::to_string);
    let source = format!("sigprof {}", env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    Man::new(command.clone().after_help(None::<&str>)).source(source).render(&mut page)?;
    let lines = examples.iter().flat_map(|text| text.lines()).filter(|line| *line != "Examples:");
    let text: Vec<String> = lines.map(|line| literal(line.trim_start())).collect();
    if !text.is_empty() {
        page.extend_from_slice(format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", text.join("\n")).as_bytes());
    }
    Ok(page)
}

/// A line that roff(7) shows as it is.
fn literal(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stand_in_pages_as_they_are_to_be_typed() {
        let mut main = Arguments::command();
        main.build();
        let record = main.find_subcommand("record").unwrap();
        let page = String::from_utf8(page(record).unwrap()).unwrap();
        let (_, examples) = page.split_once(".SH EXAMPLES\n.nf\n").unwrap();
        assert!(
            examples.contains("\nsigprof record \\-F 1000 \\-\\-no\\-children \\-\\- perl script.pl\n"),
            "{examples}"
        );
        assert!(!page.contains(".SH EXTRA"));
    }

    #[test]
    fn a_line_of_roffs_own_signs_is_text() {
        assert_eq!(literal(r".x '\n' -y"), r"\&.x \(aq\en\(aq \-y");
    }

    #[test]
    fn no_example_is_wrapped() {
        let mut main = Arguments::command();
        main.build();
        for command in main.get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                // What a line that is wrapped leaves on the next one is a command to who copies it.
                assert!(line.chars().count() <= 96, "{}: {line}", command.get_name());
            }
        }
    }
}
