//! `sigprof manual`: manual pages, generated from the options.

use super::Arguments;
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use sigprof_analysis::Error;
use std::{io, path::PathBuf, process::ExitCode};

/// Write the manual pages
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof manual ~/.local/share/man/man1 && man -M ~/.local/share/man sigprof-record")]
pub(crate) struct ManualArgs {
    /// Directory for them; it is created if it is missing
    #[arg(value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
}

impl ManualArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let fails = |error| Error::io(&self.directory, "write the manual pages", error);
        std::fs::create_dir_all(&self.directory).map_err(fails)?;
        let mut main = Arguments::command();
        main.build();
        let commands = main.get_subcommands().filter(|command| command.get_name() != "help");
        for command in std::iter::once(&main).chain(commands) {
            let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
            let page = page(command).map_err(fails)?;
            std::fs::write(self.directory.join(format!("{name}.1")), page).map_err(fails)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the page of one command. Examples are not wrapped, so that they can be copied.
///
/// clap writes the version instead of a date, and a synopsis with options without values, and one
/// file.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let examples = command.get_after_help().map(ToString::to_string);
    let mut rendered = Vec::new();
    // Options that only --help shows would have no description.
    let shown = command.clone().mut_args(|option| option.hide_short_help(false));
    Man::new(shown.after_help(None::<&str>)).render(&mut rendered)?;
    let rendered = String::from_utf8(rendered).expect("the definitions are text");
    let name = command.get_display_name().unwrap_or(command.get_name());
    let usage = command.clone().render_usage().to_string();
    let mut page = Vec::new();
    let mut before = "";
    for source in rendered.lines() {
        let line = match before {
            _ if source.starts_with(".TH ") => {
                format!(".TH {name} 1 \"\" \"sigprof {}\"", env!("CARGO_PKG_VERSION"))
            }
            ".SH SYNOPSIS" => literal(usage.trim_start_matches("Usage: ")),
            _ => source.to_owned(),
        };
        page.extend_from_slice(format!("{line}\n").as_bytes());
        before = source;
    }
    let lines = examples.iter().flat_map(|text| text.lines()).filter(|line| *line != "Examples:");
    let text: Vec<String> = lines.map(|line| literal(line.trim_start())).collect();
    if !text.is_empty() {
        page.extend_from_slice(format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", text.join("\n")).as_bytes());
    }
    Ok(page)
}

/// Escapes a line for roff(7).
fn literal(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_examples_as_typed() {
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
    fn pages_have_a_title_and_a_synopsis() {
        let mut main = Arguments::command();
        main.build();
        for (name, synopsis) in [
            ("sigprof", "sigprof <COMMAND>"),
            ("sigprof-record", "sigprof record [OPTIONS] <COMMAND>..."),
            ("sigprof-peek", "sigprof peek [OPTIONS] <REGEX> [FILE]..."),
            ("sigprof-convert", "sigprof convert [OPTIONS] \\-\\-to <FORMAT> [FILE]..."),
        ] {
            let command = match name.split_once('-') {
                Some((_, command)) => main.find_subcommand(command).unwrap(),
                None => &main,
            };
            let page = String::from_utf8(page(command).unwrap()).unwrap();
            // Name, section, no date, source.
            let title = format!("\n.TH {name} 1 \"\" \"sigprof {}\"\n", env!("CARGO_PKG_VERSION"));
            assert!(page.contains(&title), "{page}");
            assert!(page.contains(&format!("\n.SH SYNOPSIS\n{synopsis}\n.SH DESCRIPTION\n")), "{page}");
        }
    }

    #[test]
    fn every_option_has_a_description() {
        let mut main = Arguments::command();
        main.build();
        for command in main.get_subcommands() {
            let page = String::from_utf8(page(command).unwrap()).unwrap();
            let lines: Vec<&str> = page.lines().collect();
            let options: Vec<_> = lines.windows(3).filter(|lines| lines[0] == ".TP").collect();
            assert!(options.len() >= 2, "{}", command.get_name());
            for option in options {
                assert!(!option[2].trim().is_empty(), "{}: {}", command.get_name(), option[1]);
            }
        }
    }

    #[test]
    fn escapes_roff_characters() {
        assert_eq!(literal(r".x '\n' -y"), r"\&.x \(aq\en\(aq \-y");
    }

    #[test]
    fn examples_are_not_wrapped() {
        let mut main = Arguments::command();
        main.build();
        for command in main.get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                // The rest of a wrapped line would be copied as another command.
                assert!(line.chars().count() <= 96, "{}: {line}", command.get_name());
            }
        }
    }
}
