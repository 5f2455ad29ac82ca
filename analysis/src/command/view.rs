//! Filters and granularity: options of reports and pictures.

use clap::{Args, ValueEnum};
use sigprof_analysis::{
    Error,
    error::ErrorKind,
    filter::{FrameFilter, LabelFilter, LabelMatch, ThreadFilter, add_label_frames, drop_frames, expression},
    granularity::Granularity,
    profile::{Profile, normalize},
    report::Context,
};

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct View {
    /// Keep only samples with a function, file or object that matches
    #[arg(long, value_name = "REGEX")]
    focus: Option<String>,

    /// Drop samples with a function, file or object that matches
    #[arg(long, value_name = "REGEX")]
    ignore: Option<String>,

    /// Remove matching functions from call stacks
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    hide: Option<String>,

    /// Remove all other functions from call stacks
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    show: Option<String>,

    /// Remove the callers of the outermost matching function; drop samples without one
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    show_from: Option<String>,

    /// Remove the callees of the innermost matching function
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    prune_from: Option<String>,

    /// Keep only samples with a label that matches: [KEY=]REGEX, or a range such as [KEY=]1kb:4mb
    #[arg(long, value_name = "MATCH", hide_short_help = true)]
    tagfocus: Option<String>,

    /// Drop samples with a label that matches
    #[arg(long, value_name = "MATCH", hide_short_help = true)]
    tagignore: Option<String>,

    /// Drop labels with a key that does not match
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    tagshow: Option<String>,

    /// Drop labels with a key that matches
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    taghide: Option<String>,

    /// Add labels with these keys as outermost frames
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_short_help = true)]
    tagroot: Vec<String>,

    /// Add labels with these keys as innermost frames
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_short_help = true)]
    tagleaf: Vec<String>,

    /// Keep only threads with a matching name
    #[arg(long, value_name = "REGEX")]
    thread: Option<String>,

    /// Keep only the thread with this id
    #[arg(long, value_name = "ID", hide_short_help = true)]
    tid: Option<i64>,

    /// Keep only processes with a matching name
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    process: Option<String>,

    /// Keep only the process with this id
    #[arg(long, value_name = "ID", hide_short_help = true)]
    pid: Option<i64>,

    #[command(flatten)]
    values: ValueOptions,

    /// In a comparison, scale the newer values to the total of OLD, to compare shares
    #[arg(long, help_heading = "Values", hide_short_help = true)]
    normalize: bool,

    /// Percentages of the filtered profile, not of the whole one
    #[arg(long, alias = "relative-percentages", help_heading = "Values", hide_short_help = true)]
    relative: bool,

    /// Aggregation level of rows and frames
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Values")]
    granularity: Option<RowKind>,

    /// Attribute inlined functions to their caller
    #[arg(
        long,
        alias = "noinlines",
        overrides_with = "inlines",
        help_heading = "Values",
        hide_short_help = true
    )]
    no_inlines: bool,

    /// Show inlined functions [default in most reports]
    #[arg(long, overrides_with = "no_inlines", help_heading = "Values", hide_short_help = true)]
    inlines: bool,
}

/// Selection of the value.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Values")]
pub(crate) struct ValueOptions {
    /// Value to show, by name, such as samples or cpu, or by number from 0 [default: the profile's own]
    #[arg(long, value_name = "TYPE", alias = "sample-index", hide_short_help = true)]
    sample_type: Option<String>,
}

impl ValueOptions {
    /// Returns the index of the selected sample type.
    ///
    /// # Errors
    /// If the profile does not have it.
    pub(crate) fn place(&self, profile: &Profile) -> Result<usize, Error> {
        self.sample_type.as_ref().map_or(Ok(profile.default_type), |name| sample_type(profile, name))
    }
}

/// [`Granularity`] as an option.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RowKind {
    /// Instructions
    Addresses,
    /// Source lines
    Lines,
    /// Functions, by name
    Functions,
    /// Source files
    Files,
    /// Functions, by name and file
    #[value(name = "filefunctions")]
    FileFunctions,
}

impl From<RowKind> for Granularity {
    fn from(rows: RowKind) -> Self {
        match rows {
            RowKind::Addresses => Self::Addresses,
            RowKind::Lines => Self::Lines,
            RowKind::Functions => Self::Functions,
            RowKind::Files => Self::Files,
            RowKind::FileFunctions => Self::FileFunctions,
        }
    }
}

impl View {
    /// Returns the index of the shown sample type.
    ///
    /// # Errors
    /// If the profile does not have it.
    pub(crate) fn sample_type(&self, profile: &Profile) -> Result<usize, Error> {
        self.values.place(profile)
    }

    /// Returns the filtered profile, by default with functions as rows.
    ///
    /// # Errors
    /// If a regular expression is invalid, or the profile lacks what a filter or type needs.
    pub(crate) fn apply(&self, profile: Profile) -> Result<Profile, Error> {
        self.look(profile, Granularity::Functions).map(|(profile, _)| profile)
    }

    /// Returns the filtered profile, and the context of reports. `granularity` is the default.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply).
    pub(crate) fn look(
        &self,
        profile: Profile,
        granularity: Granularity,
    ) -> Result<(Profile, Context), Error> {
        let granularity = self.granularity.map_or(granularity, Into::into);
        self.filter(profile, granularity, !self.no_inlines)
    }

    /// As [`look`](Self::look), for a report with a fixed kind of rows.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply), and if other rows are requested.
    pub(crate) fn look_at(
        &self,
        profile: Profile,
        granularity: Granularity,
        inlines: bool,
    ) -> Result<(Profile, Context), Error> {
        if self.granularity.is_some_and(|other| Granularity::from(other) != granularity) {
            return Err(Error::new(
                ErrorKind::Request,
                "--granularity: this report has only one kind of rows",
            )
            .advise("leave the option out, or use `sigprof top`"));
        }
        if self.inlines && !inlines {
            return Err(Error::new(
                ErrorKind::Request,
                "--inlines: this report shows instructions, and each belongs to one function",
            )
            .advise("leave the option out"));
        }
        self.filter(profile, granularity, inlines && !self.no_inlines)
    }

    fn filter(
        &self,
        mut profile: Profile,
        granularity: Granularity,
        inlines: bool,
    ) -> Result<(Profile, Context), Error> {
        profile.default_type = self.values.place(&profile)?;
        let compile = |option: &str, text: &Option<String>| {
            text.as_ref().map(|text| expression(&format!("--{option}"), text)).transpose()
        };
        let tags = |option: &str, text: &Option<String>| {
            text.as_ref().map(|text| LabelMatch::parse(&format!("--{option}"), text)).transpose()
        };
        let frames = FrameFilter {
            focus: compile("focus", &self.focus)?,
            ignore: compile("ignore", &self.ignore)?,
            hide: compile("hide", &self.hide)?,
            show: compile("show", &self.show)?,
            show_from: compile("show-from", &self.show_from)?,
            prune_from: compile("prune-from", &self.prune_from)?,
        };
        let labels = LabelFilter {
            focus: tags("tagfocus", &self.tagfocus)?,
            ignore: tags("tagignore", &self.tagignore)?,
            show: compile("tagshow", &self.tagshow)?,
            hide: compile("taghide", &self.taghide)?,
        };
        let threads = ThreadFilter {
            thread: compile("thread", &self.thread)?,
            thread_id: self.tid,
            process: compile("process", &self.process)?,
            process_id: self.pid,
        };

        if self.normalize && !normalize(&mut profile) {
            return Err(Error::new(
                ErrorKind::Request,
                "--normalize: the profile is not a comparison, or one side is empty",
            )
            .advise("use it with --diff-base OLD"));
        }
        drop_frames(&mut profile)?;
        let mut context = Context::new(&profile);
        super::warn_of_sums(&profile, std::iter::once(profile.default_type));
        let mut idle = add_label_frames(&mut profile, &self.tagroot, &self.tagleaf);
        idle.extend(threads.apply(&mut profile)?);
        idle.extend(labels.apply(&mut profile));
        idle.extend(frames.apply(&mut profile));
        for option in idle {
            eprintln!("sigprof: --{option} matches nothing in this profile");
        }
        if self.relative {
            context = Context::new(&profile);
        }
        context.filters = self.active();
        granularity.apply(&mut profile, inlines);
        Ok((profile, context))
    }

    /// Returns the given filters as `option=value`.
    fn active(&self) -> Vec<String> {
        let id = |id: &Option<i64>| id.map(|id| id.to_string());
        let given = [
            ("focus", self.focus.clone()),
            ("ignore", self.ignore.clone()),
            ("hide", self.hide.clone()),
            ("show", self.show.clone()),
            ("show-from", self.show_from.clone()),
            ("prune-from", self.prune_from.clone()),
            ("tagfocus", self.tagfocus.clone()),
            ("tagignore", self.tagignore.clone()),
            ("tagshow", self.tagshow.clone()),
            ("taghide", self.taghide.clone()),
            ("thread", self.thread.clone()),
            ("tid", id(&self.tid)),
            ("process", self.process.clone()),
            ("pid", id(&self.pid)),
        ];
        given.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}"))).collect()
    }
}

/// Returns the index of a sample type.
fn sample_type(profile: &Profile, name: &str) -> Result<usize, Error> {
    let types = &profile.sample_types;
    let by_name = types.iter().position(|one| *one.kind == *name);
    let by_place = || name.parse().ok().filter(|&place| place < types.len());
    by_name.or_else(by_place).ok_or_else(|| {
        let known: Vec<&str> = types.iter().map(|one| &*one.kind).collect();
        Error::new(ErrorKind::Request, format!("--sample-type: the profile has no sample type `{name}`"))
            .advise(format!("it has {}", known.join(", ")))
    })
}
