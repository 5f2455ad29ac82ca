//! `sigprof completions`: shell completions.

use super::Arguments;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use sigprof_analysis::Error;
use std::{io, path::Path, process::ExitCode};

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions
  sigprof completions bash > ~/.local/share/bash-completion/completions/sigprof
  sigprof completions zsh > ~/.zfunc/_sigprof   # .zshrc: fpath+=(~/.zfunc) before compinit
  sigprof completions fish > ~/.config/fish/completions/sigprof.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        io::Write::write_all(&mut io::stdout(), script(self.shell).as_bytes())
            .map_err(|error| Error::io(Path::new("standard output"), "write", error))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the shell's definitions, and additions for commands to record.
fn script(shell: Shell) -> String {
    let mut main = Arguments::command();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut main, "sigprof", &mut text);
    let mut text = String::from_utf8(text).expect("the definitions are text");
    match shell {
        Shell::Bash => text += &BASH.replace("RECORD_OPTIONS", &record_options(&main).join("|")),
        Shell::Fish => {
            // Options after the command to record belong to that command.
            let of_record = "\"__fish_sigprof_using_subcommand record\"";
            debug_assert!(text.contains(of_record), "`clap_complete` has other words for it");
            text = text.replace(of_record, "\"__fish_sigprof_before_command\"");
            text += &FISH
                .replace("RECORD_OPTIONS", &record_options(&main).join(" "))
                .replace("SHELLS", &shells(&main).join(" "));
        }
        _ => {}
    }
    text
}

/// Replaces and calls clap's function, which does not complete files where an option is possible,
/// words of a command, or values after `=`.
const BASH: &str = r#"
_sigprof_line() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at
    # --option=value is three words.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = && $COMP_CWORD -gt 2 ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if [[ ${COMP_WORDS[1]} == record ]]; then
        for ((at = 2; at <= COMP_CWORD; at++)); do
            case ${COMP_WORDS[at]} in
                --) ((at++)); break ;;
                RECORD_OPTIONS)
                    ((at++))
                    [[ ${COMP_WORDS[at]} != = ]] || ((at++)) ;;
                -?*) ;;
                *) break ;;
            esac
        done
        if ((at < COMP_CWORD)); then
            # As the command itself is completed, where somebody defined that.
            COMPREPLY=()
            ! declare -F _command_offset > /dev/null || _command_offset "$at"
            return 0
        elif ((at == COMP_CWORD)) && [[ $word != -* || ${COMP_WORDS[at-1]} == -- ]]; then
            compopt -o filenames 2> /dev/null
            COMPREPLY=( $(compgen -c -- "$word") )
            return 0
        fi
    fi
    _sigprof "$1" "$word" "$before"
    if [[ $word != -* ]]; then
        local reply
        for at in "${!COMPREPLY[@]}"; do
            reply=${COMPREPLY[at]}
            # Options are offered only after a dash; a placeholder for a file is no completion.
            [[ $reply != -* && $reply != [\[\<]* && $reply != *... ]] || unset "COMPREPLY[at]"
        done
    fi
}

complete -F _sigprof_line -o bashdefault -o default sigprof
"#;

/// Additions to clap's completions, which are of options only: commands, and other words.
const FISH: &str = r#"
function __fish_sigprof_before_command
    __fish_sigprof_using_subcommand record
    or return
    set -l words (commandline -opc)
    set -l at 3
    while set -q words[$at]
        switch $words[$at]
            case - --
                return 1
            case RECORD_OPTIONS
                set at (math $at + 1)
            case '-*'
            case '*'
                return 1
        end
        set at (math $at + 1)
    end
    return 0
end

complete -c sigprof -n "__fish_sigprof_using_subcommand record" -x -a "(__fish_complete_subcommand --fcs-skip=2 RECORD_OPTIONS)"
complete -c sigprof -n "__fish_sigprof_using_subcommand completions; and not __fish_seen_subcommand_from SHELLS" -x -a "SHELLS"
complete -c sigprof -n "__fish_sigprof_using_subcommand completions" -f
complete -c sigprof -n "__fish_sigprof_using_subcommand manual" -x -a "(__fish_complete_directories)"
"#;

/// Returns the options of `record` that take a value.
fn record_options(main: &Command) -> Vec<String> {
    let record = main.find_subcommand("record").expect("is defined");
    let options = record.get_opts().filter(|option| option.get_action().takes_values());
    let mut names: Vec<String> = options
        .flat_map(|option| {
            let long = option.get_long().map(|long| format!("--{long}"));
            long.into_iter().chain(option.get_short().map(|short| format!("-{short}")))
        })
        .collect();
    // fish's function treats long options as its own until the first short one.
    names.sort_by_key(|name| name.starts_with("--"));
    names
}

/// Returns the supported shells.
fn shells(main: &Command) -> Vec<String> {
    let completions = main.find_subcommand("completions").expect("is defined");
    let values = completions.get_positionals().flat_map(clap::Arg::get_possible_values);
    values.map(|value| value.get_name().to_owned()).collect()
}
