//! Options of text reports: unit, colours, order and number of rows.

use super::output::Target;
use clap::{Args, ValueEnum};
use sigprof_analysis::{
    Error,
    graph::Trim,
    profile::Profile,
    report::{Colors, Context},
    units::Scale,
};
use std::io::{self, IsTerminal as _, Write};

/// Unit and colours.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Shown {
    /// Unit of values: auto, ns, us, ms, s, min, hour, count, B, kB, MB, GB, TB
    #[arg(long, value_name = "UNIT", default_value = "auto", hide_short_help = true)]
    unit: String,

    /// When to use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", hide_short_help = true)]
    color: When,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Shown {
    /// Writes a report to standard output.
    ///
    /// # Errors
    /// If the unit does not fit the profile, or the report cannot be written.
    pub(crate) fn print<T>(
        &self,
        profile: &Profile,
        mut context: Context,
        write: impl FnOnce(&Context, &mut dyn Write) -> io::Result<T>,
    ) -> Result<T, Error> {
        let output = Target::default();
        self.prepare(profile, &mut context, output.terminal())?;
        output.write_text(|out| write(&context, out))
    }

    /// Sets unit, colours and width of a report; `terminal` is the output, if it may be a terminal.
    ///
    /// # Errors
    /// If the unit does not fit the profile.
    pub(crate) fn prepare(
        &self,
        profile: &Profile,
        context: &mut Context,
        terminal: Option<io::Stdout>,
    ) -> Result<(), Error> {
        if self.unit != "auto" {
            let values = &profile.sample_types[profile.default_type];
            context.scale = Some(Scale::named(&self.unit, &values.kind, &values.unit)?);
        }
        let wants_colors = |stdout| anstream::AutoStream::choice(stdout) != anstream::ColorChoice::Never;
        let has_colors = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => terminal.as_ref().is_some_and(wants_colors),
        };
        context.colors = if has_colors { Colors::terminal() } else { Colors::default() };
        let terminal = terminal.filter(|stdout| stdout.is_terminal());
        let size = terminal.and_then(terminal_size::terminal_size_of);
        context.width = size.map(|(width, _)| usize::from(width.0));
        Ok(())
    }
}

/// Order of rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows")]
pub(crate) struct Order {
    /// Sort by cumulative time (with callees) instead of own time
    #[arg(long)]
    pub(crate) cum: bool,
}

/// Order and number of rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows")]
pub(crate) struct RowLimits {
    #[command(flatten)]
    order: Order,

    /// Maximum number of rows; 0 for all
    #[arg(long, short = 'n', value_name = "N")]
    nodecount: Option<usize>,

    /// Hide rows below this share of the total
    #[arg(long, value_name = "SHARE", default_value_t = 0.005, hide_short_help = true)]
    nodefraction: f64,

    /// Hide rows with negative values
    #[arg(long, hide_short_help = true)]
    drop_negative: bool,

    /// In a comparison, hide rows if their difference is within noise
    #[arg(long)]
    significant: bool,
}

impl RowLimits {
    /// Returns the limits, by default with `count` rows.
    pub(crate) fn trim(&self, count: usize) -> Trim {
        Trim {
            nodes: self.nodecount.unwrap_or(count),
            node_fraction: self.nodefraction,
            edge_fraction: 0.0,
            drop_negative: self.drop_negative,
            only_significant: self.significant,
            by_cum: self.order.cum,
        }
    }
}

/// Limit of calls.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows")]
pub(crate) struct Edges {
    /// Hide calls below this share of the total
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, hide_short_help = true)]
    edgefraction: f64,
}

impl Edges {
    /// Adds the limit of calls.
    pub(crate) fn add_to(&self, trim: Trim) -> Trim {
        Trim { edge_fraction: self.edgefraction, ..trim }
    }
}
