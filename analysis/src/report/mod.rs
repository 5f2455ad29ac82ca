//! Reports as text and pictures. They take a profile with names, and read no files or options.

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

/// Parameters of text reports besides the profile.
#[derive(Clone, Debug)]
pub struct Context {
    /// Base of percentages: the unfiltered sum of absolute values, in a comparison of the base.
    pub total: i64,
    /// The change of the whole profile; None if it is not a comparison.
    pub change: Option<Change>,
    /// The applied filters, as the user wrote them.
    pub filters: Vec<String>,
    /// Unit of values; None to choose one automatically.
    pub scale: Option<Scale>,
    /// The colours.
    pub colors: Colors,
    /// Terminal width that names are cut to; None for no limit.
    pub width: Option<usize>,
}

impl Context {
    /// Creates the context of an unfiltered profile, for a pipe.
    pub fn new(profile: &Profile) -> Self {
        let sides = Sides::of(profile);
        let is_counted = |sample: &SampleRef<'_>| sides.as_ref().is_none_or(|sides| sides.is_base(*sample));
        let samples = profile.samples.iter().filter(is_counted);
        // Saturates if `Profile::sums_fit` is false.
        let values = samples.map(|sample| sample.values[profile.default_type].saturating_abs());
        let total = values.fold(0, i64::saturating_add);
        let change = sides.as_ref().map(|sides| sides.total(profile));
        Self { total, change, filters: Vec::new(), scale: None, colors: Colors::default(), width: None }
    }

    /// Returns the unit for a report with rows of these flat and cumulative values.
    fn scale(&self, profile: &Profile, rows: impl IntoIterator<Item = (i64, i64)>) -> Scale {
        self.scale_up_to(self.total, profile, rows)
    }

    /// As `scale`, for a report without the total.
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

    /// As `scale`, for a report with a row for each node.
    fn scale_of_nodes(&self, profile: &Profile, nodes: &[Node]) -> Scale {
        self.scale(profile, nodes.iter().map(|node| (node.flat, node.cum)))
    }
}
