//! Colours of reports for terminals.

use crate::graph::Change;
use anstyle::{AnsiColor, Style};
use std::fmt::Display;

/// The colours of a report; the default is none, for a pipe or file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Colors {
    /// Headings.
    pub heading: Style,
    /// Values of a tenth of the total or more.
    pub hot: Style,
    /// In a comparison, less than in the base; [`hot`](Self::hot) is more.
    pub less: Style,
    /// Values of a hundredth of the total or more.
    pub warm: Style,
    /// Smaller values, and context.
    pub cold: Style,
}

impl Colors {
    /// Returns the colours for a terminal.
    pub fn terminal() -> Self {
        Self {
            heading: Style::new().bold(),
            hot: AnsiColor::Red.on_default().bold(),
            less: AnsiColor::BrightBlue.on_default().bold(),
            warm: AnsiColor::Yellow.on_default(),
            cold: Style::new().dimmed(),
        }
    }

    /// Returns the style of a row of a comparison.
    pub fn of_change(&self, change: &Change) -> Style {
        match change.difference() {
            _ if !change.is_significant() => self.cold,
            0 => self.cold,
            difference if difference > 0 => self.hot,
            _ => self.less,
        }
    }

    /// Returns the style of a value.
    pub fn of(&self, value: i64, total: i64) -> Style {
        let (value, total) = (value.unsigned_abs(), total.unsigned_abs());
        if value >= total / 10 && value != 0 {
            self.hot
        } else if value >= total / 100 && value != 0 {
            self.warm
        } else {
            self.cold
        }
    }
}

pub(super) fn styled(style: Style, text: impl Display) -> impl Display {
    format!("{style}{text}{style:#}")
}
