//! The in-process report: functions by time, with names from `backtrace`.

use crate::{chain::Pc, profile::Profile, sys::loader};
use std::{
    collections::{HashMap, HashSet},
    ffi::c_void,
    fmt,
};

/// Functions by time.
#[derive(Clone, Debug)]
pub struct Report {
    functions: Vec<FunctionTime>,
    samples: u64,
    period_nanos: u128,
}

/// The time of one function, in samples.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionTime {
    /// The demangled name, or the address if the name is unknown.
    pub name: String,
    /// Flat samples: the function was innermost.
    pub flat: u64,
    /// Cumulative samples: the function, or one that it called, was innermost.
    pub cumulative: u64,
}

impl Report {
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut names = Names::default();
        let mut totals: HashMap<String, (u64, u64)> = HashMap::new();
        for sample in profile.samples() {
            let mut seen = HashSet::new();
            for (depth, &pc) in sample.chain.iter().enumerate() {
                for (inlining, name) in names.of(pc, depth == 0).iter().enumerate() {
                    let total = totals.entry(name.clone()).or_default();
                    if depth == 0 && inlining == 0 {
                        total.0 += sample.count;
                    }
                    // Count a recursive function once.
                    if seen.insert(name.clone()) {
                        total.1 += sample.count;
                    }
                }
            }
        }
        let mut functions: Vec<_> = totals
            .into_iter()
            .map(|(name, (flat, cumulative))| FunctionTime { name, flat, cumulative })
            .collect();
        functions.sort_by(|a, b| {
            (b.flat, b.cumulative).cmp(&(a.flat, a.cumulative)).then_with(|| a.name.cmp(&b.name))
        });
        let summary = profile.summary();
        Self { functions, samples: summary.samples, period_nanos: summary.period.as_nanos() }
    }

    /// Returns the functions, sorted by flat time, then cumulative time, then name.
    pub fn functions(&self) -> &[FunctionTime] {
        &self.functions
    }

    fn seconds(&self, samples: u64) -> f64 {
        samples as f64 * self.period_nanos as f64 / 1e9
    }

    fn percent(&self, samples: u64) -> f64 {
        if self.samples == 0 { 0.0 } else { samples as f64 * 100.0 / self.samples as f64 }
    }
}

/// Prints the twenty functions with the most flat time as a table.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} samples, {:.2} s", self.samples, self.seconds(self.samples))?;
        writeln!(f, "{:>9} {:>6}  {:>9} {:>6}  function", "flat s", "flat%", "cum s", "cum%")?;
        for function in self.functions.iter().take(20) {
            let FunctionTime { name, flat, cumulative } = function;
            let (flat_seconds, cumulative_seconds) = (self.seconds(*flat), self.seconds(*cumulative));
            let (flat_percent, cumulative_percent) = (self.percent(*flat), self.percent(*cumulative));
            writeln!(
                f,
                "{flat_seconds:9.2} {flat_percent:6.2}  {cumulative_seconds:9.2} {cumulative_percent:6.2}  {name}"
            )?;
        }
        Ok(())
    }
}

/// Names by lookup address, innermost inlined function first.
#[derive(Default)]
struct Names(HashMap<usize, Vec<String>>);

impl Names {
    fn of(&mut self, pc: Pc, is_innermost: bool) -> &[String] {
        let address = pc.address_for_lookup(is_innermost);
        self.0.entry(address).or_insert_with(|| {
            let mut names = Vec::new();
            // `resolve` expects a return address and subtracts 1.
            let above = address.wrapping_add(1) as *mut c_void;
            backtrace::resolve(above, |symbol| {
                if let Some(name) = symbol.name() {
                    names.push(format!("{name:#}"));
                }
            });
            // `backtrace` lists shared objects at its first use; the loader has later ones, too.
            if names.is_empty() {
                names.extend(loader::exported_name(address));
            }
            if names.is_empty() {
                names.push(format!("{address:#x}"));
            }
            names
        })
    }
}
