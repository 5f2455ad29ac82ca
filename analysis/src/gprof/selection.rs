//! Functions and calls that options include or exclude.

use super::{
    symbols::Symbol,
    symspec::{ArcSpec, Symspec},
};
use crate::error::{Error, ErrorKind};

/// Symspecs of an option that includes, and of one that excludes.
#[derive(Clone, Debug, Default)]
pub struct Specs {
    /// What is included; if it is nothing, all is that is not excluded.
    pub included: Vec<String>,
    /// What is excluded, unless it is included.
    pub excluded: Vec<String>,
}

/// A part of the report.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// It is printed.
    pub is_printed: bool,
    /// Functions in it.
    pub specs: Specs,
}

/// What symspecs are compared with.
pub(super) struct Matching<'a> {
    pub(super) symbols: &'a [Symbol],
    /// The printed name of each symbol.
    pub(super) names: &'a [String],
    pub(super) is_compatible: bool,
}

impl Matching<'_> {
    /// Returns an error if a symspec for functions or calls matches nothing. GNU gprof ignores it.
    pub(super) fn ensure_found(&self, functions: &[&Specs], calls: &Specs) -> Result<(), Error> {
        let all = |specs: &Specs| [specs.included.as_slice(), &specs.excluded].concat();
        for text in functions.iter().flat_map(|specs| all(specs)) {
            self.ensure_function(&text, &text)?;
        }
        for text in all(calls) {
            let Some((from, to)) = text.split_once('/') else {
                let reason = format!("`{text}` is not of the form FROM/TO");
                return Err(Error::new(ErrorKind::Request, reason));
            };
            self.ensure_function(from, &text)?;
            self.ensure_function(to, &text)?;
        }
        Ok(())
    }

    fn ensure_function(&self, function: &str, text: &str) -> Result<(), Error> {
        if self.find(&[function.to_owned()]).contains(&true) {
            return Ok(());
        }
        let reason = match function == text {
            true => format!("no function matches `{text}`"),
            false => format!("no function matches `{function}` of `{text}`"),
        };
        Err(Error::new(ErrorKind::Request, reason).advise("`sigprof gprof -b -p -z` prints all functions"))
    }

    /// Returns, for each symbol, whether one of the symspecs matches it.
    fn find(&self, texts: &[String]) -> Vec<bool> {
        let specs: Vec<Symspec> = texts.iter().map(|text| Symspec::parse(text, self.is_compatible)).collect();
        self.find_parsed(&specs)
    }

    fn find_parsed(&self, specs: &[Symspec]) -> Vec<bool> {
        let symbols = self.symbols.iter().zip(self.names);
        let mut last_end = 0;
        let matches = symbols.map(|(symbol, name)| {
            let is_match = specs.iter().any(|spec| spec.matches(symbol, name, self.is_compatible));
            if is_match {
                last_end = symbol.function_end;
            }
            // For GNU gprof, the first line of a function includes the others.
            is_match || self.is_compatible && symbol.start < last_end
        });
        matches.collect()
    }
}

/// Functions that options include or exclude. If none is included, all are that are not excluded.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    included: Vec<bool>,
    excluded: Vec<bool>,
    includes_any: bool,
}

impl Selection {
    /// Selects functions. Those that `is_excluded` returns true for are excluded by default.
    pub(super) fn new(specs: &Specs, matching: &Matching<'_>, is_excluded: impl Fn(usize) -> bool) -> Self {
        let (included, mut excluded) = (matching.find(&specs.included), matching.find(&specs.excluded));
        excluded.iter_mut().enumerate().for_each(|(place, excluded)| *excluded |= is_excluded(place));
        Self { includes_any: included.contains(&true), included, excluded }
    }

    /// True if a function is included.
    pub(super) fn allows(&self, function: usize) -> bool {
        self.included[function] || !self.includes_any && !self.excluded[function]
    }

    /// True if a function is excluded, and not included.
    pub(super) fn excludes(&self, function: usize) -> bool {
        self.excluded[function] && !self.included[function]
    }
}

/// Calls that options include or exclude.
#[derive(Clone, Debug, Default)]
pub(super) struct ArcSelection {
    included: Vec<(Vec<bool>, Vec<bool>)>,
    excluded: Vec<(Vec<bool>, Vec<bool>)>,
}

impl ArcSelection {
    /// As for [`Selection::new`]. Symspecs have the form `from/to`; others select nothing.
    pub(super) fn new(specs: &Specs, matching: &Matching<'_>) -> Self {
        let parse = |texts: &[String]| {
            let arcs = texts.iter().filter_map(|text| ArcSpec::parse(text, matching.is_compatible));
            let arcs = arcs.map(|arc| (matching.find_parsed(&[arc.from]), matching.find_parsed(&[arc.to])));
            // A symspec without a caller is as if it was absent.
            arcs.filter(|(from, _)| from.contains(&true)).collect::<Vec<_>>()
        };
        Self { included: parse(&specs.included), excluded: parse(&specs.excluded) }
    }

    /// True if a call is included.
    pub(super) fn allows(&self, caller: usize, callee: usize) -> bool {
        let is_among =
            |arcs: &[(Vec<bool>, Vec<bool>)]| arcs.iter().any(|(from, to)| from[caller] && to[callee]);
        is_among(&self.included) || self.included.is_empty() && !is_among(&self.excluded)
    }
}
