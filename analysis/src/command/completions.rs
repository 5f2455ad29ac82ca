//! `sigprof completions`: what a shell needs to complete the commands.

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
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        io::Write::write_all(&mut io::stdout(), script(self.shell).as_bytes())
            .map_err(|error| Error::io(Path::new("standard output"), "write", error))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What the shell reads: the definitions, and what they cannot say of commands that are recorded.
fn script(shell: Shell) -> String {
    let mut main = Arguments::command();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut main, "sigprof", &mut text);
    let mut text = String::from_utf8(text).expect("the definitions are text");
    match shell {
        Shell::Bash => text += &BASH.replace("RECORD_OPTIONS", &record_options(&main).join("|")),
        Shell::Fish => {
            // Behind the command that is recorded stand its own options, whatever ours are called.
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

/// Replaces clap's own function, and calls it. clap's function completes neither files where an option may stand, nor the words of
/// a command, nor values after `=`.
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
            # Options are for who begins one; what stands for a file is none.
            [[ $reply != -* && $reply != [\[\<]* && $reply != *... ]] || unset "COMPREPLY[at]"
        done
    fi
}

complete -F _sigprof_line -o bashdefault -o default sigprof
"#;

/// Besides clap's, which knows of no words but options: neither of a command, nor of where names of files are none.
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

/// The options of `record` behind which a value stands.
fn record_options(main: &Command) -> Vec<String> {
    let record = main.find_subcommand("record").expect("is defined");
    let options = record.get_opts().filter(|option| option.get_action().takes_values());
    let mut names: Vec<String> = options
        .flat_map(|option| {
            let long = option.get_long().map(|long| format!("--{long}"));
            long.into_iter().chain(option.get_short().map(|short| format!("-{short}")))
        })
        .collect();
    // The function of fish takes long ones for its own until there is a short one.
    names.sort_by_key(|name| name.starts_with("--"));
    names
}

/// The shells that there are completions for.
fn shells(main: &Command) -> Vec<String> {
    let completions = main.find_subcommand("completions").expect("is defined");
    let values = completions.get_positionals().flat_map(clap::Arg::get_possible_values);
    values.map(|value| value.get_name().to_owned()).collect()
}
