//! The model of a profile, common to all formats and reports.
//!
//! It has the structure of pprof's `profile.proto`, for a million samples: samples are stored as
//! columns ([`Samples`]), and repeated items once, with an ID ([`LocationId`], [`FunctionId`],
//! [`MappingId`], [`LabelSetId`]). An ID is an index in a vector of the profile. All readers make
//! sure that IDs are in range ([`Profile::check`]).

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

/// Prefix of the comment with the recorded command.
pub const COMMAND: &str = "command: ";

/// Samples, and what they refer to.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Types of the values of each sample, in order; at least one.
    pub sample_types: Vec<ValueType>,
    /// Index in `sample_types` of the type that reports show by default.
    pub default_type: usize,
    /// Kind and unit of `period`; None if unknown.
    pub period_type: Option<ValueType>,
    /// Distance between two samples, in units of `period_type`; 0 if unknown.
    pub period: i64,
    /// Start time, in nanoseconds since 1970; 0 if unknown.
    pub time_nanos: i64,
    /// Duration in nanoseconds; 0 if unknown.
    pub duration_nanos: i64,
    /// Free text, shown above reports.
    pub comments: Vec<Arc<str>>,
    /// Regular expression of functions to drop, with their callees; or empty.
    pub drop_frames: Arc<str>,
    /// Regular expression of exceptions to `drop_frames`; empty for none.
    pub keep_frames: Arc<str>,
    /// URL of a documentation page of the profile; empty for none.
    pub doc_url: Arc<str>,
    /// The mapped objects. The first is the program, if known.
    pub mappings: Vec<Mapping>,
    /// The functions.
    pub functions: Vec<Function>,
    /// The locations that call stacks consist of.
    pub locations: Vec<Location>,
    /// The sets of labels of samples. The first is empty.
    pub label_sets: Vec<Vec<Label>>,
    /// The samples.
    pub samples: Samples,
    /// A value, the period or the duration exceeded 64 bits with a sign, and saturated.
    pub is_clamped: bool,
    /// Sample types that a merge left out, because not all profiles have them.
    pub left_out: Vec<ValueType>,
    /// Factor of the newer sample counts of a [normalized](normalize) comparison; otherwise 1.
    pub count_factor: f64,
}

/// Kind and unit of a value, such as `cpu` in `nanoseconds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// What is counted: `samples`, `cpu`, `wall`.
    pub kind: Arc<str>,
    /// The unit: `count`, `nanoseconds`, `bytes`.
    pub unit: Arc<str>,
}

impl ValueType {
    /// Creates a type of `kind` in `unit`.
    pub fn new(kind: &str, unit: &str) -> Self {
        Self { kind: kind.into(), unit: unit.into() }
    }

    /// True for the number of samples in CPU profiles.
    pub fn is_sample_count(&self) -> bool {
        *self.kind == *"samples" && *self.unit == *"count"
    }
}

impl std::fmt::Display for ValueType {
    /// Writes `kind/unit`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.kind, self.unit)
    }
}

/// A range of addresses of the process, and the file that is mapped there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after the range.
    pub end: u64,
    /// Offset in the file of the first byte, in bytes.
    pub file_offset: u64,
    /// Path in the process, without the suffix ` (deleted)`; a name such as `[vdso]`; or empty.
    pub file: PathBuf,
    /// The linker's build ID, in lower-case hexadecimal digits; empty if unknown.
    pub build_id: Arc<str>,
    /// The file had been deleted or replaced when the list was written.
    pub is_deleted: bool,
    /// The program has moved this code to anonymous memory at the same addresses, and `file_offset`
    /// is the distance in memory from the first byte of the file, until
    /// [`Symbolizer::settle_moved`](crate::symbolize::Symbolizer::settle_moved).
    pub is_moved: bool,
    /// Process ID, if known: names of code without a file are looked up by it.
    pub process: Option<u32>,
    /// Names that the profile has, which need no lookup.
    pub has: Known,
}

/// Which names the locations of a mapping have, as in `profile.proto`.
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

/// A code location.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The mapping that contains it.
    pub mapping: Option<MappingId>,
    /// The address to look up: of the executed instruction, or, for a caller, within the call
    /// instruction (the return address minus one). 0 if unknown.
    pub address: u64,
    /// The functions, innermost first; each but the last is inlined in the next. Empty if unknown.
    pub lines: Vec<Line>,
    /// Several symbols have this address (identical code folding); the name is one of them.
    pub is_folded: bool,
}

/// A function at a location, and its source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// The line in the function's file, from 1; 0 if unknown.
    pub line: i64,
    /// The column, from 1; 0 if unknown.
    pub column: i64,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The demangled name.
    pub name: Arc<str>,
    /// The linker name; the same as `name` if there is no other.
    pub system_name: Arc<str>,
    /// The source file; empty if unknown.
    pub file: Arc<str>,
    /// The first line of the function, from 1; 0 if unknown.
    pub start_line: i64,
}

/// An attribute of a sample, such as its thread or process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The key: one of [`label`], or the application's own.
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

/// Keys of the labels that sigprof writes.
pub mod label {
    /// Thread name; text.
    pub const THREAD: &str = "thread";
    /// Kernel thread ID; a number.
    pub const THREAD_ID: &str = "tid";
    /// Program name; text.
    pub const PROCESS: &str = "process";
    /// Process ID; a number.
    pub const PROCESS_ID: &str = "pid";
    /// Number of the computer; gethostid(3).
    pub const NODE: &str = "node";
    /// Number of the process in a parallel program, such as its MPI rank.
    pub const RANK: &str = "rank";
    /// Marks samples of the base in a comparison, as in pprof; the text `true`.
    pub const BASE: &str = "pprof::base";
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the ID of the item at `index`.
            ///
            /// # Panics
            /// From 2^32 on, which no reader reaches: the input would need as many bytes.
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 of a kind"))
            }

            /// Returns the index in the vector.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// Index of a [`Location`] in [`Profile::locations`].
    LocationId;
    /// Index of a [`Function`] in [`Profile::functions`].
    FunctionId;
    /// Index of a [`Mapping`] in [`Profile::mappings`].
    MappingId;
    /// Index of a set of labels in [`Profile::label_sets`]; 0 is the empty set.
    LabelSetId;
}

impl Profile {
    /// Creates a profile without samples.
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

    /// Returns the recorded command, possibly shortened; None if the comments have none or several.
    pub fn command(&self) -> Option<&str> {
        let mut commands = self.comments.iter().filter_map(|comment| comment.strip_prefix(COMMAND));
        let command = commands.next().filter(|command| !command.is_empty());
        command.filter(|_| commands.next().is_none())
    }

    /// Returns the types of a CPU profile: `samples` in `count`, and `cpu` in `nanoseconds`.
    pub fn cpu_types() -> Vec<ValueType> {
        vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")]
    }

    /// Returns the location with this ID.
    ///
    /// # Panics
    /// If the ID is out of range.
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.index()]
    }

    /// Returns the function with this ID.
    ///
    /// # Panics
    /// If the ID is out of range.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// Returns the mapping of a location.
    ///
    /// # Panics
    /// If the location is of another profile.
    pub fn mapping_of(&self, location: &Location) -> Option<&Mapping> {
        location.mapping.map(|id| &self.mappings[id.index()])
    }

    /// Returns the labels of a sample.
    ///
    /// # Panics
    /// If the ID is out of range.
    pub fn labels(&self, id: LabelSetId) -> &[Label] {
        &self.label_sets[id.index()]
    }

    /// Returns for each set of labels whether it has [`label::BASE`]; None without a comparison.
    pub fn base_sets(&self) -> Option<Vec<bool>> {
        let is_mark = |label: &Label| {
            *label.key == *label::BASE && matches!(&label.value, LabelValue::Text(text) if **text == *"true")
        };
        let sets: Vec<bool> = self.label_sets.iter().map(|labels| labels.iter().any(is_mark)).collect();
        sets.contains(&true).then_some(sets)
    }

    /// Returns the sum of one value over all samples. It saturates, as all sums of values do.
    pub fn total(&self, sample_type: usize) -> i64 {
        let values = self.samples.iter().map(|sample| i128::from(sample.values[sample_type]));
        values.sum::<i128>().clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Whether sums of one value fit in 64 bits with a sign, over any subset of the samples.
    pub fn sums_fit(&self, sample_type: usize) -> bool {
        let values = self.samples.iter().map(|sample| i128::from(sample.values[sample_type]));
        values.map(i128::abs).sum::<i128>() <= i64::MAX.into()
    }

    /// Checks that IDs are in range and each sample has a value for each type.
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
    fn adds_up_one_value() {
        let mut profile = profile();
        profile.samples.push(&[LocationId(0)], &[2, 30], LabelSetId(0));
        assert_eq!((profile.total(0), profile.total(1)), (3, 40));
        assert!(profile.sums_fit(1));
        profile.samples.push(&[], &[0, i64::MAX], LabelSetId(0));
        assert_eq!(profile.total(1), i64::MAX);
        assert_eq!((profile.sums_fit(0), profile.sums_fit(1)), (true, false));
        // The last value is added to the exact sum, not to the saturated one.
        profile.samples.push(&[], &[0, -50], LabelSetId(0));
        assert_eq!(profile.total(1), i64::MAX - 10);
        assert!(!profile.sums_fit(1));
    }

    #[test]
    fn check_reports_ids_out_of_range() {
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
