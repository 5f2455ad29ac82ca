//! meta.db: names, metrics, and the tree of contexts.

use super::{
    super::{
        CONVERTED_BY,
        layout::{
            Context, Contexts, EntryPoint, FIRST_SECTION, Function, General, IS_COPIED, IdNames, List, META,
            Metric, Metrics, Module, Record, Scalar as _, Scope, ScopeInstance, Section, SourceFile, Summary,
            has, lexical, relation,
        },
    },
    DatabaseWriter, copied_path,
    metrics::{SCOPES, STATISTICS, metric_id, statistic_id},
    output::{append, header},
    tree::{Children, Entry, GLOBAL, Kind, Node},
};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Names of the kinds of identifiers, as hpcprof writes them.
const KINDS: [&str; 8] =
    ["SUMMARY", "NODE", "RANK", "THREAD", "GPUDEVICE", "GPUCONTEXT", "GPUSTREAM", "CORE"];
/// The elements of a list.
#[derive(Clone, Copy)]
struct Elements {
    first: u64,
    size: u64,
}

impl Elements {
    /// Returns the pointer to an element.
    fn at(self, number: u32) -> u64 {
        self.first + u64::from(number) * self.size
    }
}

/// Makes meta.db in memory.
pub(super) struct MetaWriter<'w> {
    writer: &'w DatabaseWriter,
    copies: &'w [bool],
    bytes: Vec<u8>,
    sections: Vec<Section>,
}

impl<'w> MetaWriter<'w> {
    pub(super) fn new(writer: &'w DatabaseWriter, copies: &'w [bool]) -> Self {
        let sections = vec![Section::default(); META.sections.len()];
        let bytes = vec![0; FIRST_SECTION + sections.len() * Section::SIZE];
        Self { writer, copies, bytes, sections }
    }

    pub(super) fn write(mut self) -> Vec<u8> {
        self.general();
        self.kinds();
        self.metrics();
        let start = self.begin();
        let names = &self.writer.names;
        let mut known = HashMap::default();
        let known = &mut known;
        let modules: Vec<u64> = names.modules.items.iter().map(|path| self.string(path, known)).collect();
        let files: Vec<u64> = (0..names.files.items.len()).map(|file| self.file_path(file, known)).collect();
        let functions: Vec<u64> =
            names.functions.items.iter().map(|function| self.string(&function.name, known)).collect();
        let entries = Entry::ALL.map(|entry| self.string(entry.name(), known));
        self.end("Strings", start);
        let modules = self.list("Modules", modules.iter().map(|&path| Module { flags: 0, path }));
        let copies = self.copies;
        let is_copied = |file: usize| copies.get(file).copied().unwrap_or(false);
        let files = self.list(
            "Files",
            files
                .iter()
                .enumerate()
                .map(|(file, &path)| SourceFile { flags: if is_copied(file) { IS_COPIED } else { 0 }, path }),
        );
        let functions = self.list(
            "Functions",
            names.functions.items.iter().zip(&functions).map(|(function, &name)| Function {
                name,
                module: function.module.map_or(0, |module| modules.at(module)),
                offset: function.offset,
                file: function.file.map_or(0, |file| files.at(file)),
                line: function.line,
                flags: 0,
            }),
        );
        self.contexts(entries, functions, files);
        self.bytes.extend(META.footer);
        let header = header(META, &self.sections);
        self.bytes[..header.len()].copy_from_slice(&header);
        self.bytes
    }

    fn begin(&mut self) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.bytes.len() as u64
    }

    fn end(&mut self, name: &str, start: u64) {
        let place = META.sections.iter().position(|section| *section == name);
        let section = Section { size: self.bytes.len() as u64 - start, start };
        self.sections[place.expect("the file has this section")] = section;
        self.begin();
    }

    fn record<R: Record>(&mut self, record: &R) -> u64 {
        let at = self.bytes.len() as u64;
        append(&mut self.bytes, record);
        at
    }

    fn set<R: Record>(&mut self, at: u64, record: &R) {
        record.encode(&mut self.bytes[at as usize..]);
    }

    /// Appends a text without NUL characters.
    fn text(&mut self, text: &str) -> u64 {
        let at = self.bytes.len() as u64;
        let is_ascii = self.writer.options.is_ascii;
        for character in text.chars() {
            match character {
                '\0' => self.bytes.push(b'?'),
                _ if is_ascii && !character.is_ascii() => {
                    self.bytes.extend(character.escape_unicode().map(|escaped| escaped as u8));
                }
                _ => self.bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        self.bytes.push(0);
        at
    }

    /// Appends a text unless an equal one is in `known`: strings of the section are unique.
    fn string(&mut self, text: &str, known: &mut HashMap<String, u64, RandomState>) -> u64 {
        if let Some(&at) = known.get(text) {
            return at;
        }
        let at = self.text(text);
        known.insert(text.into(), at);
        at
    }

    fn file_path(&mut self, file: usize, known: &mut HashMap<String, u64, RandomState>) -> u64 {
        let path = self.writer.names.files.items[file].clone();
        match copied_path(&path).filter(|_| self.copies.get(file).copied().unwrap_or(false)) {
            Some(copy) => self.string(&copy.to_string_lossy(), known),
            None => self.string(&path, known),
        }
    }

    fn general(&mut self) {
        let start = self.begin();
        let at = self.record(&General::default());
        let title = self.text(&self.writer.options.title);
        let mut description = format!("{CONVERTED_BY}{}.\n", env!("CARGO_PKG_VERSION"));
        for comment in &self.writer.comments {
            description.push_str(&format!("\n- {comment}"));
        }
        let description = self.text(&description);
        self.set(at, &General { title, description });
        self.end("General", start);
    }

    fn kinds(&mut self) {
        let start = self.begin();
        let at = self.record(&IdNames::default());
        let names = self.bytes.len() as u64;
        self.bytes.resize(self.bytes.len() + KINDS.len() * size_of::<u64>(), 0);
        for (place, kind) in KINDS.iter().enumerate() {
            let name = self.text(kind);
            name.encode(&mut self.bytes[names as usize + place * size_of::<u64>()..]);
        }
        self.set(at, &IdNames { names, count: KINDS.len() as u8 });
        self.end("IdNames", start);
    }

    fn metrics(&mut self) {
        let start = self.begin();
        let head = self.record(&Metrics::default());
        let metrics = &self.writer.metrics;
        let first = self.bytes.len() as u64;
        for _ in metrics {
            self.record(&Metric::default());
        }
        let scopes = self.bytes.len() as u64;
        for _ in SCOPES {
            self.record(&Scope::default());
        }
        let scope_at = |scope: usize| scopes + (scope * Scope::SIZE) as u64;
        let mut instances = Vec::new();
        for metric in 0..metrics.len() {
            let scope_instances = self.bytes.len() as u64;
            for scope in 0..SCOPES.len() {
                let metric_id = metric_id(metrics.len(), metric * SCOPES.len() + scope);
                self.record(&ScopeInstance { scope: scope_at(scope), metric_id });
            }
            let summaries = self.bytes.len() as u64;
            for place in 0..SCOPES.len() * STATISTICS.len() {
                let (scope, statistic) = (place / STATISTICS.len(), place % STATISTICS.len());
                let metric_id = statistic_id(metrics.len(), metric * SCOPES.len() + scope, statistic);
                let combine = STATISTICS[statistic].1;
                // The formula's text follows.
                self.record(&Summary { scope: scope_at(scope), formula: 0, combine, metric_id });
            }
            instances.push((scope_instances, summaries));
        }
        for (scope, (name, kind, propagation_index)) in SCOPES.into_iter().enumerate() {
            let name = self.text(name);
            self.set(scope_at(scope), &Scope { name, kind, propagation_index });
        }
        let formulas = STATISTICS.map(|(formula, _)| self.text(formula));
        for (place, metric) in metrics.iter().enumerate() {
            let (scope_instances, summaries) = instances[place];
            let name = self.text(&metric.name);
            let record = Metric {
                name,
                scope_instances,
                summaries,
                scope_instance_count: SCOPES.len() as u16,
                summary_count: (SCOPES.len() * STATISTICS.len()) as u16,
            };
            self.set(first + (place * Metric::SIZE) as u64, &record);
            for place in 0..SCOPES.len() * STATISTICS.len() {
                let at = summaries + (place * Summary::SIZE) as u64;
                let summary = Summary::decode(&self.bytes[at as usize..]);
                self.set(at, &Summary { formula: formulas[place % STATISTICS.len()], ..summary });
            }
        }
        let record = Metrics {
            metrics: first,
            metric_count: metrics.len() as u32,
            metric_size: Metric::SIZE as u8,
            scope_instance_size: ScopeInstance::SIZE as u8,
            summary_size: Summary::SIZE as u8,
            scopes,
            scope_count: SCOPES.len() as u16,
            scope_size: Scope::SIZE as u8,
        };
        self.set(head, &record);
        self.end("Metrics", start);
    }

    fn list<R: Record>(&mut self, section: &str, rows: impl ExactSizeIterator<Item = R>) -> Elements {
        let start = self.begin();
        let first = start + List::SIZE as u64;
        self.record(&List { start: first, count: rows.len() as u32, size: R::SIZE as u16 });
        for row in rows {
            self.record(&row);
        }
        self.end(section, start);
        Elements { first, size: R::SIZE as u64 }
    }

    /// Writes the tree. Children are written before their parents, so IDs descend.
    fn contexts(&mut self, entries: [u64; 3], functions: Elements, files: Elements) {
        let start = self.begin();
        let head = self.record(&Contexts::default());
        let tree = &self.writer.tree;
        let children: Children = tree.children();
        // Pointer and size of the children of each context.
        let mut written = vec![(0_u64, 0_u64); tree.nodes.len()];
        for parent in (1..tree.nodes.len() as u32).rev() {
            let ids = children.of(parent);
            if ids.is_empty() {
                continue;
            }
            let at = self.bytes.len() as u64;
            for &id in ids {
                let (children, children_size) = written[id as usize];
                self.context(id, tree.nodes[id as usize], (children, children_size), functions, files);
            }
            written[parent as usize] = (at, self.bytes.len() as u64 - at);
        }
        let entry_points = self.bytes.len() as u64;
        for &id in children.of(GLOBAL) {
            let Kind::EntryPoint(entry) = tree.nodes[id as usize].kind else { continue };
            let (children, children_size) = written[id as usize];
            let name = entries[entry as usize];
            self.record(&EntryPoint { children_size, children, id, kind: entry as u16, name });
        }
        let count = children.of(GLOBAL).len() as u16;
        self.set(head, &Contexts { entry_points, count, size: EntryPoint::SIZE as u8 });
        self.end("Context", start);
    }

    fn context(
        &mut self,
        id: u32,
        node: Node,
        (children, children_size): (u64, u64),
        functions: Elements,
        files: Elements,
    ) {
        let context = Context { children_size, children, id, ..Context::default() };
        let (context, words) = match node.kind {
            Kind::Function { function, is_inlined } => {
                let relation = if is_inlined { relation::INLINED } else { relation::CALL };
                let flags = has::FUNCTION;
                let lexical_type = lexical::FUNCTION;
                (Context { flags, relation, lexical_type, ..context }, vec![functions.at(function)])
            }
            Kind::Line { file, line } => {
                let (flags, lexical_type) = (has::SOURCE, lexical::LINE);
                let relation = relation::LEXICAL;
                (
                    Context { flags, relation, lexical_type, propagation: 1, ..context },
                    vec![files.at(file), line.into()],
                )
            }
            Kind::EntryPoint(_) => return,
        };
        self.record(&Context { word_count: words.len() as u8, ..context });
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}
