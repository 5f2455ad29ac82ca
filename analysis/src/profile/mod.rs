//! The one model of a profile, that every format goes into and every report starts from.
//!
//! Its shape is that of pprof's `profile.proto`, held for a million samples at a time: samples are columns
//! ([`Samples`]), and whatever is many and alike is kept once and named by a number ([`LocationId`], [`FunctionId`],
//! [`MappingId`], [`LabelSetId`]). Numbers count from 0 and are places in the profile's vectors; a profile whose numbers
//! lie outside is not made by any reader ([`Profile::check`]).

mod base;
mod builder;
mod label_sets;
mod merge;
mod samples;
mod threads;
mod unite;

pub use base::{compare, normalize, subtract};
pub use builder::Builder;
pub(crate) use label_sets::LabelSets;
pub(crate) use merge::Merger;
pub use merge::merge;
pub use samples::{SampleRef, Samples};
pub(crate) use threads::{Thread, Threads};

use std::{path::PathBuf, sync::Arc};

/// What the comment of a recorded profile begins with that has the command.
pub const COMMAND: &str = "command: ";

/// Samples, and all that is known of what was sampled.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What the values of a sample are, at least one; each sample has as many values, in this order.
    pub sample_types: Vec<ValueType>,
    /// The place in `sample_types` that reports show where nobody chose another.
    pub default_type: usize,
    /// What `period` counts; None where the profile does not say.
    pub period_type: Option<ValueType>,
    /// The distance between two samples, in units of `period_type`; 0 where it is not known.
    pub period: i64,
    /// When it began, in nanoseconds since 1970; 0 where it is not known.
    pub time_nanos: i64,
    /// How long it took, in nanoseconds; 0 where it is not known.
    pub duration_nanos: i64,
    /// Free text, shown above reports.
    pub comments: Vec<Arc<str>>,
    /// Regular expression of functions whose frames, with those they call, are no part of the program; empty for none.
    pub drop_frames: Arc<str>,
    /// Regular expression of functions that `drop_frames` spares; empty for none.
    pub keep_frames: Arc<str>,
    /// Address of a page that tells about the profile; empty for none.
    pub doc_url: Arc<str>,
    /// The mapped objects. The first is the program itself, where that is known.
    pub mappings: Vec<Mapping>,
    /// The functions.
    pub functions: Vec<Function>,
    /// The places in code that chains are made of.
    pub locations: Vec<Location>,
    /// The sets of labels that samples name. The first is empty.
    pub label_sets: Vec<Vec<Label>>,
    /// The samples.
    pub samples: Samples,
    /// A value, the period or the duration did not fit into 64 bits with a sign, and is the largest or smallest number that does.
    pub is_clamped: bool,
    /// Sample types that a merge left out, because not all of the profiles have them.
    pub left_out: Vec<ValueType>,
    /// What the numbers of the newer samples of a comparison were multiplied by when they were [normalized](normalize); else 1.
    pub count_factor: f64,
}

/// What a value counts, and in which unit, as `cpu` in `nanoseconds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// What is counted: `samples`, `cpu`, `wall`.
    pub kind: Arc<str>,
    /// The unit: `count`, `nanoseconds`, `bytes`.
    pub unit: Arc<str>,
}

impl ValueType {
    /// `kind` in `unit`.
    pub fn new(kind: &str, unit: &str) -> Self {
        Self { kind: kind.into(), unit: unit.into() }
    }

    /// True for the number of samples, as CPU profiles have it.
    pub fn is_sample_count(&self) -> bool {
        *self.kind == *"samples" && *self.unit == *"count"
    }
}

impl std::fmt::Display for ValueType {
    /// `kind/unit`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.kind, self.unit)
    }
}

/// A range of addresses, and the file that is mapped there. Addresses are those of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after the range.
    pub end: u64,
    /// Where in the file the range begins, in bytes.
    pub file_offset: u64,
    /// The file, as the process named it, without the kernel's ` (deleted)`; or a name such as `[vdso]`; empty for none.
    pub file: PathBuf,
    /// The linker's build id, in lower-case hexadecimal digits; empty where it is not known.
    pub build_id: Arc<str>,
    /// The file had been deleted or replaced when the list was written.
    pub is_deleted: bool,
    /// The program has moved this code to memory without a file, at its own addresses, and `file_offset` is the distance in memory
    /// from the first byte of the file. [`Symbolizer::settle_moved`](crate::symbolize::Symbolizer::settle_moved) makes it the
    /// offset in the file.
    pub is_moved: bool,
    /// Process id, where that is known: names of code without a file are looked up by it.
    pub process: Option<u32>,
    /// What names are there already, and need not be looked up.
    pub has: Known,
}

/// What is known of the locations of a mapping, as `profile.proto` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Functions.
    pub functions: bool,
    /// Files.
    pub files: bool,
    /// Lines.
    pub lines: bool,
    /// Inlined calls.
    pub inlines: bool,
}

/// A place in code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The object that it lies in.
    pub mapping: Option<MappingId>,
    /// The address to look up, in the process: of the instruction that ran, or, for a caller, one that lies within the call
    /// (the return address less one). 0 where it is not known, as in profiles that have names alone.
    pub address: u64,
    /// The functions there, innermost first; all but the last were inlined into the one behind. Empty where no name is known.
    pub lines: Vec<Line>,
    /// Several symbols share this address, as the linker folded identical functions; the name is one of theirs.
    pub is_folded: bool,
}

/// A function at a location, and where in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// The line in the function's file, from 1; 0 where it is not known.
    pub line: i64,
    /// The column, from 1; 0 where it is not known.
    pub column: i64,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// As a person writes it (demangled).
    pub name: Arc<str>,
    /// As the linker has it; the same as `name` where there is no other.
    pub system_name: Arc<str>,
    /// The source file; empty where it is not known.
    pub file: Arc<str>,
    /// The line where the function begins, from 1; 0 where it is not known.
    pub start_line: i64,
}

/// What is said of a sample besides its chain: its thread, its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// What it is: one of [`label`], or a word of the program's own.
    pub key: Arc<str>,
    /// Its value.
    pub value: LabelValue,
}

/// The value of a [`Label`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelValue {
    /// Text.
    Text(Arc<str>),
    /// A number, with its unit (`bytes`); empty for none.
    Number(i64, Arc<str>),
}

/// The keys of the labels that are ours.
pub mod label {
    /// Name of the sample's thread; text.
    pub const THREAD: &str = "thread";
    /// The kernel's id of the thread; a number.
    pub const THREAD_ID: &str = "tid";
    /// Name of the sample's program; text.
    pub const PROCESS: &str = "process";
    /// Process id; a number.
    pub const PROCESS_ID: &str = "pid";
    /// Marks samples of the older profile in a comparison, as in pprof; the text `true`.
    pub const BASE: &str = "pprof::base";
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number for the thing at place `index` of its vector.
            ///
            /// # Panics
            /// From 2^32 on, which no reader reaches: it would take as many bytes of input.
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 of a kind"))
            }

            /// The place in the vector.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// Place of a [`Location`] in [`Profile::locations`].
    LocationId;
    /// Place of a [`Function`] in [`Profile::functions`].
    FunctionId;
    /// Place of a [`Mapping`] in [`Profile::mappings`].
    MappingId;
    /// Place of a set of labels in [`Profile::label_sets`]; 0 is the empty one.
    LabelSetId;
}

impl Profile {
    /// A profile without samples.
    pub fn new(sample_types: Vec<ValueType>) -> Self {
        let width = sample_types.len();
        Self {
            default_type: width.saturating_sub(1),
            sample_types,
            period_type: None,
            period: 0,
            time_nanos: 0,
            duration_nanos: 0,
            comments: Vec::new(),
            drop_frames: "".into(),
            keep_frames: "".into(),
            doc_url: "".into(),
            mappings: Vec::new(),
            functions: Vec::new(),
            locations: Vec::new(),
            label_sets: vec![Vec::new()],
            samples: Samples::new(width),
            is_clamped: false,
            left_out: Vec::new(),
            count_factor: 1.0,
        }
    }

    /// The command that was recorded, cut where it is long; None where the comments name none, or several.
    pub fn command(&self) -> Option<&str> {
        let mut commands = self.comments.iter().filter_map(|comment| comment.strip_prefix(COMMAND));
        let command = commands.next().filter(|command| !command.is_empty());
        command.filter(|_| commands.next().is_none())
    }

    /// The two values that a CPU profile has: `samples` in `count`, and `cpu` in `nanoseconds`.
    pub fn cpu_types() -> Vec<ValueType> {
        vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")]
    }

    /// The location of a number of this profile.
    ///
    /// # Panics
    /// For a number of another profile.
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.index()]
    }

    /// The function of a number of this profile.
    ///
    /// # Panics
    /// For a number of another profile.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// The mapping that a location lies in.
    ///
    /// # Panics
    /// For a location of another profile.
    pub fn mapping_of(&self, location: &Location) -> Option<&Mapping> {
        location.mapping.map(|id| &self.mappings[id.index()])
    }

    /// The labels of a sample.
    ///
    /// # Panics
    /// For a number of another profile.
    pub fn labels(&self, id: LabelSetId) -> &[Label] {
        &self.label_sets[id.index()]
    }

    /// For each set of labels, whether it marks samples of the older profile ([`label::BASE`]); None if the profile is not a
    /// comparison.
    pub fn base_sets(&self) -> Option<Vec<bool>> {
        let is_mark = |label: &Label| {
            *label.key == *label::BASE && matches!(&label.value, LabelValue::Text(text) if **text == *"true")
        };
        let sets: Vec<bool> = self.label_sets.iter().map(|labels| labels.iter().any(is_mark)).collect();
        sets.contains(&true).then_some(sets)
    }

    /// The sum of one value over all samples. It saturates, as every sum of values does.
    pub fn total(&self, sample_type: usize) -> i64 {
        let values = self.samples.iter().map(|sample| i128::from(sample.values[sample_type]));
        values.sum::<i128>().clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Whether no sum of one value, over whichever samples, is beyond 64 bits with a sign: that of all of them taken as positive
    /// is not.
    pub fn sums_fit(&self, sample_type: usize) -> bool {
        let values = self.samples.iter().map(|sample| i128::from(sample.values[sample_type]));
        values.map(i128::abs).sum::<i128>() <= i64::MAX.into()
    }

    /// Tells what does not fit together: a number that is beyond its vector, samples of another width.
    pub fn check(&self) -> Result<(), String> {
        let width = self.sample_types.len();
        if width == 0 || self.samples.width() != width || self.default_type >= width {
            return Err(format!(
                "{width} sample types, of which {} is the default, and {} values a sample",
                self.default_type,
                self.samples.width()
            ));
        }
        if self.label_sets.first().is_none_or(|labels| !labels.is_empty()) {
            return Err("the first set of labels is not empty".into());
        }
        for (place, location) in self.locations.iter().enumerate() {
            if location.mapping.is_some_and(|id| id.index() >= self.mappings.len()) {
                return Err(format!("location {place} has a mapping that is none"));
            }
            if location.lines.iter().any(|line| line.function.index() >= self.functions.len()) {
                return Err(format!("location {place} has a function that is none"));
            }
        }
        for (place, sample) in self.samples.iter().enumerate() {
            if sample.chain.iter().any(|id| id.index() >= self.locations.len()) {
                return Err(format!("sample {place} has a location that is none"));
            }
            if sample.labels.index() >= self.label_sets.len() {
                return Err(format!("sample {place} has a set of labels that is none"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let mut profile = Profile::new(Profile::cpu_types());
        profile.locations.push(Location { address: 1, ..Location::default() });
        profile.samples.push(&[LocationId(0)], &[1, 10], LabelSetId(0));
        profile
    }

    #[test]
    fn a_total_is_of_one_value() {
        let mut profile = profile();
        profile.samples.push(&[LocationId(0)], &[2, 30], LabelSetId(0));
        assert_eq!((profile.total(0), profile.total(1)), (3, 40));
        assert!(profile.sums_fit(1));
        profile.samples.push(&[], &[0, i64::MAX], LabelSetId(0));
        assert_eq!(profile.total(1), i64::MAX);
        assert_eq!((profile.sums_fit(0), profile.sums_fit(1)), (true, false));
        // What comes last takes from the sum itself, and not from what it was cut to.
        profile.samples.push(&[], &[0, -50], LabelSetId(0));
        assert_eq!(profile.total(1), i64::MAX - 10);
        assert!(!profile.sums_fit(1));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        assert_eq!(profile().check(), Ok(()));
        type Spoil = fn(&mut Profile);
        let cases: [(Spoil, &str); 7] = [
            (|profile| profile.default_type = 2, "of which 2 is the default"),
            (|profile| profile.sample_types.clear(), "0 sample types"),
            (|profile| profile.label_sets.clear(), "the first set"),
            (|profile| profile.locations[0].mapping = Some(MappingId(0)), "location 0 has a mapping"),
            (
                |profile| {
                    profile.locations[0].lines.push(Line { function: FunctionId(3), line: 0, column: 0 })
                },
                "location 0 has a function",
            ),
            (|profile| profile.locations.clear(), "sample 0 has a location"),
            (|profile| profile.samples.push(&[], &[1, 1], LabelSetId(1)), "sample 1 has a set of labels"),
        ];
        for (spoil, reason) in cases {
            let mut profile = profile();
            spoil(&mut profile);
            assert!(profile.check().is_err_and(|error| error.contains(reason)), "{reason}");
        }
    }
}
