//! Reader: metrics become sample types, contexts call stacks, identifiers labels.
//!
//! A profile has the values of each context with those of its descendants, by scope. A context's
//! own value is the one of the scope `execution` (or, if there is none, another) less those of its
//! children. The scope `point` is not sufficient: hpcprof attributes its values to contexts that
//! meta.db does not have.

use super::{
    CONVERTED_BY,
    layout::{self, IS_COPIED, IS_PHYSICAL, Identifier, MetricValue, SourceFile, lexical, relation, scope},
    meta::{Lexical, Meta, MetricIds, Step, widest},
    profile_db::{ProfileDb, is_summary},
    trace_db,
};
use crate::{
    error::{Error, ErrorKind},
    formats::map_file,
    profile::{
        Builder, Function, FunctionId, Known, Label, LabelSetId, LabelValue, Line, Location, LocationId,
        Mapping, MappingId, Profile, ValueType, label,
    },
    text::printable,
};
use foldhash::fast::RandomState;
use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Reads the database in `directory`. It needs meta.db and profile.db.
///
/// # Errors
/// If a file cannot be read, or violates its format.
pub fn read(directory: &Path) -> Result<Profile, Error> {
    let open = |name: &str| {
        let path = directory.join(name);
        let map = File::open(&path).and_then(|file| map_file(&file));
        map.map_err(|error| Error::io(&path, "read the database", error))
    };
    let (meta, values) = (open(layout::META.name)?, open(layout::PROFILE.name)?);
    let trace = directory.join(layout::TRACE.name).exists().then(|| open(layout::TRACE.name)).transpose()?;
    let files = DatabaseFiles { meta: &meta, profile: &values, trace: trace.as_deref() };
    read_files(&files, directory)
}

/// The contents of the files that are read.
pub(crate) struct DatabaseFiles<'a> {
    pub(crate) meta: &'a [u8],
    pub(crate) profile: &'a [u8],
    pub(crate) trace: Option<&'a [u8]>,
}

/// Reads a database in memory. Errors name its files in `directory`.
///
/// # Errors
/// If a file violates its format.
pub(crate) fn read_files(files: &DatabaseFiles<'_>, directory: &Path) -> Result<Profile, Error> {
    let of = |kind: layout::FileKind| move |error: Error| error.at(&directory.join(kind.name));
    let meta = Meta::new(files.meta).map_err(of(layout::META))?;
    let metrics = meta.metrics().map_err(of(layout::META))?;
    let kinds = meta.kinds().map_err(of(layout::META))?;
    let mut budget = Budget::of(files.meta.len() + files.profile.len());
    let mut reader = Reader::new(meta, &metrics);
    reader.read_contexts(&mut budget).map_err(of(layout::META))?;
    reader.read_header().map_err(of(layout::META))?;
    let values = ProfileDb::new(files.profile).map_err(of(layout::PROFILE))?;
    reader.read_values(&values, &kinds, &metrics, &mut budget).map_err(of(layout::PROFILE))?;
    if let Some(trace) = files.trace {
        let (first, last) = trace_db::times(trace).map_err(of(layout::TRACE))?;
        let profile = &mut reader.builder.profile;
        profile.time_nanos = i64::try_from(first).unwrap_or(0);
        profile.duration_nanos = i64::try_from(last.saturating_sub(first)).unwrap_or(0);
    }
    Ok(reader.finish())
}

/// Limits memory: a small file can have a deep tree, and each of its contexts a long call stack.
struct Budget {
    left: usize,
}

impl Budget {
    fn of(file_bytes: usize) -> Self {
        Self { left: file_bytes.saturating_mul(16).saturating_add(16 << 20) }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            Error::new(
                ErrorKind::Format,
                "its call stacks need more memory than 16 times the size of the files",
            )
            .advise("the database is damaged, or its stacks have thousands of frames")
        })?;
        Ok(())
    }
}

/// A context of the tree; the first is the implicit one above all others.
#[derive(Clone, Copy, Default)]
struct Node {
    parent: u32,
    /// Bits of the context, for transitive scopes.
    propagation: u16,
    /// The innermost frame, with functions that are inlined there; None outside of functions.
    location: Option<LocationId>,
    /// The context of the call to it, if `location` has one.
    caller: u32,
}

/// Marks the end of the callers.
const NONE: u32 = u32::MAX;
/// The node of all values.
const GLOBAL: u32 = 0;

/// What a step changed on the path.
struct Opened {
    node: u32,
    frames: usize,
    /// The innermost frame before, if its position was changed.
    replaced: Option<Lexical>,
    group: usize,
    caller: u32,
}

struct Reader<'a> {
    builder: Builder,
    meta: Meta<'a>,
    /// Number of units of each sample type in a unit of its metric.
    scales: Vec<f64>,
    nodes: Vec<Node>,
    by_id: HashMap<u32, u32, RandomState>,
    modules: HashMap<u64, MappingId, RandomState>,
    files: HashMap<u64, Arc<str>, RandomState>,
    /// By pointers of function and file.
    functions: HashMap<(u64, u64), FunctionId, RandomState>,
    locations: HashMap<Location, LocationId, RandomState>,
}

impl<'a> Reader<'a> {
    fn new(meta: Meta<'a>, metrics: &[MetricIds<'_>]) -> Self {
        let types = metrics.iter().map(|metric| sample_type(&metric.name));
        let (types, scales): (Vec<ValueType>, Vec<f64>) = types.unzip();
        let types = if types.is_empty() { Profile::cpu_types() } else { types };
        let default_type = types.iter().position(|one| &*one.unit == "nanoseconds").unwrap_or(0);
        let mut builder = Builder::new(types);
        builder.profile.default_type = default_type;
        let (by_id, modules, files, functions, locations) = Default::default();
        let nodes = vec![Node { parent: NONE, caller: NONE, ..Node::default() }];
        Self { builder, meta, scales, nodes, by_id, modules, files, functions, locations }
    }

    fn read_header(&mut self) -> Result<(), Error> {
        let (title, description) = self.meta.title()?;
        let profile = &mut self.builder.profile;
        // hpcprof writes this text if it has no description.
        const NO_DESCRIPTION: &str = "TODO database description";
        let lines = std::iter::once(&*title).chain(description.lines());
        let lines = lines.map(|line| line.strip_prefix("- ").unwrap_or(line));
        let is_comment =
            |line: &&str| !line.is_empty() && *line != NO_DESCRIPTION && !line.starts_with(CONVERTED_BY);
        profile.comments = lines.filter(is_comment).map(|line| printable(line.as_bytes()).into()).collect();
        Ok(())
    }

    /// Reads the tree.
    fn read_contexts(&mut self, budget: &mut Budget) -> Result<(), Error> {
        // The functions on the path to a context, with the position in each.
        let mut frames: Vec<Lexical> = Vec::new();
        let mut opened: Vec<Opened> = Vec::new();
        // The first frame of the innermost location, and the context that called it.
        let (mut group, mut caller) = (0, NONE);
        for step in self.meta.contexts()? {
            let (offset, id, propagation) = match step? {
                Step::Leave => {
                    let last = opened.pop().expect("each step has one end");
                    frames.truncate(last.frames);
                    if let (Some(frame), Some(before)) = (frames.last_mut(), last.replaced) {
                        *frame = before;
                    }
                    (group, caller) = (last.group, last.caller);
                    continue;
                }
                Step::EntryPoint(offset, entry) => {
                    opened.push(Opened { node: 0, frames: 0, replaced: None, group, caller });
                    (offset, entry.id, 0)
                }
                Step::Context(offset, context, lexical) => {
                    let parent = opened.last().map_or(GLOBAL, |opened| opened.node);
                    let mut now = Opened { node: 0, frames: frames.len(), replaced: None, group, caller };
                    let is_call = context.relation != relation::LEXICAL;
                    let is_function = context.lexical_type == lexical::FUNCTION;
                    if is_call || is_function || frames.is_empty() {
                        if frames.is_empty() || is_call && context.relation != relation::INLINED {
                            caller = if frames.is_empty() { NONE } else { parent };
                            group = frames.len();
                        }
                        frames.push(lexical);
                    } else if let Some(frame) = frames.last_mut() {
                        now.replaced = Some(*frame);
                        if context.lexical_type != lexical::LOOP {
                            // The line of a loop is the one of its header.
                            frame.source = lexical.source.or(frame.source);
                            frame.point = lexical.point.or(frame.point);
                        }
                    }
                    opened.push(now);
                    (offset, context.id, context.propagation)
                }
            };
            let parent = opened.len().checked_sub(2).map_or(GLOBAL, |place| opened[place].node);
            let node = u32::try_from(self.nodes.len())
                .map_err(|_| Error::new(ErrorKind::Format, "more than 2^32 contexts").at_offset(offset))?;
            if let Some(opened) = opened.last_mut() {
                opened.node = node;
            }
            budget.spend(size_of::<Line>() * (frames.len() - group.min(frames.len())))?;
            let location = match frames.get(group..) {
                Some(group) if !group.is_empty() => Some(self.location(group)?),
                _ => None,
            };
            self.nodes.push(Node { parent, propagation, location, caller });
            // Of contexts with the same ID, which is an error, the first has the values.
            self.by_id.entry(id).or_insert(node);
        }
        self.by_id.insert(0, GLOBAL);
        Ok(())
    }

    /// Returns the location of a function and the functions that are inlined there.
    fn location(&mut self, group: &[Lexical]) -> Result<LocationId, Error> {
        let mut lines = Vec::with_capacity(group.len());
        for frame in group.iter().rev() {
            lines.push(self.line(frame)?);
        }
        let point = group.iter().rev().find_map(|frame| frame.point);
        let mapping = match (point, group[0].function) {
            (Some((module, _)), _) => Some(self.module(module)?),
            (None, Some(function)) => match self.meta.file.record::<layout::Function>(function)?.module {
                0 => None,
                module => Some(self.module(module)?),
            },
            (None, None) => None,
        };
        let mut location = Location { mapping, lines, ..Location::default() };
        if let (Some(mapping), Some((_, offset))) = (mapping, point) {
            let mapping = &mut self.builder.profile.mappings[mapping.index()];
            if offset < MODULE_BYTES {
                location.address = mapping.start + offset;
                mapping.end = mapping.end.max(location.address + 1);
            }
        }
        let locations = &mut self.builder.profile.locations;
        Ok(match self.locations.entry(location) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let id = LocationId::at(locations.len());
                locations.push(new.key().clone());
                *new.insert(id)
            }
        })
    }

    fn line(&mut self, frame: &Lexical) -> Result<Line, Error> {
        let Lexical { function: pointer, source, point } = *frame;
        let record = match pointer {
            Some(pointer) => self.meta.file.record::<layout::Function>(pointer)?,
            None => {
                // An instruction that belongs to no function.
                let (module, offset) = point.unwrap_or((0, 0));
                layout::Function { module, offset, ..layout::Function::default() }
            }
        };
        let own_file = if record.file == 0 { source.map_or(0, |(file, _)| file) } else { record.file };
        let file = self.file(own_file)?;
        // A line of another file, such as of a macro, is none of this function.
        let line = match source {
            Some((other, line)) if self.file(other)? == file => i64::from(line),
            _ => 0,
        };
        let key = match pointer {
            Some(pointer) => (pointer, own_file),
            // No record has such a pointer: it would not be in the file.
            None => (u64::MAX, record.offset),
        };
        if let Some(&function) = self.functions.get(&key).filter(|_| pointer.is_some()) {
            return Ok(Line { function, line, column: 0 });
        }
        let module = if record.module == 0 { None } else { Some(self.module(record.module)?) };
        let name = match record.name {
            0 => String::new(),
            name => printable(self.meta.file.text(name)?.as_bytes()),
        };
        let name = self.function_name(name, module, record.offset);
        let name = self.builder.string(&name);
        let start_line = i64::from(record.line);
        let function = self.builder.function(Function { system_name: name.clone(), name, file, start_line });
        self.functions.insert(key, function);
        Ok(Line { function, line, column: 0 })
    }

    /// Returns a name for an unnamed function, and others without their module, which hpcprof adds.
    fn function_name(&self, name: String, module: Option<MappingId>, offset: u64) -> String {
        let module = module.map(|module| &self.builder.profile.mappings[module.index()].file);
        let module =
            module.and_then(|path| path.file_name()).map(|name| format!(" [{}]", name.to_string_lossy()));
        let module = module.unwrap_or_default();
        if name.is_empty() {
            return format!("<unknown procedure> {offset:#x}{module}");
        }
        match name.strip_suffix(&module) {
            Some(short) if !short.is_empty() && !name.starts_with('<') => short.to_owned(),
            _ => name,
        }
    }

    /// Returns the mapping of a module. Each has its own range of addresses.
    fn module(&mut self, pointer: u64) -> Result<MappingId, Error> {
        if let Some(&known) = self.modules.get(&pointer) {
            return Ok(known);
        }
        let path = self.meta.file.record::<layout::Module>(pointer)?.path;
        let path = printable(self.meta.file.text(path)?.as_bytes());
        let start = MODULE_BYTES.wrapping_mul(self.modules.len() as u64 + 1);
        let has = Known { functions: true, files: true, lines: true, inlines: true };
        let mapping = self.builder.mapping(Mapping {
            start,
            end: start.saturating_add(1),
            file_offset: 0,
            file: PathBuf::from(path),
            build_id: "".into(),
            is_deleted: false,
            is_moved: false,
            process: None,
            has,
        });
        self.modules.insert(pointer, mapping);
        Ok(mapping)
    }

    /// Returns the path of a source file; empty for a module's name, which hpcprof writes instead.
    fn file(&mut self, pointer: u64) -> Result<Arc<str>, Error> {
        if pointer == 0 {
            return Ok("".into());
        }
        if let Some(known) = self.files.get(&pointer) {
            return Ok(known.clone());
        }
        let file: SourceFile = self.meta.file.record(pointer)?;
        let path = self.meta.file.text(file.path)?;
        let path = match path.strip_prefix("src").filter(|path| path.starts_with('/')) {
            Some(original) if file.flags & IS_COPIED != 0 => original,
            _ => &path,
        };
        let is_module = path.starts_with('[') && path.ends_with(']');
        let path = if is_module { String::new() } else { printable(path.as_bytes()) };
        let path = self.builder.string(&path);
        self.files.insert(pointer, path.clone());
        Ok(path)
    }

    /// Adds the samples of all threads, or the sums over them if only these are there.
    fn read_values(
        &mut self,
        values: &ProfileDb<'_>,
        kinds: &[Cow<'_, str>],
        metrics: &[MetricIds<'_>],
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let threads: Vec<_> = values.profiles.iter().filter(|profile| !is_summary(profile)).collect();
        let has_threads = !threads.is_empty();
        let chosen = metrics.iter().enumerate().filter_map(|(metric, ids)| {
            let instances = if has_threads { &ids.of_threads } else { &ids.of_sums };
            widest(instances).map(|(scope, id)| (id, (metric, scope)))
        });
        let chosen: HashMap<u16, (usize, layout::Scope), RandomState> = chosen.collect();
        let profiles = if has_threads { threads } else { values.profiles.iter().take(1).collect() };
        for profile in &profiles {
            let identifiers = values.identifiers(profile)?;
            let mut own: HashMap<(u32, usize), f64, RandomState> = HashMap::default();
            values.for_each_context(profile, |id, values| {
                let Some(&node) = self.by_id.get(&id) else { return Ok(()) };
                for MetricValue { metric_id, value } in values {
                    let Some(&(metric, scope)) = chosen.get(&metric_id) else { continue };
                    *own.entry((node, metric)).or_default() += value;
                    if let Some(parent) = self.includer(node, scope) {
                        *own.entry((parent, metric)).or_default() -= value;
                    }
                }
                Ok(())
            })?;
            let samples = self.samples(own);
            if !samples.is_empty() {
                let labels = self.labels(&identifiers, kinds);
                self.add_samples(&samples, labels, budget)?;
            }
        }
        Ok(())
    }

    /// Returns the parent if its value by `scope` includes the one of `node`.
    fn includer(&self, node: u32, scope: layout::Scope) -> Option<u32> {
        let Node { parent, propagation, .. } = self.nodes[node as usize];
        let is_included = match scope.kind {
            scope::EXECUTION => true,
            scope::TRANSITIVE => {
                1_u16.checked_shl(scope.propagation_index.into()).is_some_and(|bit| propagation & bit != 0)
            }
            _ => false,
        };
        (is_included && parent != NONE).then_some(parent)
    }

    /// Returns the own values, sorted, in units of the sample types: node, metric and value.
    fn samples(&self, own: HashMap<(u32, usize), f64, RandomState>) -> Vec<(u32, usize, i64)> {
        // Differences of rounded values may be slightly below 0.
        let whole = own.into_iter().map(|((node, metric), value)| {
            (node, metric, (value * self.scales[metric]).round().max(0.0) as i64)
        });
        let mut whole: Vec<(u32, usize, i64)> = whole.filter(|&(_, _, value)| value != 0).collect();
        whole.sort_unstable();
        whole
    }

    /// Adds a sample for each node.
    fn add_samples(
        &mut self,
        samples: &[(u32, usize, i64)],
        labels: LabelSetId,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let width = self.builder.profile.sample_types.len();
        let mut chain = Vec::new();
        for of_node in samples.chunk_by(|(node, ..), (other, ..)| node == other) {
            let mut values = vec![0; width];
            for &(_, metric, value) in of_node {
                values[metric] = value;
            }
            chain.clear();
            let mut node = of_node[0].0;
            while node != NONE {
                let Node { location, caller, .. } = self.nodes[node as usize];
                chain.extend(location);
                node = caller;
            }
            budget.spend(size_of::<LocationId>() * chain.len() + size_of::<i64>() * width)?;
            self.builder.profile.samples.push(&chain, &values, labels);
        }
        Ok(())
    }

    /// Returns the labels of a thread.
    fn labels(&mut self, identifiers: &[Identifier], kinds: &[Cow<'_, str>]) -> LabelSetId {
        let mut labels = Vec::new();
        for identifier in identifiers {
            let kind = kinds.get(usize::from(identifier.kind)).map_or("", |kind| &**kind);
            let key = match kind {
                "" => format!("identifier {}", identifier.kind),
                "THREAD" => label::THREAD_ID.to_owned(),
                kind => printable(kind.as_bytes()).to_lowercase(),
            };
            let is_physical = identifier.flags & IS_PHYSICAL != 0;
            let value = if is_physical { identifier.physical as i64 } else { identifier.logical.into() };
            let (key, unit) = (self.builder.string(&key), self.builder.string(""));
            labels.push(Label { key, value: LabelValue::Number(value, unit) });
        }
        self.builder.label_set(&labels)
    }

    fn finish(self) -> Profile {
        self.builder.finish()
    }
}

/// Bytes of address space for each module; offsets beyond have no address.
const MODULE_BYTES: u64 = 1 << 36;

/// Returns the sample type of a metric, and the number of its units in a unit of the metric.
pub(super) fn sample_type(metric: &str) -> (ValueType, f64) {
    let (kind, unit, scale) = match metric {
        "CPUTIME (sec)" => ("cpu", "nanoseconds", 1e9),
        "REALTIME (sec)" => ("wall", "nanoseconds", 1e9),
        _ => match (metric.strip_suffix(" (sec)"), metric.strip_suffix(" (B)")) {
            (Some(kind), _) => (kind, "nanoseconds", 1e9),
            (_, Some(kind)) => (kind, "bytes", 1.0),
            _ => (metric, "count", 1.0),
        },
    };
    (ValueType::new(&printable(kind.as_bytes()), unit), scale)
}
