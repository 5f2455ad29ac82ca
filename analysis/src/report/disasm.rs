//! Disassembly of functions with values per instruction.

use super::{Context, instructions, instructions::Instruction, styled, taken::Taken};
use crate::{
    error::{Error, ErrorKind},
    profile::{LabelSetId, Location, LocationId, Mapping, Profile},
    symbolize::Symbolizer,
    units::{Scale, percent},
};
use regex::Regex;
use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
    ops::Range,
    path::PathBuf,
};

/// Functions to show, and the syntax.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Functions with a matching name.
    pub functions: Regex,
    /// Functions that contain this address, of the process or of the file.
    pub address: Option<u64>,
    /// Use Intel syntax on x86.
    pub intel: bool,
}

/// Functions with their instructions, read from the binaries.
#[derive(Debug)]
pub struct Disassembly {
    routines: Vec<DisassembledFunction>,
    /// Matching functions without instructions, and why.
    failures: Vec<(String, Error)>,
}

/// A function, or the code of another function that was inlined into it.
#[derive(Debug)]
struct DisassembledFunction {
    name: String,
    /// Show only the lines of this inlined function.
    inlined: Option<String>,
    value: Taken,
    lines: Vec<InstructionRow>,
}

#[derive(Debug)]
struct InstructionRow {
    instruction: Instruction,
    value: Taken,
    /// Its function and source line, if known.
    source: String,
    /// Name of the function that it calls or jumps to.
    target: String,
    /// False for instructions outside the inlined function.
    is_shown: bool,
}

/// Address range of a function in a file, and how to convert it to process addresses.
struct FunctionRange {
    name: String,
    /// The wanted function, which was inlined there.
    inlined: Option<String>,
    mapping: Mapping,
    range: Range<u64>,
    location: LocationId,
    /// Process address minus file address.
    bias: u64,
}

impl Disassembly {
    /// Reads the instructions of selected, sampled functions, and adds up their values. If one was
    /// always inlined, it reads the functions around it. The profile must have addresses.
    ///
    /// # Errors
    /// If functions are selected, but instructions are available for none.
    pub fn new(profile: &Profile, wanted: &Selection, symbolizer: &mut Symbolizer) -> Result<Self, Error> {
        let mut disassembly = Self { routines: Vec::new(), failures: Vec::new() };
        let (found, places) = disassembly.find(profile, wanted, symbolizer);
        // For each function that was read: its index in the routines.
        let mut routines: Vec<Option<usize>> = Vec::new();
        for one in &found {
            let read = symbolizer.file_of(&one.mapping).ok_or_else(|| not_there(&one.mapping));
            match read.and_then(|path: PathBuf| instructions::read(&path, one.range.clone(), wanted.intel)) {
                Ok(instructions) => {
                    routines.push(Some(disassembly.routines.len()));
                    disassembly.routines.push(DisassembledFunction::new(one, instructions));
                }
                Err(error) => {
                    routines.push(None);
                    disassembly.failures.push((one.name.clone(), error));
                }
            }
        }
        if disassembly.routines.is_empty() && !disassembly.failures.is_empty() {
            return Err(disassembly.failures.swap_remove(0).1);
        }
        for (one, routine) in found.iter().zip(&routines) {
            if let &Some(routine) = routine {
                disassembly.routines[routine].name_lines(profile, one, symbolizer);
            }
        }
        let line_of = |&(found, address): &(usize, u64)| {
            let routine = routines[found]?;
            let lines = &disassembly.routines[routine].lines;
            let next = lines.partition_point(|line| line.instruction.address <= address);
            let line = next.checked_sub(1)?;
            lines[line].is_shown.then_some((routine, line))
        };
        let places: Vec<Vec<(usize, usize)>> =
            places.iter().map(|places| places.iter().filter_map(line_of).collect()).collect();
        disassembly.count(profile, &places);
        disassembly.routines.sort_by(|one, other| {
            let first =
                |routine: &DisassembledFunction| routine.lines.first().map(|line| line.instruction.address);
            (&one.name, &one.inlined, first(one)).cmp(&(&other.name, &other.inlined, first(other)))
        });
        Ok(disassembly)
    }

    /// Finds the functions, and for each location its functions and file address.
    fn find(
        &mut self,
        profile: &Profile,
        wanted: &Selection,
        symbolizer: &mut Symbolizer,
    ) -> (Vec<FunctionRange>, Vec<Vec<(usize, u64)>>) {
        let matches: Vec<bool> =
            profile.functions.iter().map(|function| wanted.functions.is_match(&function.name)).collect();
        let mut is_used = vec![false; profile.locations.len()];
        for &id in profile.samples.iter().flat_map(|sample| sample.chain) {
            is_used[id.index()] = true;
        }
        // Names of functions that are called: they are not also shown where they were inlined.
        let used = || profile.locations.iter().zip(&is_used).filter(|(_, is_used)| **is_used);
        let outermost = used().filter_map(|(location, _)| location.lines.last());
        let called: HashSet<&str> = outermost.map(|line| &*profile.function(line.function).name).collect();
        let mut found: Vec<FunctionRange> = Vec::new();
        let mut known: HashMap<(PathBuf, Range<u64>, Option<String>), usize> = HashMap::new();
        let mut places = vec![Vec::new(); profile.locations.len()];
        for (place, location) in profile.locations.iter().enumerate().filter(|&(place, _)| is_used[place]) {
            let function = location.lines.last().map(|line| line.function);
            let is_called = function.is_some_and(|function| matches[function.index()]);
            let inlined = location.lines.iter().rev().skip(1).filter(|line| matches[line.function.index()]);
            let mut inlined: Vec<&str> = inlined
                .map(|line| &*profile.function(line.function).name)
                .filter(|name| !called.contains(name))
                .collect();
            inlined.dedup();
            let is_named = is_called || !inlined.is_empty();
            if !is_named && wanted.address.is_none() {
                continue;
            }
            let name = function.map_or(String::new(), |function| profile.function(function).name.to_string());
            let Some(mapping) = profile.mapping_of(location) else {
                if is_named {
                    let reason = format!("{name} is in no known file; it may be generated code");
                    self.fail(name, Error::new(ErrorKind::Mismatch, reason));
                }
                continue;
            };
            let (Some(address), Some(range)) = (
                symbolizer.file_address(mapping, location.address),
                symbolizer.function_range(mapping, location.address),
            ) else {
                if is_named {
                    self.fail(name, not_there(mapping));
                }
                continue;
            };
            let bias = location.address.wrapping_sub(address);
            let of_process = range;
            let range = of_process.start.wrapping_sub(bias)..of_process.end.wrapping_sub(bias);
            let holds = |address| of_process.contains(&address) || range.contains(&address);
            if !is_named && !wanted.address.is_some_and(holds) {
                continue;
            }
            // Selected by name, by an address in it, or because of functions inlined into it.
            let whole = (is_called || wanted.address.is_some_and(holds)).then_some(None);
            for inlined in whole.into_iter().chain(inlined.into_iter().map(|name| Some(name.to_owned()))) {
                let key = (mapping.file.clone(), range.clone(), inlined.clone());
                let number = *known.entry(key).or_insert_with(|| {
                    let (mapping, location) = (mapping.clone(), LocationId::at(place));
                    let (name, range) = (name.clone(), range.clone());
                    found.push(FunctionRange { name, inlined, mapping, range, location, bias });
                    found.len() - 1
                });
                places[place].push((number, address));
            }
        }
        (found, places)
    }

    fn fail(&mut self, name: String, error: Error) {
        if !self.failures.iter().any(|(known, _)| *known == name) {
            self.failures.push((name, error));
        }
    }

    fn count(&mut self, profile: &Profile, places: &[Vec<(usize, usize)>]) {
        for (number, sample) in profile.samples.iter().enumerate() {
            let value = sample.values[profile.default_type];
            for (depth, id) in sample.chain.iter().enumerate() {
                for &(routine, line) in &places[id.index()] {
                    let routine = &mut self.routines[routine];
                    routine.value.add(value, number + 1, depth == 0);
                    routine.lines[line].value.add(value, number + 1, depth == 0);
                }
            }
        }
    }

    /// True if no function was selected.
    pub fn is_empty(&self) -> bool {
        self.routines.is_empty() && self.failures.is_empty()
    }

    /// Writes the functions by name, and what could not be read.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, profile: &Profile, context: &Context, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.routines.iter().flat_map(|routine| &routine.lines);
        let scale = context.scale(profile, lines.map(|line| (line.value.flat, line.value.cum)));
        writeln!(out, "Total: {}", scale.format(context.total))?;
        for routine in &self.routines {
            routine.write(context, scale, out)?;
        }
        for (name, error) in &self.failures {
            writeln!(out, "ROUTINE ======================== {name}")?;
            writeln!(out, " No instructions: {error}")?;
        }
        Ok(())
    }
}

fn not_there(mapping: &Mapping) -> Error {
    let reason = "the binary, or the function in it, was not found";
    Error::new(ErrorKind::Mismatch, reason)
        .at(&mapping.file)
        .advise("name the binaries of the profiled machine by --sysroot or --binary")
}

impl DisassembledFunction {
    fn new(found: &FunctionRange, instructions: Vec<Instruction>) -> Self {
        let line = |instruction| InstructionRow {
            instruction,
            value: Taken::default(),
            source: String::new(),
            target: String::new(),
            is_shown: true,
        };
        let name =
            if found.name.is_empty() { format!("{:#x}", found.range.start) } else { found.name.clone() };
        let lines = instructions.into_iter().map(line).collect();
        Self { name, inlined: found.inlined.clone(), value: Taken::default(), lines }
    }

    /// Looks up source line and call target of each instruction, in a profile of the addresses.
    fn name_lines(&mut self, profile: &Profile, found: &FunctionRange, symbolizer: &mut Symbolizer) {
        let mut addresses = Profile::new(Profile::cpu_types());
        addresses.mappings = profile.mappings.clone();
        for mapping in &mut addresses.mappings {
            mapping.has = crate::profile::Known::default();
        }
        let mapping = profile.location(found.location).mapping;
        let mut add = |address: u64| {
            let address = address.wrapping_add(found.bias);
            addresses.locations.push(Location { mapping, address, ..Location::default() });
            LocationId::at(addresses.locations.len() - 1)
        };
        let mut chain = Vec::new();
        for line in &self.lines {
            chain.push(add(line.instruction.address));
            let target = line.instruction.target.filter(|target| !found.range.contains(target));
            chain.push(add(target.unwrap_or(line.instruction.address)));
        }
        addresses.samples.push(&chain, &[1, 1], LabelSetId(0));
        // Missing symbols were reported when the profile was symbolized.
        symbolizer.symbolize(&mut addresses, &mut |_| {});
        for (line, ids) in self.lines.iter_mut().zip(chain.chunks(2)) {
            let [own, target] = [ids[0], ids[1]].map(|id| addresses.location(id));
            line.is_shown = self.inlined.as_ref().is_none_or(|inlined| {
                own.lines.iter().any(|line| *addresses.function(line.function).name == **inlined)
            });
            if let Some(innermost) = own.lines.first() {
                let function = addresses.function(innermost.function);
                let file = function.file.rsplit('/').next().unwrap_or_default();
                line.source = match (file, innermost.line) {
                    ("", _) => function.name.to_string(),
                    (file, 0) => format!("{} {file}", function.name),
                    (file, number) => format!("{} {file}:{number}", function.name),
                };
            }
            if let (true, Some(outermost)) = (own.address != target.address, target.lines.last()) {
                line.target = addresses.function(outermost.function).name.to_string();
            }
        }
    }

    fn write(&self, context: &Context, scale: Scale, out: &mut dyn Write) -> io::Result<()> {
        let title = match &self.inlined {
            Some(inlined) => format!("{inlined}, inlined into {}", self.name),
            None => self.name.clone(),
        };
        let title = format!("ROUTINE ======================== {title}");
        writeln!(out, "{}", styled(context.colors.heading, title))?;
        writeln!(
            out,
            "{:>10} {:>10} (flat, cum) {} of Total",
            scale.format(self.value.flat),
            scale.format(self.value.cum),
            percent(self.value.cum, context.total)
        )?;
        let mut source = "";
        let mut has_gap = false;
        for line in &self.lines {
            if !line.is_shown {
                has_gap = true;
                continue;
            }
            if std::mem::take(&mut has_gap) {
                writeln!(out, "{:>10} {:>10} {:>10}", "...", "...", "...")?;
            }
            let (flat, cum) = (scale.format_or_point(line.value.flat), scale.format_or_point(line.value.cum));
            let cells = format!("{flat:>10} {cum:>10}");
            let mut text = format!("{:>10x}: {}", line.instruction.address, line.instruction.text);
            if !line.target.is_empty() {
                text += &format!(" <{}>", line.target);
            }
            // The source is printed when it changes.
            if line.source != source && !line.source.is_empty() {
                text = format!("{text:<52};{}", line.source);
            }
            source = &line.source;
            writeln!(out, "{} {text}", styled(context.colors.of(line.value.cum, context.total), cells))?;
        }
        Ok(())
    }
}
