//! Frames of a profile as contexts.

use super::tree::{FunctionName, Kind, Names, Tree};
use crate::profile::{Line, LocationId, Profile};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Whether a call stack begins in the code that starts a thread.
pub(super) fn begins_at_entry(profile: &Profile, chain: &[LocationId]) -> bool {
    const ENTRIES: [&str; 10] = [
        "_start",
        "_dl_start_user",
        "__libc_start_main",
        "main",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "start_thread",
        "thread_start",
    ];
    let is_entry = |&id: &LocationId| {
        profile.location(id).lines.last().is_some_and(|line| {
            let name = &*profile.function(line.function).name;
            // Names can have a version: `__libc_start_main@@GLIBC_2.34`.
            ENTRIES.contains(&name.split('@').next().unwrap_or(name))
        })
    };
    // In a stripped program, `_start` has no name, and calls `__libc_start_main`.
    chain.iter().rev().take(2).any(is_entry)
}

/// The contexts of the locations of a profile.
pub(super) struct LocationContexts<'p> {
    profile: &'p Profile,
    /// The functions at each location, outermost first, as contexts: function, then line.
    kinds: Vec<Option<Vec<(Kind, Kind)>>>,
    /// By the calling context.
    known: HashMap<(u32, LocationId), u32, RandomState>,
}

impl<'p> LocationContexts<'p> {
    pub(super) fn new(profile: &'p Profile) -> Self {
        Self { profile, kinds: vec![None; profile.locations.len()], known: HashMap::default() }
    }

    /// Returns the context of a location that is called from `context`.
    pub(super) fn enter(&mut self, tree: &mut Tree, names: &mut Names, context: u32, id: LocationId) -> u32 {
        let Self { profile, kinds, known } = self;
        *known.entry((context, id)).or_insert_with(|| {
            let kinds = kinds[id.index()].get_or_insert_with(|| frames(profile, id, names));
            kinds.iter().fold(context, |context, &(function, line)| {
                let function = tree.child(context, function);
                tree.child(function, line)
            })
        })
    }
}

fn frames(profile: &Profile, id: LocationId, names: &mut Names) -> Vec<(Kind, Kind)> {
    let location = profile.location(id);
    let mapping = profile.mapping_of(location).filter(|mapping| !mapping.file.as_os_str().is_empty());
    let module = mapping.map(|mapping| names.modules.number(mapping.file.to_string_lossy().as_ref().into()));
    let module_name = mapping.and_then(|mapping| mapping.file.file_name()).map(|name| name.to_string_lossy());
    let module_name = module_name.unwrap_or("unknown module".into());
    let number = |line: i64| u32::try_from(line).unwrap_or(0);
    let mut frame =
        |name: &str, offset: u64, file: &str, (start_line, line): (i64, i64), is_inlined: bool| {
            // Without a source file, HPCToolkit shows the module's name with line 0.
            let file = if file.is_empty() { format!("[{module_name}]").as_str().into() } else { file.into() };
            let file = names.files.number(file);
            let name = if name.is_empty() { "<unknown procedure>" } else { name };
            let (name, line_of_function) = (name.into(), number(start_line));
            let function = FunctionName { name, module, offset, file: Some(file), line: line_of_function };
            let function = names.functions.number(function);
            (Kind::Function { function, is_inlined }, Kind::Line { file, line: number(line) })
        };
    if location.lines.is_empty() {
        let offset = mapping.map_or(location.address, |mapping| {
            location.address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset)
        });
        let name = format!("<unknown procedure> {offset:#x} [{module_name}]");
        return vec![frame(&name, offset, "", (0, 0), false)];
    }
    let lines = location.lines.iter().rev().enumerate();
    let frame = |(depth, &Line { function, line, .. }): (usize, &Line)| {
        let function = profile.function(function);
        frame(&function.name, 0, &function.file, (function.start_line, line), depth > 0)
    };
    lines.map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::folded;

    #[test]
    fn stacks_begin_at_the_code_that_starts_threads() {
        let begins = |stack: &str| {
            let profile = folded::read(format!("{stack} 1\n").as_bytes()).unwrap();
            begins_at_entry(&profile, profile.samples.get(0).chain)
        };
        for stack in ["_start;main;work", "clone3;start_thread;work", "main;work", "work"] {
            assert_eq!(begins(stack), stack != "work", "{stack}");
        }
        assert!(begins("[app]+0x1234;__libc_start_main@@GLIBC_2.34;main"), "stripped");
        assert!(!begins("outer;work;start_thread"));
    }
}
