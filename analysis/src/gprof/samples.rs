//! Samples of histograms, by symbol.

use super::symbols::Symbol;
use crate::formats::gmon::{Histogram, UNIT};

/// Adds the samples of a histogram to `own`, which has an element for each symbol. A bin that belongs
/// to several symbols is divided by the overlap. Returns the number of samples, also of those
/// without a symbol.
///
/// The bins of a C library need not be a whole number of units. GNU gprof, if `is_compatible`, rounds
/// their ends down, and thus counts some samples more than once.
pub(super) fn add(histogram: &Histogram, symbols: &[Symbol], own: &mut [f64], is_compatible: bool) -> f64 {
    let scale = histogram.scale();
    let units = |address: u64| (address / UNIT) as f64;
    // The last symbol of GNU gprof is a label after the code, and has one unit.
    let end_of = |place: usize| match symbols.get(place + 1) {
        Some(next) => units(next.start),
        None if is_compatible => units(symbols[place].start) + 1.0,
        None => units(symbols[place].end),
    };
    let edge = |place: usize| {
        let distance = scale * place as f64;
        units(histogram.low) + if is_compatible { distance.floor() } else { distance }
    };
    let mut total = 0.0;
    let mut first = 0;
    for (place, &count) in histogram.bins.iter().enumerate() {
        if count == 0 {
            continue;
        }
        let (low, high) = (edge(place), edge(place + 1));
        let count = count as f64;
        total += count;
        while first < symbols.len() && end_of(first) <= low {
            first += 1;
        }
        for place in first..symbols.len() {
            let (begin, end) = (units(symbols[place].start), end_of(place));
            if high < begin {
                break;
            }
            let overlap = (high.min(end) - low.max(begin)).max(0.0);
            own[place] += overlap * count / scale;
        }
    }
    total
}
