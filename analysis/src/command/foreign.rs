//! Options of perf, pprof, google-pprof, gprof and samply: replaced, or refused with advice.
//!
//! Sources: perf-record(1), perf-report(1), gprof(1), `go tool pprof -help`, `google-pprof --help`,
//! `samply record --help`.

use super::{
    Arguments, gprof,
    input::{is_elf, starts_with},
};
use clap::{Arg, Command, CommandFactory as _};
use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
};

/// How an argument is translated.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The option is removed, because sigprof always does this.
    Ignore,
    /// The option is removed with its value, for the same reason.
    IgnoreWithValue,
    /// This option, with the same value if there is one.
    As(&'static str),
    /// An error, with this text.
    Error(&'static str),
}
use Answer::{As, Error, Ignore, IgnoreWithValue};

/// Option names with their translation.
type AnswerTable = &'static [(&'static [&'static str], Answer)];

/// Options of `perf record` and `samply record`.
const OF_RECORD: AnswerTable = &[
    (&["-g", "--fp"], Ignore),
    (&["--call-graph"], IgnoreWithValue),
    (&["--freq", "-r", "--rate"], As("--frequency")),
    (&["--no-inherit"], As("--no-children")),
    (
        &["-a", "--all-cpus", "--all"],
        Error("sigprof profiles the command that it runs, not the whole system; `perf record -a` does that"),
    ),
    (
        &["-p", "--pid", "-t", "--tid"],
        Error(
            "sigprof cannot attach to a running process: start the program by `sigprof record PROGRAM`, \
             or use `perf record -p PID`",
        ),
    ),
    (
        &["-e", "--event"],
        Error(
            "sigprof samples CPU time, or elapsed time with `--clock wall`, not hardware events: leave the option out, \
             or use `perf record -e EVENT`",
        ),
    ),
];

/// Options of `perf report`, `pprof`, `google-pprof` and `gprof`, for all reports.
const OF_REPORTS: AnswerTable = &[
    (&["-lines", "--lines", "-l", "--line"], As("--granularity=lines")),
    (&["-functions", "--functions"], As("--granularity=functions")),
    (&["-files", "--files"], As("--granularity=files")),
    (&["-filefunctions", "--filefunctions"], As("--granularity=filefunctions")),
    (&["-addresses", "--addresses"], As("--granularity=addresses")),
    (&["-inuse_space", "--inuse_space"], As("--sample-type=inuse_space")),
    (&["-inuse_objects", "--inuse_objects"], As("--sample-type=inuse_objects")),
    (&["-alloc_space", "--alloc_space"], As("--sample-type=alloc_space")),
    (&["-alloc_objects", "--alloc_objects"], As("--sample-type=alloc_objects")),
    (&["-contentions", "--contentions"], As("--sample-type=contentions")),
    (&["-total_delay", "--total_delay"], As("--sample-type=delay")),
    (&["--children"], As("--cum")),
    (&["-flat", "--flat", "--no-children", "-b", "--brief"], Ignore),
    // Flame graphs always have the root at the top.
    (&["--inverted", "--icicle"], Ignore),
    (
        &["-s", "--sort"],
        Error(
            "rows are sorted by their own time, or by `--cum`; `--granularity` chooses functions, lines, files or addresses",
        ),
    ),
    (
        &["-http", "--http"],
        Error(
            "sigprof has no web server; `sigprof report --open FILE` writes one page and opens it in the browser",
        ),
    ),
    (
        &["-web", "--web", "-gv", "--gv", "-evince", "--evince"],
        Error(
            "use `sigprof report --open FILE`, a page for the browser, or `sigprof callgraph --format svg FILE`",
        ),
    ),
    (
        &["-svg", "--svg", "-png", "--png", "-pdf", "--pdf", "-gif", "--gif", "-ps", "--ps"],
        Error("use `sigprof flamegraph FILE` or `sigprof callgraph --format svg FILE`; both write SVG"),
    ),
    (&["-dot", "--dot"], Error("use `sigprof callgraph --format dot FILE`")),
    (
        &["-g", "--call-graph", "-q", "--graph", "-tree", "--tree"],
        Error("use `sigprof tree FILE`: each function with its callers and callees"),
    ),
    (&["-traces", "--traces", "-stacks", "--stacks"], Error("use `sigprof traces FILE`: each call stack")),
    (&["-peek", "--peek"], Error("use `sigprof peek REGEX FILE`: the callers and callees of a function")),
    (
        &["-list", "--list", "-weblist", "--weblist", "-A", "--annotated-source"],
        Error("use `sigprof list REGEX FILE`: the source lines of a function"),
    ),
    (&["-disasm", "--disasm"], Error("use `sigprof disasm REGEX FILE`: the instructions of a function")),
    (&["-raw", "--raw"], Error("use `sigprof raw FILE`: everything that the profile holds")),
    (&["-proto", "--proto"], Error("use `sigprof convert --to pprof -o OUTPUT FILE`")),
    (&["-callgrind", "--callgrind"], Error("use `sigprof convert --to callgrind -o OUTPUT FILE`")),
    (&["-collapsed", "--collapsed"], Error("use `sigprof convert --to folded FILE`")),
    (
        &["-seconds", "--seconds", "-timeout", "--timeout"],
        Error("sigprof reads files, not servers: fetch the profile by `curl -o FILE URL`"),
    ),
];

/// Options for a text report, which is `sigprof top`.
const TEXT: &[&str] = &["-text", "--text", "-top", "--top", "--stdio", "-p", "--flat-profile"];

/// Commands of other profilers, with the command to type.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["annotate"], "`sigprof list REGEX` shows source lines, `sigprof disasm REGEX` shows instructions"),
    (&["script"], "`sigprof traces` shows each call stack, `sigprof convert --to folded` writes them"),
    (&["compare"], "`sigprof diff OLD NEW` compares two profiles"),
    (&["stat"], "sigprof counts no events; `perf stat` does"),
    (&["load", "view", "web", "serve"], "`sigprof report --open` shows a profile in the browser"),
    (&["attach"], "sigprof cannot attach to a running process; `sigprof record PROGRAM` starts it"),
    (&["text"], "`sigprof top` is the text report"),
];

/// Replaces options of other profilers in a command line, after the program's name.
///
/// # Errors
/// A line that states what to type, if the words cannot be meant for this command.
pub(crate) fn translate(words: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let Some(first) = words.get(1) else { return Ok(words) };
    let mut main = Arguments::command();
    // With clap's own options and commands: help and version.
    main.build();
    let name = first.to_string_lossy().into_owned();
    if let Some(command) = main.find_subcommand(&name) {
        let table = match name.as_str() {
            "record" => OF_RECORD,
            "gprof" => return Ok(gprof::separate(words)),
            "recover" | "environment" | "completions" | "manual" | "help" => return Ok(words),
            _ => OF_REPORTS,
        };
        return options(&words, command, table);
    }
    if name.starts_with('-') {
        let (option, _) = split(&name);
        if TEXT.contains(&option) {
            let mut words = words;
            words[1] = "top".into();
            return translate(words);
        }
        return match find(OF_REPORTS, option) {
            Some(Error(text)) => Err(format!("{option}: {text}")),
            Some(_) => Err(format!("{option}: a command comes first, such as `sigprof top {name} FILE`")),
            None => Ok(words),
        };
    }
    if let Some((_, text)) = COMMANDS.iter().find(|(names, _)| names.contains(&name.as_str())) {
        return Err(format!("`{name}` is not a command: {text}"));
    }
    let path = Path::new(first);
    if path.is_file() {
        let text = if is_program(path) { "to record this program" } else { "to see its hottest functions" };
        let command = if is_program(path) { "record" } else { "top" };
        return Err(format!("{name} is a file, not a command; {text}: sigprof {command} {name}"));
    }
    Ok(words)
}

/// Translates the options of one command.
fn options(words: &[OsString], command: &Command, table: AnswerTable) -> Result<Vec<OsString>, String> {
    let is_record = command.get_name() == "record";
    let mut done = words[..2].to_vec();
    let mut rest = words[2..].iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let is_option = text.len() > 1 && text.starts_with('-') && text != "--";
        if !is_option {
            done.push(word.clone());
            // The following words belong to the recorded command, or are operands.
            if is_record || text == "--" {
                break;
            }
            continue;
        }
        let (option, value) = split(&text);
        if let Some(known) = known(command, table, option) {
            // `-i` is the input in perf, the sample type for pprof.
            if option == "-i" && rest.as_slice().first().is_some_and(|next| is_sample_type(command, next)) {
                done.push("--sample-type".into());
                done.extend(rest.next().cloned());
                continue;
            }
            done.push(word.clone());
            if takes_value(known) && value.is_none() && is_separate(option) {
                done.extend(rest.next().cloned());
            }
            continue;
        }
        if let Some(name) = spelled_otherwise(command, option) {
            let known = known(command, table, &name).expect("it was found by this name");
            match (takes_value(known), value) {
                (true, Some(_)) => done.push(with_value(&name, word)),
                (true, None) => {
                    done.push(name.into());
                    done.extend(rest.next().cloned());
                }
                (false, Some("false" | "0")) => {}
                (false, _) => done.push(name.into()),
            }
            continue;
        }
        let is_text = !is_record && TEXT.contains(&option);
        match find(table, option) {
            _ if is_text && command.get_name() == "top" => {}
            _ if is_text => return Err(format!("{option}: use `sigprof top FILE`, the text report")),
            Some(Ignore) => {}
            Some(IgnoreWithValue) if value.is_some() => {}
            Some(IgnoreWithValue) => drop(rest.next()),
            Some(As(name)) if value.is_some() && !name.contains('=') => done.push(with_value(name, word)),
            Some(As(name)) => done.push(name.into()),
            Some(Error(text)) => return Err(format!("{option}: {text}")),
            None => done.push(word.clone()),
        }
    }
    done.extend(rest.cloned());
    Ok(done)
}

fn find(table: AnswerTable, option: &str) -> Option<Answer> {
    table.iter().find(|(names, _)| names.contains(&option)).map(|&(_, answer)| answer)
}

/// Splits an option into its name and the value after `=`.
fn split(word: &str) -> (&str, Option<&str>) {
    word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)))
}

/// Returns `name` with the value after `=` in `word`, which may be invalid UTF-8.
fn with_value(name: &str, word: &OsStr) -> OsString {
    let value = word.as_bytes().splitn(2, |&byte| byte == b'=').nth(1).unwrap_or_default();
    let mut joined = OsString::from(name);
    joined.push("=");
    joined.push(OsStr::from_bytes(value));
    joined
}

/// Returns the option that a word means for clap: a long name, or a letter with an optional value.
fn known<'a>(command: &'a Command, table: AnswerTable, option: &str) -> Option<&'a Arg> {
    if let Some(long) = option.strip_prefix("--") {
        return by_long_name(command, long);
    }
    let rest = option.strip_prefix('-')?;
    let letter = rest.chars().next()?;
    let arg = command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
    // Words such as -nodecount are long names; -n20 is a short name with a value.
    let is_long_name = || spelled_otherwise(command, option).is_some() || find(table, option).is_some();
    (rest.len() == letter.len_utf8() || takes_value(arg) && !is_long_name()).then_some(arg)
}

/// True if the option's value can be the next word: it is a long name or one letter.
fn is_separate(option: &str) -> bool {
    option.starts_with("--") || option.chars().count() == 2
}

/// True for a possible name of a sample type that is not a file.
fn is_sample_type(command: &Command, word: &OsStr) -> bool {
    let is_name = word.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name && !Path::new(word).exists() && by_long_name(command, "sample-type").is_some()
}

/// Finds an option by its long name without hyphens.
fn by_long_name<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// Returns the long option for a name that pprof writes with one hyphen or underscores.
fn spelled_otherwise(command: &Command, option: &str) -> Option<String> {
    let name = option.trim_start_matches('-').replace('_', "-");
    (name.len() > 1 && by_long_name(command, &name).is_some()).then(|| format!("--{name}"))
}

/// True for an executable file that begins like a program or a script.
fn is_program(path: &Path) -> bool {
    let is_executable = path.metadata().is_ok_and(|status| status.permissions().mode() & 0o111 != 0);
    is_executable && (is_elf(path) || starts_with(path, b"#!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let done = translate(words)?;
        let words: Vec<String> = done.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn replaces_options_of_other_profilers_by_equivalents() {
        for (typed, meant) in [
            ("sigprof record -g --call-graph dwarf -F 99 -- ls -g", "sigprof record -F 99 -- ls -g"),
            ("sigprof record --call-graph=fp -o x ls -a", "sigprof record -o x ls -a"),
            ("sigprof record --freq=99 --no-inherit ls", "sigprof record --frequency=99 --no-children ls"),
            ("sigprof record --rate 99 ls", "sigprof record --frequency 99 ls"),
            ("sigprof top -cum -focus=x y", "sigprof top --cum --focus=x y"),
            ("sigprof top -cum=true -cum=false -focus x y", "sigprof top --cum --focus x y"),
            ("sigprof top -nodecount=3 -n3 -n 3 y", "sigprof top --nodecount=3 -n3 -n 3 y"),
            ("sigprof top --show_from=a=b y", "sigprof top --show-from=a=b y"),
            ("sigprof top -sample_index=cpu y", "sigprof top --sample-index=cpu y"),
            ("sigprof top -diff_base=x -lines y", "sigprof top --diff-base=x --granularity=lines y"),
            ("sigprof top -base x -diff=x y", "sigprof top --base x --diff=x y"),
            ("sigprof top -text --stdio y", "sigprof top y"),
            ("sigprof top -inuse_space y", "sigprof top --sample-type=inuse_space y"),
            ("sigprof top -i inuse_space y", "sigprof top --sample-type inuse_space y"),
            ("sigprof top -i missing.prof", "sigprof top -i missing.prof"),
            ("sigprof top -i /dev/null", "sigprof top -i /dev/null"),
            ("sigprof -top a b", "sigprof top a b"),
            ("sigprof --text -cum a b", "sigprof top --cum a b"),
            // After `--`, all words are file names.
            ("sigprof top -- -cum", "sigprof top -- -cum"),
            // The value of an option is not an option.
            ("sigprof top --focus -text y", "sigprof top --focus -text y"),
            ("sigprof recover -p", "sigprof recover -p"),
            ("sigprof --version", "sigprof --version"),
        ] {
            assert_eq!(translated(typed).as_deref(), Ok(meant), "{typed}");
        }
    }

    #[test]
    fn answer_names_the_command_to_type() {
        for (typed, part) in [
            ("sigprof record -p 1234", "perf record -p"),
            ("sigprof record -a sleep 1", "perf record -a"),
            ("sigprof record -e cycles -- ls", "--clock wall"),
            ("sigprof top -http=: y", "report --open"),
            ("sigprof -http=:8080 y", "report --open"),
            ("sigprof -list=main y", "sigprof list"),
            ("sigprof -lines y", "sigprof top -lines FILE"),
            ("sigprof report --stdio y", "sigprof top"),
            ("sigprof annotate main", "sigprof list"),
            ("sigprof compare a b", "sigprof diff OLD NEW"),
            ("sigprof /bin/sh", "sigprof record /bin/sh"),
            ("sigprof /etc/passwd", "sigprof top /etc/passwd"),
        ] {
            let answer = translated(typed).expect_err(typed);
            assert!(answer.contains(part) && !answer.contains('\n'), "{typed}: {answer}");
        }
    }

    /// A row for an existing option of a command would have no effect.
    #[test]
    fn tables_do_not_contain_sigprofs_options() {
        let mut main = Arguments::command();
        main.build();
        for command in main.get_subcommands() {
            let table = match command.get_name() {
                "record" => OF_RECORD,
                "top" => OF_REPORTS,
                _ => continue,
            };
            for name in table.iter().flat_map(|(names, _)| names.iter()) {
                assert!(known(command, table, name).is_none(), "{name} of {}", command.get_name());
            }
        }
        for name in COMMANDS.iter().flat_map(|(names, _)| names.iter()) {
            assert!(main.find_subcommand(name).is_none(), "{name}");
        }
    }
}
