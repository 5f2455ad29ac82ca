//! Samples by function, as a table or as a tree of calls.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use sigprof::format::CpuProfile;

use crate::symbols::{Objects, printable};

/// All samples, by function.
#[derive(Default)]
pub(crate) struct Report {
    files: Vec<PathBuf>,
    period_micros: u64,
    samples: u128,
    functions: Vec<Function>,
    /// Place in `functions` by label.
    places: HashMap<String, usize>,
    /// Counts and their chains of functions, leaf first.
    chains: Vec<(u128, Vec<usize>)>,
}

/// A row of the table. Counts are samples.
struct Function {
    label: String,
    flat: u128,
    cum: u128,
}

impl Report {
    pub(crate) fn read(files: &[PathBuf]) -> Result<Self, String> {
        let mut report = Self::default();
        let mut objects = Objects::default();
        for file in files {
            let name = file.display();
            let bytes = fs::read(file).map_err(|error| format!("{name}: {error}"))?;
            let profile = CpuProfile::parse(&bytes).map_err(|error| format!("{name}: {error}"))?;
            let period = profile.period_micros;
            match report.files.first() {
                Some(first) if period != report.period_micros => {
                    let (first, other) = (first.display(), report.period_micros);
                    return Err(format!(
                        "{name}: not merged, its period is {period} us and that of {first} is {other} us"
                    ));
                }
                _ => report.period_micros = period,
            }
            report.files.push(file.clone());
            report.add(&profile, &mut objects);
        }
        Ok(report)
    }

    fn add(&mut self, profile: &CpuProfile, objects: &mut Objects) {
        // Two profiles may have different code at one address, but within one the address decides.
        let mut known: HashMap<u64, usize> = HashMap::new();
        for record in &profile.records {
            let count = u128::from(record.count);
            let mut chain = Vec::with_capacity(record.pcs.len());
            for (depth, &pc) in record.pcs.iter().enumerate() {
                // All but the leaf are return addresses, and the call before one may end its function.
                let address = if depth == 0 { pc } else { pc.saturating_sub(1) };
                let function = *known
                    .entry(address)
                    .or_insert_with(|| self.place_of(objects.label(&profile.mappings, address)));
                chain.push(function);
            }
            if let Some(&leaf) = chain.first() {
                self.functions[leaf].flat += count;
            }
            // A recursive function counts once per sample.
            let mut distinct = chain.clone();
            distinct.sort_unstable();
            distinct.dedup();
            distinct.iter().for_each(|&function| self.functions[function].cum += count);
            self.samples += count;
            self.chains.push((count, chain));
        }
    }

    fn place_of(&mut self, label: String) -> usize {
        let functions = &mut self.functions;
        *self.places.entry(label).or_insert_with_key(|label| {
            functions.push(Function { label: label.clone(), flat: 0, cum: 0 });
            functions.len() - 1
        })
    }

    pub(crate) fn print_header(&self, out: &mut impl Write) -> io::Result<()> {
        for file in &self.files {
            writeln!(out, "file     {}", printable(&file.to_string_lossy()))?;
        }
        writeln!(out, "samples  {}", self.samples)?;
        writeln!(out, "CPU      {} s (samples x period)", self.seconds(self.samples).trim_start())?;
        writeln!(out, "period   {} us", self.period_micros)
    }

    pub(crate) fn print_table(&self, out: &mut impl Write, limit: usize) -> io::Result<()> {
        let mut rows: Vec<&Function> = self.functions.iter().collect();
        // No two functions have the same label, so the order is total.
        rows.sort_by(|a, b| (b.flat, b.cum, &a.label).cmp(&(a.flat, a.cum, &b.label)));
        writeln!(out, "shown    {} of {} functions\n", limit.min(rows.len()), rows.len())?;
        writeln!(out, "    flat/s   flat%    sum%       cum/s    cum%  function [object]")?;
        let mut sum = 0;
        for Function { label, flat, cum } in rows.into_iter().take(limit) {
            sum += flat;
            let (flat_percent, cum_percent) = (self.percent(*flat), self.percent(*cum));
            let (flat, cum, sum) = (self.seconds(*flat), self.seconds(*cum), self.percent(sum));
            writeln!(out, "{flat}  {flat_percent}  {sum}  {cum}  {cum_percent}  {label}")?;
        }
        Ok(())
    }

    /// Prints each path from an entry point that at least one sample in a hundred took.
    pub(crate) fn print_tree(&self, out: &mut impl Write) -> io::Result<()> {
        const INDENT_LIMIT: usize = 60;
        writeln!(out, "shown    paths of at least 1% of the samples\n")?;
        writeln!(out, "    flat/s       cum/s    cum%  depth  function [object]")?;
        let nodes = self.tree();
        let mut pending = vec![(0, 0)];
        while let Some((node, depth)) = pending.pop() {
            let Node { function, flat, cum, .. } = &nodes[node];
            if let Some(function) = function {
                let (flat, percent, cum) = (self.seconds(*flat), self.percent(*cum), self.seconds(*cum));
                let (indent, label) = (depth.min(INDENT_LIMIT), &self.functions[*function].label);
                writeln!(out, "{flat}  {cum}  {percent}  {depth:>5}  {:indent$}{label}", "")?;
            }
            let mut calls: Vec<usize> = nodes[node].calls.values().copied().collect();
            calls.retain(|&call| nodes[call].cum * 100 >= self.samples);
            let label = |call: usize| nodes[call].function.map(|function| &self.functions[function].label);
            // The last one pushed is printed first.
            calls.sort_by(|&a, &b| (nodes[a].cum, label(b)).cmp(&(nodes[b].cum, label(a))));
            pending.extend(calls.into_iter().map(|call| (call, depth + 1)));
        }
        Ok(())
    }

    /// The nodes of the call tree; the first is the root, above the entry points.
    fn tree(&self) -> Vec<Node> {
        let mut nodes = vec![Node::default()];
        for (count, chain) in &self.chains {
            let mut at = 0;
            for &function in chain.iter().rev() {
                let next = nodes.len();
                at = *nodes[at].calls.entry(function).or_insert(next);
                if at == next {
                    nodes.push(Node { function: Some(function), ..Node::default() });
                }
                nodes[at].cum += count;
            }
            nodes[at].flat += count;
        }
        nodes
    }

    /// Ten columns wide, with decimals enough for one period at 100, 1000 and 10 000 per second.
    fn seconds(&self, samples: u128) -> String {
        let decimals = match self.period_micros {
            10_000.. => 2,
            1_000.. => 3,
            _ => 4,
        };
        let seconds = samples as f64 * self.period_micros as f64 / 1e6;
        format!("{seconds:10.decimals$}")
    }

    fn percent(&self, samples: u128) -> String {
        format!("{:6.2}", 100.0 * samples as f64 / self.samples.max(1) as f64)
    }
}

/// A function as it was called from its parents in the tree. Counts are samples.
#[derive(Default)]
struct Node {
    function: Option<usize>,
    flat: u128,
    cum: u128,
    calls: BTreeMap<usize, usize>,
}
