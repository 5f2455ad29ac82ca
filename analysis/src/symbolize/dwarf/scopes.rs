//! Scopes of functions: the namespaces, classes and functions around a declaration.
//!
//! An entry does not refer to its parent, so one pass over the unit finds all requested entries. It
//! skips subtrees if the compiler wrote `DW_AT_sibling` (GCC does). Only functions without a linker
//! name need this: static ones, members of local classes, lambdas.

use super::{NamedCall, Slice, names::Names};
use crate::symbolize::demangle::demangle;
use gimli::{AttributeValue, Unit, UnitOffset};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

/// Limit of passes over a unit: a class in a function that a namespace declares needs two.
const MAX_PASSES: usize = 4;
/// Limit of nested scopes.
const MAX_NESTED: usize = 64;
/// Limit of a name's bytes; longer scopes are left out.
const MAX_BYTES: usize = 1 << 14;

#[derive(Default)]
struct Scopes {
    /// The innermost scope around an entry; None if there is none.
    around: HashMap<usize, Option<usize>>,
    /// Full names of scopes.
    full: HashMap<usize, Option<Arc<str>>>,
}

#[derive(Default)]
struct Said {
    is_type: bool,
    is_function: bool,
    name: Option<Arc<str>>,
    line: u64,
    column: u64,
    /// The entry that declares it.
    declared: Option<usize>,
}

impl Scopes {
    /// Finds the scopes around `entries` of a unit.
    fn find(unit: &Unit<Slice<'_>>, mut entries: Vec<usize>) -> Self {
        let mut scopes = Self::default();
        for _ in 0..MAX_PASSES {
            entries.sort_unstable();
            entries.dedup();
            let mut found = Vec::new();
            // Results before damage are kept.
            let _ = scopes.pass(unit, &entries, &mut found);
            entries = found.into_iter().filter_map(|scope| declared(unit, scope)).collect();
            entries.retain(|entry| !scopes.around.contains_key(entry));
            if entries.is_empty() {
                break;
            }
        }
        scopes
    }

    /// Records the scopes around sorted `entries`; adds scopes found for the first time to `found`.
    fn pass(
        &mut self,
        unit: &Unit<Slice<'_>>,
        entries: &[usize],
        found: &mut Vec<usize>,
    ) -> gimli::Result<()> {
        let Some(&last) = entries.last() else { return Ok(()) };
        let mut raw = unit.entries_raw(None)?;
        let mut depth_of_raw = 0;
        let mut open: Vec<(isize, usize)> = Vec::new();
        let mut next = 0;
        while !raw.is_empty() && raw.next_offset().0 <= last {
            let (entry, depth) = (raw.next_offset().0, raw.next_depth() + depth_of_raw);
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            while open.last().is_some_and(|(outer, _)| *outer >= depth) {
                open.pop();
            }
            while entries.get(next).is_some_and(|&wanted| wanted < entry) {
                next += 1;
            }
            if entries.get(next) == Some(&entry) {
                let mut inner = entry;
                for &(_, scope) in open.iter().rev() {
                    self.around.insert(inner, Some(scope));
                    inner = scope;
                    if self.around.contains_key(&scope) {
                        break;
                    }
                    found.push(scope);
                }
                self.around.entry(inner).or_insert(None);
                next += 1;
            }
            let Some(&wanted) = entries.get(next) else { break };
            if !abbreviation.has_children() {
                raw.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut sibling = None;
            if abbreviation.attributes().iter().any(|one| one.name() == gimli::DW_AT_sibling) {
                for specification in abbreviation.attributes() {
                    let attribute = raw.read_attribute(*specification)?;
                    if let (gimli::DW_AT_sibling, AttributeValue::UnitRef(offset)) =
                        (attribute.name(), attribute.value())
                    {
                        sibling = Some(offset);
                    }
                }
            } else {
                raw.skip_attributes(abbreviation.attributes())?;
            }
            // The root's sibling is irrelevant; a backward reference would loop.
            if let Some(sibling) = sibling.filter(|to| depth > 0 && to.0 > entry && to.0 <= wanted) {
                raw = unit.entries_raw(Some(sibling))?;
                depth_of_raw = depth;
                continue;
            }
            if is_scope(abbreviation.tag()) {
                open.push((depth, entry));
            }
        }
        Ok(())
    }

    /// Returns the scope of a function; None without one, or directly in a function, as in GNU C.
    fn of<'data>(
        &mut self,
        names: &mut Names<'_, 'data>,
        unit: &Unit<Slice<'data>>,
        entry: usize,
        is_operator: bool,
    ) -> Option<Arc<str>> {
        let around = (*self.around.get(&entry)?)?;
        if said(names, unit, around).is_some_and(|said| said.is_function) {
            return None;
        }
        self.full(names, unit, around, is_operator, 0)
    }

    fn full<'data>(
        &mut self,
        names: &mut Names<'_, 'data>,
        unit: &Unit<Slice<'data>>,
        scope: usize,
        is_operator: bool,
        depth: usize,
    ) -> Option<Arc<str>> {
        if let Entry::Occupied(known) = self.full.entry(scope) {
            return known.get().clone();
        }
        // Prevents a loop if a class is nested in itself through its declaration.
        self.full.insert(scope, None);
        let said = said(names, unit, scope)?;
        let call = if said.is_function { names.call(unit, UnitOffset(scope)) } else { NamedCall::default() };
        let full = match call.name {
            // A linker name contains the scopes.
            Some(name) if call.is_linker_name => demangle(&name),
            function => {
                let own = function.or(said.name.clone());
                let own = own.as_deref().map_or_else(|| nameless(&said, is_operator), readable(&said));
                let from = said.declared.filter(|entry| self.around.contains_key(entry)).unwrap_or(scope);
                let outer = self.around.get(&from).copied().flatten().filter(|_| depth < MAX_NESTED);
                let is_operator = said.is_function && is_operator_of_lambda(Some(&own));
                let outer = outer.and_then(|outer| self.full(names, unit, outer, is_operator, depth + 1));
                match outer {
                    Some(outer) if outer.len() + own.len() < MAX_BYTES => {
                        format!("{outer}::{own}")
                    }
                    _ => own,
                }
            }
        };
        // Longer names, and those beyond the limit of `Texts`, are left out.
        let full = (full.len() < MAX_BYTES).then(|| names.texts().account(&full)).flatten();
        self.full.insert(scope, full.clone());
        full
    }
}

/// Sets the scopes of functions of `unit` without a linker name, requested since the last call.
pub(super) fn find<'data>(names: &mut Names<'_, 'data>, unit: &Unit<Slice<'data>>) {
    let unscoped = names.take_unscoped();
    for group in unscoped.chunk_by(|one, other| one.other == other.other) {
        let Some((other, mut there)) = names.declaring(&group[0]) else { continue };
        let unit = other.as_deref().unwrap_or(unit);
        if has_none(unit) {
            continue;
        }
        let mut scopes = Scopes::find(unit, group.iter().map(|one| one.entry.0).collect());
        for one in group {
            let is_operator = is_operator_of_lambda(names.name(one));
            names.set_scope(one, scopes.of(&mut there, unit, one.entry.0, is_operator));
        }
    }
}

/// True for units in C, which has no scopes: another pass is not needed.
fn has_none(unit: &Unit<Slice<'_>>) -> bool {
    let root = unit.entries_raw(None).and_then(|entries| unit.entry(entries.next_offset()));
    let language = root.ok().and_then(|root| root.attr_value(gimli::DW_AT_language).ok().flatten());
    let Some(AttributeValue::Language(language)) = language else { return false };
    matches!(
        language,
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            | gimli::DW_LANG_Mips_Assembler
    )
}

/// True for the function names of a lambda's class.
fn is_operator_of_lambda(name: Option<&str>) -> bool {
    matches!(name, Some("operator()" | "_FUN"))
}

fn is_scope(tag: gimli::DwTag) -> bool {
    is_type(tag) || matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_module | gimli::DW_TAG_subprogram)
}

fn is_type(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_interface_type
    )
}

/// Returns the entry in the unit that declares this one.
fn declared(unit: &Unit<Slice<'_>>, entry: usize) -> Option<usize> {
    let entry = unit.entry(UnitOffset(entry)).ok()?;
    let mut attributes = entry.attrs();
    while let Ok(Some(attribute)) = attributes.next() {
        if let (
            gimli::DW_AT_specification | gimli::DW_AT_abstract_origin,
            AttributeValue::UnitRef(declared),
        ) = (attribute.name(), attribute.value())
        {
            return Some(declared.0);
        }
    }
    None
}

fn said<'data>(names: &Names<'_, 'data>, unit: &Unit<Slice<'data>>, scope: usize) -> Option<Said> {
    let entry = unit.entry(UnitOffset(scope)).ok()?;
    let mut said = Said {
        is_type: is_type(entry.tag()),
        is_function: entry.tag() == gimli::DW_TAG_subprogram,
        ..Said::default()
    };
    let mut attributes = entry.attrs();
    while let Ok(Some(attribute)) = attributes.next() {
        let number = || attribute.value().udata_value().unwrap_or(0);
        match attribute.name() {
            gimli::DW_AT_name => {
                said.name = names.text(unit, attribute.value());
            }
            gimli::DW_AT_decl_line => said.line = number(),
            gimli::DW_AT_decl_column => said.column = number(),
            gimli::DW_AT_specification | gimli::DW_AT_abstract_origin => {
                if let AttributeValue::UnitRef(declared) = attribute.value() {
                    said.declared = Some(declared.0);
                }
            }
            _ => {}
        }
    }
    if let (None, Some(declared)) = (&said.name, said.declared.filter(|_| !said.is_function)) {
        let entry = unit.entry(UnitOffset(declared)).ok();
        let name = entry.and_then(|entry| entry.attr_value(gimli::DW_AT_name).ok().flatten());
        said.name = name.and_then(|name| names.text(unit, name));
    }
    Some(said)
}

/// Returns a name for a scope without one.
fn nameless(said: &Said, is_operator: bool) -> String {
    if !said.is_type {
        return if said.is_function { "{function}".into() } else { "(anonymous namespace)".into() };
    }
    let kind = if is_operator { "lambda" } else { "unnamed type" };
    format!("{{{kind}{}}}", at(said))
}

/// Replaces `<lambda(int)>`, the name that older GCC versions give a lambda's class.
fn readable(said: &Said) -> impl Fn(&str) -> String {
    let at = at(said);
    move |name| match name.strip_prefix("<lambda").and_then(|rest| rest.strip_suffix('>')) {
        Some(parameters) => format!("{{lambda{parameters}{at}}}"),
        None => name.to_owned(),
    }
}

/// Returns the position of a declaration, to distinguish nameless classes.
fn at(said: &Said) -> String {
    match (said.line, said.column) {
        (0, _) => String::new(),
        (line, 0) => format!(" at {line}"),
        (line, column) => format!(" at {line}:{column}"),
    }
}
