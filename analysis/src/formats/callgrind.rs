//! Writer of callgrind's format, for KCachegrind and `callgrind_annotate`.
//!
//! Both compute a function's inclusive cost as the sum of the calls to it, so a recursive function
//! would count once per frame. Here each sample adds its cost to one call of each function, the
//! outermost on the stack; inner calls have cost 0. Outermost frames are called by `(root)`:
//! otherwise a function that is also called elsewhere would lack the cost of those stacks.

use super::{
    ensure_no_negative,
    frames::{FrameLine, LocationFrames},
};
use crate::{
    error::Error,
    profile::{MappingId, Profile},
};
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
};

/// Writes all values, each as an event.
///
/// The number of calls is unknown: each edge has the number of its samples instead.
///
/// # Errors
/// If a value is negative; those of `out`.
pub fn write(profile: &Profile, out: impl Write) -> Result<(), Error> {
    for value in 0..profile.sample_types.len() {
        ensure_no_negative(profile, value, "callgrind's format")?;
    }
    let frames = LocationFrames::of(profile);
    let costs = Costs::of(profile, &frames);
    CallgrindWriter { out, profile, frames: &frames, known: HashMap::new() }
        .put(&costs)
        .map_err(Error::output)
}

/// The caller of the outermost frames; greater than all frame indices.
const ROOT: usize = usize::MAX;

#[derive(Default)]
struct Costs {
    functions: BTreeMap<usize, FunctionCost>,
}

#[derive(Default)]
struct FunctionCost {
    /// The function's own cost, by line.
    own: BTreeMap<i64, Vec<i64>>,
    /// By callee and line of the call.
    calls: BTreeMap<(usize, i64), CallCost>,
}

#[derive(Default)]
struct CallCost {
    samples: u64,
    inclusive: Vec<i64>,
}

impl Costs {
    fn of(profile: &Profile, frames: &LocationFrames) -> Self {
        let mut costs = Self::default();
        let width = profile.sample_types.len();
        let zeros = || vec![0; width];
        // Equal stacks are one sample in a profile, with their count as a value.
        let counted = profile.sample_types.iter().position(|one| &*one.unit == "count");
        // Number of the last sample that contained each frame, from 1.
        let mut last_sample = vec![0; frames.frames.len()];
        for (number, sample) in (1..).zip(profile.samples.iter()) {
            let mut caller = FrameLine { frame: ROOT, line: 0 };
            for place in frames.chain(sample.chain).rev() {
                let is_outermost = std::mem::replace(&mut last_sample[place.frame], number) != number;
                let function = costs.functions.entry(caller.frame).or_default();
                let call = function.calls.entry((place.frame, caller.line)).or_default();
                if call.inclusive.is_empty() {
                    call.inclusive = zeros();
                }
                let samples = counted.map_or(1, |value| sample.values[value].unsigned_abs());
                call.samples = call.samples.saturating_add(samples);
                if is_outermost {
                    add(&mut call.inclusive, sample.values);
                }
                caller = place;
            }
            let function = costs.functions.entry(caller.frame).or_default();
            add(function.own.entry(caller.line).or_insert_with(zeros), sample.values);
        }
        costs
    }
}

fn add(sums: &mut [i64], values: &[i64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.saturating_add(*value);
    }
}

struct CallgrindWriter<'a, W> {
    out: W,
    profile: &'a Profile,
    frames: &'a LocationFrames,
    /// Numbers of names, for each of the three kinds of name.
    known: HashMap<(&'static str, String), usize>,
}

impl<W: Write> CallgrindWriter<'_, W> {
    fn put(mut self, costs: &Costs) -> io::Result<()> {
        let types = &self.profile.sample_types;
        writeln!(self.out, "# callgrind format\nversion: 1\ncreator: sigprof {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(self.out, "positions: line")?;
        let events: Vec<String> =
            types.iter().map(|one| format!("{}_{}", one.kind, one.unit)).map(word).collect();
        for (event, one) in events.iter().zip(types) {
            writeln!(self.out, "event: {event} : {} in {}", line(&one.kind), line(&one.unit))?;
        }
        writeln!(self.out, "events: {}", events.join(" "))?;
        let totals: Vec<i64> = (0..types.len()).map(|value| self.profile.total(value)).collect();
        writeln!(self.out, "summary: {}\n", numbers(&totals))?;
        for (&frame, function) in &costs.functions {
            self.function(frame, function)?;
        }
        writeln!(self.out, "totals: {}", numbers(&totals))?;
        self.out.flush()
    }

    fn function(&mut self, frame: usize, function: &FunctionCost) -> io::Result<()> {
        self.name(["ob", "fl", "fn"], frame)?;
        for (line, own) in &function.own {
            writeln!(self.out, "{} {}", line.max(&0), numbers(own))?;
        }
        for (&(called, line), call) in &function.calls {
            self.name(["cob", "cfi", "cfn"], called)?;
            let begin = self.frames.frames[called].start_line.max(0);
            writeln!(self.out, "calls={} {begin}", call.samples)?;
            writeln!(self.out, "{} {}", line.max(0), numbers(&call.inclusive))?;
        }
        writeln!(self.out)
    }

    /// Writes the object, file and name of a function under the given keys.
    fn name(&mut self, keys: [&str; 3], frame: usize) -> io::Result<()> {
        let (object, file, name) = match self.frames.frames.get(frame) {
            None => (String::new(), String::new(), "(root)".to_owned()),
            Some(frame) => (self.object(frame.object), line(&frame.file), line(&frame.name)),
        };
        let unknown = |text: String| if text.is_empty() { "???".to_owned() } else { text };
        for (key, (kind, text)) in keys.into_iter().zip([("ob", object), ("fl", file), ("fn", name)]) {
            let number = self.known.len() + 1;
            let entry = self.known.entry((kind, unknown(text)));
            match entry {
                std::collections::hash_map::Entry::Occupied(known) => {
                    writeln!(self.out, "{key}=({})", known.get())?
                }
                std::collections::hash_map::Entry::Vacant(new) => {
                    writeln!(self.out, "{key}=({number}) {}", new.key().1)?;
                    new.insert(number);
                }
            }
        }
        Ok(())
    }

    fn object(&self, id: Option<MappingId>) -> String {
        id.map_or(String::new(), |id| line(&self.profile.mappings[id.index()].file.to_string_lossy()))
    }
}

fn numbers(values: &[i64]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// A text without line breaks and leading space, which would end the line or resemble a number.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").trim_start().to_owned()
}

/// An event name: letters, digits and `_`.
fn word(text: String) -> String {
    text.replace(|character: char| !character.is_ascii_alphanumeric(), "_")
}
