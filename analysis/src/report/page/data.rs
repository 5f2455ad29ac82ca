//! Data of the page's script: columns of numbers, and each string once.

use super::{
    PageOptions,
    source::{SourceExcerpts, WantedLines},
};
use crate::{
    graph::{Sides, clean_path},
    profile::{Profile, Threads},
    report::{
        call_tree::{PrefixTree, ROOT},
        frame_name,
    },
    text::visible,
};
use serde::Serialize;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Contents of the page's data block.
#[derive(Debug, Serialize)]
pub(super) struct Data<'a> {
    title: &'a str,
    /// The program's file name; empty if unknown.
    program: Cow<'a, str>,
    /// Milliseconds since 1970; 0 if unknown.
    began: i64,
    /// Nanoseconds; 0 if unknown.
    duration: i64,
    comments: Vec<Cow<'a, str>>,
    filters: &'a [String],
    types: Vec<Type<'a>>,
    /// Index in `types` of the type to show first.
    chosen: usize,
    /// Sorted function names; a function's number is an index here.
    names: Vec<Cow<'a, str>>,
    /// For each function the index of its object in `objects`.
    object: Vec<u32>,
    objects: Vec<Cow<'a, str>>,
    files: Vec<Arc<str>>,
    frames: FrameColumns,
    tree: Tree,
    samples: SampleColumns,
    /// Threads of samples, the first for unknown ones; empty if all are unknown.
    threads: Vec<String>,
    sources: Vec<SourceRun<'a>>,
    /// Sentences about missing source text.
    source_notes: Vec<String>,
    /// Weight of each frame for the choice of source: flat plus cumulative value, roughly.
    #[serde(skip)]
    weights: Vec<i64>,
}

#[derive(Debug, Serialize)]
struct Type<'a> {
    kind: Cow<'a, str>,
    unit: Cow<'a, str>,
    /// Base of percentages.
    total: i64,
    /// Noise terms in a comparison: see [`Sides::noise_terms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    noise: Option<[f64; 2]>,
}

/// Columns of frames: a function at a line of a file.
#[derive(Debug, Default, Serialize)]
struct FrameColumns {
    function: Vec<u32>,
    file: Vec<u32>,
    /// From 1; 0 if unknown.
    line: Vec<i64>,
    /// The function's first line, from 1; 0 if unknown.
    start: Vec<i64>,
    /// 1 if it is inlined into its caller.
    inlined: Vec<u8>,
}

/// Columns of call tree nodes, callers before callees; the first is the root.
#[derive(Debug, Default, Serialize)]
struct Tree {
    depth: Vec<u32>,
    frame: Vec<u32>,
}

/// Columns of samples, one for each node and thread, and for each side of a comparison.
#[derive(Debug, Default, Serialize)]
struct SampleColumns {
    node: Vec<u32>,
    thread: Vec<u32>,
    /// A column for each type.
    values: Vec<Vec<i64>>,
    /// Only in a comparison: 1 for a sample of the base, which has negative values.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Vec<u8>>,
    /// Only in a comparison: a column for each type.
    #[serde(skip_serializing_if = "Option::is_none")]
    variances: Option<Vec<Vec<i64>>>,
}

/// Consecutive lines of a file.
#[derive(Debug, Serialize)]
struct SourceRun<'a> {
    file: u32,
    /// Number of the first line, from 1.
    line: usize,
    text: Cow<'a, str>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct FrameKey {
    function: u32,
    file: u32,
    line: i64,
    start: i64,
    is_inlined: bool,
}

impl<'a> Data<'a> {
    pub(super) fn new(profile: &'a Profile, title: &'a str, options: &'a PageOptions) -> Self {
        let totals = options.totals.clone().unwrap_or_else(|| super::totals(profile));
        let sides: Option<Vec<Sides>> =
            (0..profile.sample_types.len()).map(|place| Sides::of_type(profile, place)).collect();
        let types = profile.sample_types.iter().zip(totals).enumerate();
        let types = types
            .map(|(place, (kind, total))| Type {
                kind: visible(&kind.kind),
                unit: visible(&kind.unit),
                total,
                noise: sides.as_ref().and_then(|sides| sides[place].noise_terms()),
            })
            .collect();
        let mut data = Self {
            title,
            program: visible(&frame_name::object(profile.mappings.first())).into_owned().into(),
            began: profile.time_nanos.div_euclid(1_000_000),
            duration: profile.duration_nanos,
            // As in pprof, comments that begin with # are for programs.
            comments: profile
                .comments
                .iter()
                .filter(|one| !one.starts_with('#'))
                .map(|one| visible(one))
                .collect(),
            filters: &options.filters,
            types,
            chosen: profile.default_type,
            names: Vec::new(),
            object: Vec::new(),
            objects: Vec::new(),
            files: Vec::new(),
            frames: FrameColumns::default(),
            tree: Tree::default(),
            samples: SampleColumns::default(),
            threads: Vec::new(),
            sources: Vec::new(),
            source_notes: Vec::new(),
            weights: Vec::new(),
        };
        let used = used_locations(profile);
        data.name_functions(profile, &used);
        let (frames, frames_of) = data.frames_of(profile, &used);
        data.grow(profile, &frames, &frames_of, sides.as_deref());
        // Names were compared unescaped; they are shown with control characters escaped.
        data.names = data.names.iter().map(|name| visible(name).into_owned().into()).collect();
        data.objects = data.objects.iter().map(|name| visible(name).into_owned().into()).collect();
        data.threads = data.threads.iter().map(|name| visible(name).into_owned()).collect();
        for frame in frames {
            data.frames.function.push(frame.function);
            data.frames.file.push(frame.file);
            data.frames.line.push(frame.line);
            data.frames.start.push(frame.start);
            data.frames.inlined.push(frame.is_inlined.into());
        }
        data
    }

    /// Fills `names`, sorted, and the object of each name's first location.
    fn name_functions(&mut self, profile: &'a Profile, used: &[bool]) {
        let mut objects: HashMap<Cow<'a, str>, u32> = HashMap::new();
        let mut functions: BTreeMap<Cow<'a, str>, u32> = BTreeMap::new();
        for (location, _) in profile.locations.iter().zip(used).filter(|(_, used)| **used) {
            let object = frame_name::object(profile.mapping_of(location));
            let object = *objects.entry(object).or_insert_with_key(|object| {
                self.objects.push(object.clone());
                number(self.objects.len() - 1)
            });
            for name in frame_name::names(profile, location) {
                functions.entry(name).or_insert(object);
            }
        }
        (self.names, self.object) = functions.into_iter().unzip();
    }

    /// Returns all frames, and those of each location, outermost first.
    fn frames_of(&mut self, profile: &'a Profile, used: &[bool]) -> (Vec<FrameKey>, Vec<Vec<u32>>) {
        let mut files: HashMap<Arc<str>, u32> = HashMap::new();
        let none: Arc<str> = "".into();
        let mut numbers: HashMap<FrameKey, u32> = HashMap::new();
        let mut frames = Vec::new();
        let frames_of = profile.locations.iter().zip(used).map(|(location, &used)| {
            if !used {
                return Vec::new();
            }
            let names = frame_name::names(profile, location).enumerate();
            let mut here: Vec<u32> = names
                .map(|(place, name)| {
                    let line = location.lines.get(place);
                    let function = line.map(|line| profile.function(line.function));
                    let file = function.map_or_else(|| none.clone(), |function| clean_path(&function.file));
                    let file = *files.entry(file).or_insert_with_key(|file| {
                        self.files.push(file.clone());
                        number(self.files.len() - 1)
                    });
                    let frame = FrameKey {
                        function: number(self.names.binary_search(&name).expect("all were named before")),
                        file,
                        line: line.map_or(0, |line| line.line.max(0)),
                        start: function.map_or(0, |function| function.start_line.max(0)),
                        is_inlined: place + 1 < location.lines.len(),
                    };
                    *numbers.entry(frame).or_insert_with(|| {
                        frames.push(frame);
                        number(frames.len() - 1)
                    })
                })
                .collect();
            here.reverse();
            here
        });
        let frames_of = frames_of.collect();
        (frames, frames_of)
    }

    fn grow(
        &mut self,
        profile: &'a Profile,
        frames: &[FrameKey],
        frames_of: &[Vec<u32>],
        sides: Option<&[Sides]>,
    ) {
        let threads = Threads::of(profile);
        // 0 is for samples without a known thread.
        let mut numbers = Vec::new();
        for (_, title) in threads.iter() {
            if self.threads.is_empty() && title.is_some() {
                self.threads.push("not known".into());
            }
            numbers.push(title.as_ref().map_or(0, |_| number(self.threads.len())));
            self.threads.extend(title);
        }

        let mut tree = PrefixTree::new();
        // By node, side of a comparison, and thread.
        let mut sums: HashMap<(u32, bool, u32), usize> = HashMap::new();
        let mut columns = vec![Vec::new(); profile.sample_types.len()];
        let mut variances = vec![Vec::new(); sides.map_or(0, <[Sides]>::len)];
        for sample in profile.samples.iter() {
            let chain = sample.chain.iter().rev().flat_map(|id| &frames_of[id.index()]);
            let node = chain.fold(ROOT, |node, &frame| tree.child(node, frame));
            let next = sums.len();
            let is_base = sides.is_some_and(|sides| sides[0].is_base(sample));
            let place = *sums.entry((node, is_base, numbers[threads.place(sample.labels)])).or_insert(next);
            let add = |column: &mut Vec<i64>, value| {
                if place == next {
                    column.push(0);
                }
                column[place] = column[place].saturating_add(value);
            };
            columns.iter_mut().zip(sample.values).for_each(|(column, &value)| add(column, value));
            for (column, side) in variances.iter_mut().zip(sides.unwrap_or_default()) {
                add(column, side.variance(sample));
            }
        }
        let mut own = vec![0_i64; tree.len()];
        for (&(node, ..), &place) in &sums {
            let value = columns[self.chosen][place].saturating_abs();
            own[node as usize] = own[node as usize].saturating_add(value);
        }
        let mut whole = own.clone();
        tree.accumulate(&mut whole, i64::saturating_add);
        self.weights = vec![0; frames.len()];
        for node in (1..).take(tree.len() - 1) {
            let weight = &mut self.weights[tree.frame(node) as usize];
            let node = node as usize;
            *weight = weight.saturating_add(own[node]).saturating_add(whole[node]);
        }

        let order = tree.preorder(|frame| frames[frame as usize], |_| true);
        let mut places = vec![0; tree.len()];
        for (place, &node) in order.nodes.iter().enumerate() {
            places[node as usize] = number(place);
        }
        let frame = |&node: &u32| if node == ROOT { 0 } else { tree.frame(node) };
        self.tree.frame = order.nodes.iter().map(frame).collect();
        self.tree.depth = order.depths;

        let mut sorted: Vec<((u32, bool, u32), usize)> = sums
            .into_iter()
            .map(|((node, is_base, thread), sum)| ((places[node as usize], is_base, thread), sum))
            .collect();
        sorted.sort_unstable();
        let in_order = |columns: &[Vec<i64>]| {
            columns.iter().map(|column| sorted.iter().map(|sample| column[sample.1]).collect()).collect()
        };
        self.samples = SampleColumns {
            node: sorted.iter().map(|((node, ..), _)| *node).collect(),
            thread: sorted.iter().map(|((.., thread), _)| *thread).collect(),
            values: in_order(&columns),
            base: sides.map(|_| sorted.iter().map(|((_, is_base, _), _)| u8::from(*is_base)).collect()),
            variances: sides.map(|_| in_order(&variances)),
        };
    }

    /// Embeds source text, of the hottest functions first.
    pub(super) fn embed(&mut self, sources: &SourceExcerpts) {
        let mut wanted: BTreeMap<(u32, u32), WantedLines> = BTreeMap::new();
        for (place, &weight) in self.weights.iter().enumerate() {
            let (file, line) = (self.frames.file[place], self.frames.line[place]);
            if self.files[file as usize].is_empty() || line == 0 {
                continue;
            }
            let wanted = wanted.entry((self.frames.function[place], file)).or_insert_with(|| WantedLines {
                file: &self.files[file as usize],
                start: self.frames.start[place],
                weight: 0,
                lines: BTreeMap::new(),
            });
            wanted.weight = wanted.weight.saturating_add(weight);
            let sum = wanted.lines.entry(line).or_insert(0);
            *sum = sum.saturating_add(weight);
        }
        let mut wanted: Vec<_> = wanted.into_iter().collect();
        wanted.sort_by_key(|(key, wanted)| (std::cmp::Reverse(wanted.weight), *key));
        let numbers: HashMap<&str, u32> =
            self.files.iter().enumerate().map(|(place, file)| (&**file, number(place))).collect();
        let found = sources.find(wanted.into_iter().map(|(_, wanted)| wanted).collect());
        self.sources = found
            .runs
            .into_iter()
            .map(|run| SourceRun { file: numbers[run.file], line: run.line, text: run.text.into() })
            .collect();
        self.sources.sort_by_key(|source| (source.file, source.line));
        self.source_notes = found.notes.iter().map(|note| visible(note).into_owned()).collect();
        self.files = self.files.iter().map(|file| visible(file).into()).collect();
    }

    /// Returns JSON that is safe inside `<script>`: without characters that begin or end markup.
    pub(super) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers and texts have a form in JSON");
        // In JSON these characters occur only in strings, where they can be escaped.
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

fn used_locations(profile: &Profile) -> Vec<bool> {
    let mut used = vec![false; profile.locations.len()];
    for sample in profile.samples.iter() {
        sample.chain.iter().for_each(|id| used[id.index()] = true);
    }
    used
}

fn number(place: usize) -> u32 {
    u32::try_from(place).expect("what is counted takes more than a byte of input")
}
