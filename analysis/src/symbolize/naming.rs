//! Conversion of lookup results to functions of the profile.

use super::{demangle::demangle, object_file::Named};
use crate::profile::{Function, FunctionId, Line, LocationId, Profile};
use std::{collections::HashMap, sync::Arc};

/// Names the locations of a profile, with shared functions.
pub(super) struct Naming<'a> {
    profile: &'a mut Profile,
    demangle: bool,
    functions: HashMap<Function, FunctionId>,
    demangled: HashMap<Arc<str>, Arc<str>>,
    scoped: HashMap<(Arc<str>, Arc<str>), Arc<str>>,
    /// Remaining bytes of demangled names beyond [`USUAL_GROWTH`].
    growth_left: usize,
}

/// Demangled names are usually a few times as long as linker names, or some kilobytes longer.
const USUAL_GROWTH: usize = 4;
const USUAL_BYTES: usize = 4 << 10;
const MAX_GROWTH: usize = 16 << 20;

impl<'a> Naming<'a> {
    pub(super) fn new(profile: &'a mut Profile, demangle: bool) -> Self {
        let functions = profile.functions.iter().enumerate();
        let functions =
            functions.map(|(place, function)| (function.clone(), FunctionId::at(place))).collect();
        Self {
            profile,
            demangle,
            functions,
            demangled: HashMap::new(),
            growth_left: MAX_GROWTH,
            scoped: HashMap::new(),
        }
    }

    /// Sets the calls of a location, if any, and updates its mapping's flags.
    pub(super) fn give(&mut self, location: LocationId, named: &Named) {
        if named.calls.is_empty() {
            return;
        }
        let lines: Vec<Line> = named
            .calls
            .iter()
            .filter_map(|call| {
                let system_name = call.name.clone()?;
                let name = match &call.scope {
                    _ if !self.demangle => system_name.clone(),
                    Some(scope) if !call.is_linker_name => self.scoped(scope, &system_name),
                    _ => self.demangled(&system_name),
                };
                let start_line = i64::try_from(call.start_line).unwrap_or(0);
                let function =
                    self.function(Function { name, system_name, file: call.file.clone(), start_line });
                let number = |number| i64::try_from(number).unwrap_or(0);
                Some(Line { function, line: number(call.line), column: number(call.column) })
            })
            .collect();
        let has_lines = named.calls.iter().any(|call| call.line != 0);
        let location = &mut self.profile.locations[location.index()];
        if let Some(mapping) = location.mapping {
            let has = &mut self.profile.mappings[mapping.index()].has;
            has.functions |= !lines.is_empty();
            has.files |= has_lines;
            has.lines |= has_lines;
            has.inlines |= has_lines;
        }
        location.lines = lines;
    }

    fn demangled(&mut self, name: &Arc<str>) -> Arc<str> {
        let left = &mut self.growth_left;
        let demangled = || {
            let demangled = demangle(name);
            match left.checked_sub(growth(demangled.len(), name)) {
                Some(less) if demangled != **name => {
                    *left = less;
                    demangled.into()
                }
                _ => name.clone(),
            }
        };
        self.demangled.entry(name.clone()).or_insert_with(demangled).clone()
    }

    /// Returns the name with its scope, or without if it exceeds the limit.
    fn scoped(&mut self, scope: &Arc<str>, name: &Arc<str>) -> Arc<str> {
        let left = &mut self.growth_left;
        let scoped = || match left.checked_sub(growth(scope.len() + 2 + name.len(), name)) {
            Some(less) => {
                *left = less;
                format!("{scope}::{name}").into()
            }
            None => name.clone(),
        };
        self.scoped.entry((scope.clone(), name.clone())).or_insert_with(scoped).clone()
    }

    fn function(&mut self, function: Function) -> FunctionId {
        let functions = &mut self.profile.functions;
        *self.functions.entry(function).or_insert_with_key(|function| {
            functions.push(function.clone());
            FunctionId::at(functions.len() - 1)
        })
    }
}

/// Returns the bytes of a demangled name beyond the usual length.
fn growth(bytes: usize, name: &str) -> usize {
    bytes.saturating_sub((USUAL_GROWTH * name.len()).max(USUAL_BYTES))
}
