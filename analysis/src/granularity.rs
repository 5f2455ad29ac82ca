//! Makes a profile coarser: lines instead of addresses, functions instead of lines, files instead of functions.

use crate::profile::{Function, FunctionId, Profile};
use std::collections::HashMap;

/// What a report has a row for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// Each instruction that was sampled.
    Addresses,
    /// Each source line of a function.
    Lines,
    /// Each name of a function; functions of one name in several files are one.
    #[default]
    Functions,
    /// Each source file.
    Files,
    /// Each function; those of one name in several files are several.
    FileFunctions,
}

impl Granularity {
    /// Takes out of the profile what is finer. Without `inlines`, what was inlined counts for the function that was called.
    ///
    /// Locations and samples keep their numbers; functions that are no longer told apart have one number.
    pub fn apply(self, profile: &mut Profile, inlines: bool) {
        let (has_names, has_files) = match self {
            Self::Addresses | Self::Lines | Self::FileFunctions => (true, true),
            Self::Functions => (true, false),
            Self::Files => (false, true),
        };
        let has_addresses = self == Self::Addresses;
        let has_lines = matches!(self, Self::Addresses | Self::Lines);
        if has_addresses && inlines {
            return;
        }
        for mapping in &mut profile.mappings {
            mapping.has.functions &= has_names;
            mapping.has.files &= has_files;
            mapping.has.lines &= has_lines;
            mapping.has.inlines &= inlines;
        }
        let first_alike = coarsen_functions(&mut profile.functions, has_names, has_files);
        for location in &mut profile.locations {
            if !inlines && location.lines.len() > 1 {
                location.lines.drain(..location.lines.len() - 1);
            }
            for line in &mut location.lines {
                line.function = first_alike[line.function.index()];
                if !has_lines {
                    (line.line, line.column) = (0, 0);
                }
            }
            if !has_addresses {
                location.address = 0;
            }
        }
    }
}

/// Takes names or files from functions; gives for each the first that is the same as it then.
fn coarsen_functions(functions: &mut [Function], has_names: bool, has_files: bool) -> Vec<FunctionId> {
    let mut first: HashMap<Function, FunctionId> = HashMap::new();
    let mut alike = Vec::with_capacity(functions.len());
    for (place, function) in functions.iter_mut().enumerate() {
        if !has_names {
            (function.name, function.system_name) = ("".into(), "".into());
        }
        if !has_files {
            function.file = "".into();
        }
        if !has_names || !has_files {
            function.start_line = 0;
        }
        alike.push(*first.entry(function.clone()).or_insert(FunctionId::at(place)));
    }
    alike
}
