//! Options that choose the parts of a report, and the functions in them. Their order counts.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use sigprof_analysis::gprof::Section;

/// A part of a report: letter, name and help of the option that prints it, and of the one that does
/// not.
struct Kind {
    yes: (char, &'static str, &'static str),
    no: (char, &'static str, &'static str),
}

const KINDS: [Kind; 4] = [
    Kind {
        yes: ('p', "flat-profile", "Print the flat profile, or only the functions that match"),
        no: ('P', "no-flat-profile", "Print no flat profile, or the functions that do not match"),
    },
    Kind {
        yes: (
            'q',
            "graph",
            "Print the call graph and its index, or only the functions that match, and their callees; FROM/TO selects calls",
        ),
        no: ('Q', "no-graph", "Print no call graph, or the functions that do not match"),
    },
    Kind {
        yes: ('C', "exec-counts", "Print the number of calls of each function, or only of those that match"),
        no: ('Z', "no-exec-counts", "Print no numbers of calls, or those of functions that do not match"),
    },
    Kind {
        yes: (
            'A',
            "annotated-source",
            "Print sources with the number of calls of each function, or only of those that match",
        ),
        no: ('J', "no-annotated-source", "Print no sources, or with functions that do not match"),
    },
];

/// The parts of a report, in the order of [`KINDS`].
#[derive(Clone, Debug, Default)]
pub(super) struct Sections {
    sections: [Section; KINDS.len()],
    is_named: [bool; KINDS.len()],
}

impl Sections {
    /// True if an option has chosen a part.
    pub(super) fn is_any(&self) -> bool {
        self.sections.iter().any(|section| section.is_printed)
    }

    /// Chooses the flat profile and the call graph, as far as the data have them, except those that
    /// an option has excluded.
    pub(super) fn choose_default(&mut self, has_samples: bool, has_calls: bool) {
        let [flat, call_graph, ..] = &mut self.sections;
        flat.is_printed = has_samples && !self.is_named[0];
        call_graph.is_printed = has_calls && !self.is_named[1];
    }

    /// Returns the flat profile, the call graph, the numbers of calls, and the sources.
    pub(super) fn parts(&self) -> [Section; KINDS.len()] {
        self.sections.clone()
    }
}

impl Args for Sections {
    fn augment_args(command: Command) -> Command {
        let args = KINDS.iter().flat_map(|kind| [kind.yes, kind.no]).map(|(letter, name, help)| {
            Arg::new(name)
                .short(letter)
                .long(name)
                .help(help)
                .value_name("SPEC")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("")
                .action(ArgAction::Append)
                .help_heading("Output")
        });
        command.args(args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Sections {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut sections = Self::default();
        sections.update_from_arg_matches(matches)?;
        Ok(sections)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let parts = self.sections.iter_mut().zip(&mut self.is_named);
        for (kind, (section, is_named)) in KINDS.iter().zip(parts) {
            let values = |name: &str| {
                let values = matches.get_many::<String>(name).into_iter().flatten().cloned();
                matches.indices_of(name).into_iter().flatten().zip(values).collect::<Vec<_>>()
            };
            let all = |values: Vec<(usize, String)>, is_printed: bool| {
                values.into_iter().map(move |(place, spec)| (place, is_printed, spec))
            };
            let (yes, no) = (values(kind.yes.1), values(kind.no.1));
            let mut options: Vec<(usize, bool, String)> = all(yes, true).chain(all(no, false)).collect();
            options.sort();
            for (_, is_printed, spec) in options {
                *is_named = true;
                section.is_printed = is_printed || !spec.is_empty();
                let specs =
                    if is_printed { &mut section.specs.included } else { &mut section.specs.excluded };
                specs.extend((!spec.is_empty()).then_some(spec));
            }
        }
        Ok(())
    }
}
