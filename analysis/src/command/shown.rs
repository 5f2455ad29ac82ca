//! How text reports are shown: unit, colours, order, and how many rows. The options that they share.

use clap::{Args, ValueEnum};
use sigprof_analysis::{
    Error,
    graph::Trim,
    profile::Profile,
    report::{Colors, Context},
    units::Scale,
};
use std::{
    io::{self, BufWriter, IsTerminal as _, Write},
    path::Path,
};

/// Unit and colours.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Shown {
    /// The unit of values: auto, ns, us, ms, s, min, hour, count, B, kB, MB, GB, TB
    #[arg(long, value_name = "UNIT", default_value = "auto")]
    unit: String,

    /// When to use colours; auto does on a terminal, and obeys NO_COLOR and CLICOLOR_FORCE
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
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
    /// Writes a report to standard output, with `context` for what that is.
    ///
    /// # Errors
    /// Where the unit does not suit the profile, or the report cannot be written.
    pub(crate) fn print<T>(
        &self,
        profile: &Profile,
        mut context: Context,
        write: impl FnOnce(&Context, &mut dyn Write) -> io::Result<T>,
    ) -> Result<T, Error> {
        let stdout = io::stdout();
        if self.unit != "auto" {
            context.scale = Some(Scale::named(&self.unit, &profile.sample_types[profile.default_type])?);
        }
        let has_colors = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
        };
        context.colors = if has_colors { Colors::terminal() } else { Colors::default() };
        if stdout.is_terminal() {
            context.width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        }
        let mut out = BufWriter::with_capacity(1 << 16, stdout.lock());
        let done = write(&context, &mut out);
        done.and_then(|done| out.flush().map(|()| done))
            .map_err(|error| Error::io(Path::new("standard output"), "write", error))
    }
}

/// Order and number of rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows")]
pub(crate) struct Rows {
    /// Order by what functions take with all they call, not by what they take themselves
    #[arg(long)]
    cum: bool,

    /// Show so many rows at most; 0 for all
    #[arg(long, short = 'n', value_name = "N")]
    nodecount: Option<usize>,

    /// Leave out rows below this share of the total
    #[arg(long, value_name = "SHARE", default_value_t = 0.005)]
    nodefraction: f64,

    /// Leave out rows whose value is below 0, as those that took more in the base profile
    #[arg(long)]
    drop_negative: bool,
}

impl Rows {
    /// What to leave out, with `count` rows where nobody asks for another number.
    pub(crate) fn trim(&self, count: usize) -> Trim {
        Trim {
            nodes: self.nodecount.unwrap_or(count),
            node_fraction: self.nodefraction,
            edge_fraction: 0.0,
            drop_negative: self.drop_negative,
            by_cum: self.cum,
        }
    }
}
