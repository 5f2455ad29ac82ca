//! Aggregation of a profile by line, function or file.

use crate::profile::{Function, FunctionId, Profile};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Aggregation level of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// Each sampled instruction.
    Addresses,
    /// Each source line of a function.
    Lines,
    /// Each function name, even if several files have functions of that name.
    #[default]
    Functions,
    /// Each source file.
    Files,
    /// Each function name and file.
    FileFunctions,
}

impl Granularity {
    /// Removes finer information. Without `inlines`, inlined calls count for the called function.
    ///
    /// IDs of locations and samples are unchanged; functions that became equal share an ID.
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

/// Removes names or files; returns for each function the first that is equal then.
fn coarsen_functions(functions: &mut [Function], has_names: bool, has_files: bool) -> Vec<FunctionId> {
    let mut first: HashMap<Function, FunctionId, RandomState> = HashMap::default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Builder, Line, LocationId};

    /// Two functions `f` in two files, one of them inlined into `main`.
    fn profile() -> Profile {
        let mut builder = Builder::new(Profile::cpu_types());
        let mut function = |name: &str, file: &str| {
            let (name, file) = (name.into(), file.into());
            builder.function(Function { system_name: "_Z".into(), name, file, start_line: 7 })
        };
        let (f, main, other) = (function("f", "a.c"), function("main", "a.c"), function("f", "b.c"));
        let first = builder.location(None, 16);
        let second = builder.location(None, 32);
        let line = |function, line| Line { function, line, column: 3 };
        builder.profile.locations[first.index()].lines = vec![line(f, 1), line(main, 2)];
        builder.profile.locations[second.index()].lines = vec![line(other, 3)];
        builder.finish()
    }

    fn shown(granularity: Granularity, inlines: bool) -> Vec<String> {
        let mut profile = profile();
        granularity.apply(&mut profile, inlines);
        profile.check().unwrap();
        let location = |id: u32| {
            let location = profile.location(LocationId(id));
            let line = |line: &Line| {
                let function = profile.function(line.function);
                format!("{}/{}/{}:{}", function.name, function.file, function.start_line, line.line)
            };
            format!(
                "{:x} {}",
                location.address,
                location.lines.iter().map(line).collect::<Vec<_>>().join(" ")
            )
        };
        vec![location(0), location(1)]
    }

    #[test]
    fn removes_finer_information() {
        assert_eq!(shown(Granularity::Addresses, true), ["10 f/a.c/7:1 main/a.c/7:2", "20 f/b.c/7:3"]);
        assert_eq!(shown(Granularity::Addresses, false), ["10 main/a.c/7:2", "20 f/b.c/7:3"]);
        assert_eq!(shown(Granularity::Lines, true), ["0 f/a.c/7:1 main/a.c/7:2", "0 f/b.c/7:3"]);
        assert_eq!(shown(Granularity::FileFunctions, true), ["0 f/a.c/7:0 main/a.c/7:0", "0 f/b.c/7:0"]);
        assert_eq!(shown(Granularity::Functions, true), ["0 f//0:0 main//0:0", "0 f//0:0"]);
        assert_eq!(shown(Granularity::Files, false), ["0 /a.c/0:0", "0 /b.c/0:0"]);
    }

    #[test]
    fn combines_equal_functions() {
        let mut profile = profile();
        Granularity::Functions.apply(&mut profile, true);
        let innermost = |id: usize| profile.locations[id].lines[0].function;
        assert_eq!(innermost(0), innermost(1));
    }
}
