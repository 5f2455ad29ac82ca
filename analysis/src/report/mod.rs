//! Profiles as text and pictures. A report takes a profile that has names, and writes; it opens no profile and asks for no
//! options of its own.

mod call_tree;
pub mod callgraph;
mod diff;
pub mod disasm;
pub mod dot;
pub mod flamegraph;
mod frame_colour;
mod frame_name;
mod header;
mod instructions;
pub mod list;
pub mod page;
pub mod raw;
mod short_name;
mod sources;
mod style;
mod table;
mod taken;
mod title;
pub mod top;
pub mod traces;
pub mod tree;
mod width;

pub use sources::SourcePaths;
pub use style::Colors;

use crate::{
    graph::{Change, Node, Sides},
    profile::{Profile, SampleRef},
    units::Scale,
};
use style::styled;

/// What a text report says besides the profile, and how.
#[derive(Clone, Debug)]
pub struct Context {
    /// What shares are of: the value of all samples before any were filtered out, each taken as positive; in a comparison that
    /// of the older ones.
    pub total: i64,
    /// The change of the whole profile; None if it is not a comparison.
    pub change: Option<Change>,
    /// The filters that the profile went through, as they were given.
    pub filters: Vec<String>,
    /// How values are written; None to choose what suits them.
    pub scale: Option<Scale>,
    /// The colours.
    pub colors: Colors,
    /// The width of the terminal, that names are cut to; None where they are whole.
    pub width: Option<usize>,
}

impl Context {
    /// That of a whole profile, in a pipe.
    pub fn new(profile: &Profile) -> Self {
        let sides = Sides::of(profile);
        let is_counted = |sample: &SampleRef<'_>| sides.as_ref().is_none_or(|sides| sides.is_base(*sample));
        let samples = profile.samples.iter().filter(is_counted);
        // It is cut where `Profile::sums_fit` says so.
        let values = samples.map(|sample| sample.values[profile.default_type].saturating_abs());
        let total = values.fold(0, i64::saturating_add);
        let change = sides.as_ref().map(|sides| sides.total(profile));
        Self { total, change, filters: Vec::new(), scale: None, colors: Colors::default(), width: None }
    }

    /// How the values of a report are written that has rows with these flat and cumulative values.
    fn scale(&self, profile: &Profile, rows: impl IntoIterator<Item = (i64, i64)>) -> Scale {
        self.scale_up_to(self.total, profile, rows)
    }

    /// The same for a report without the total.
    fn scale_up_to(
        &self,
        largest: i64,
        profile: &Profile,
        rows: impl IntoIterator<Item = (i64, i64)>,
    ) -> Scale {
        self.scale.unwrap_or_else(|| {
            let values = rows.into_iter().map(|(flat, cum)| if flat != 0 { flat } else { cum });
            let least = values.map(i64::saturating_abs).filter(|&value| value > 0).min();
            Scale::of_report(least.unwrap_or(0), largest, &profile.sample_types[profile.default_type].unit)
        })
    }

    /// The same for a report with a row for each node.
    fn scale_of_nodes(&self, profile: &Profile, nodes: &[Node]) -> Scale {
        self.scale(profile, nodes.iter().map(|node| (node.flat, node.cum)))
    }
}
