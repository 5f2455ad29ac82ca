//! Names of PCs of this process, by the crate `backtrace`.

use std::ffi::c_void;

use sigprof::{Pc, Sample};

/// Returns the functions at `pc`, innermost inlined one first; empty if unknown.
pub(crate) fn names_of(pc: Pc, is_innermost: bool) -> Vec<String> {
    let mut names = Vec::new();
    // `resolve` expects a return address and looks up the byte before it.
    let above = pc.address_for_lookup(is_innermost).wrapping_add(1) as *mut c_void;
    backtrace::resolve(above, |symbol| names.extend(symbol.name().map(|name| format!("{name:#}"))));
    names
}

/// Returns the functions of a chain, innermost first.
pub(crate) fn names_of_chain(chain: &[Pc]) -> Vec<String> {
    chain.iter().enumerate().flat_map(|(depth, &pc)| names_of(pc, depth == 0)).collect()
}

/// True if `name` is `function`'s, with or without its modules and type parameters.
pub(crate) fn is_called(name: &str, function: &str) -> bool {
    let name = match name.find('<') {
        Some(start) if start > 0 => name[..start].trim_end_matches("::"),
        _ => name,
    };
    name.strip_suffix(function).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
}

/// True if `names` contains the functions in this order, with or without others between them.
pub(crate) fn has_in_order(names: &[String], functions: &[&str]) -> bool {
    let mut names = names.iter();
    functions.iter().all(|function| names.any(|name| is_called(name, function)))
}

/// Sums the counts of samples with these functions in their chains in this order, innermost first.
pub(crate) fn count_under(samples: &[Sample], functions: &[&str]) -> u64 {
    let found = samples.iter().filter(|sample| has_in_order(&names_of_chain(&sample.chain), functions));
    found.map(|sample| sample.count).sum()
}
