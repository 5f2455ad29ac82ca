//! profile.db and cct.db: the values, by thread and by context.

use super::{
    super::{
        layout::{
            CONTEXT, ContextIndex, ContextInfo, ContextInfos, IS_SUMMARY, IdTuple, Identifier, MetricIndex,
            MetricValue, PROFILE, Profiles, Record, ThreadProfile, ThreadValue,
        },
        profile_db::{ProfileDb, is_summary},
    },
    metrics::{
        EXECUTION, FUNCTION, LEX_AWARE, MetricName, POINT, SCOPES, STATISTICS, Scoped, Statistics, metric_id,
        statistic_id,
    },
    output::{Output, append},
    tree::{GLOBAL, Kind, Tree},
};
use crate::{error::Error, formats::map_file};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// Writes profile.db while threads are added, then cct.db.
pub(super) struct ValuesWriter {
    directory: PathBuf,
    output: Output,
    /// The first is the summary, which is written last.
    profiles: Vec<ThreadProfile>,
    tuples: Vec<Vec<Identifier>>,
    /// By context, metric and scope.
    statistics: Vec<Statistics>,
    /// Number of values of threads, by context.
    counts: Vec<u32>,
    /// Values of the present thread, by context and metric; all zeros between two threads.
    scratch: Vec<Scoped>,
    /// Contexts of the present thread; all false between two threads.
    is_touched: Vec<bool>,
}

impl ValuesWriter {
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            directory: directory.into(),
            output: Output::create(directory, PROFILE)?,
            profiles: vec![ThreadProfile::default()],
            tuples: Vec::new(),
            statistics: Vec::new(),
            counts: Vec::new(),
            scratch: Vec::new(),
            is_touched: Vec::new(),
        })
    }

    /// Adds the values of a thread, from the own ones of its contexts: context, metric and value.
    /// Returns the index of its profile.
    pub(super) fn add_thread(
        &mut self,
        tree: &Tree,
        metrics: &[MetricName],
        own: &[(u32, usize, i64)],
        tuple: Vec<Identifier>,
    ) -> io::Result<u32> {
        let (width, contexts) = (metrics.len(), tree.nodes.len());
        self.scratch.resize(contexts * width, Scoped::default());
        self.statistics.resize(contexts * width * SCOPES.len(), Statistics::default());
        self.counts.resize(contexts, 0);
        let touched = self.add_own(tree, width, own);
        // Children before their parents.
        for &context in touched.iter().rev().filter(|&&context| context != GLOBAL) {
            let node = tree.nodes[context as usize];
            for metric in 0..width {
                let inner = self.scratch[context as usize * width + metric];
                let outer = &mut self.scratch[node.parent as usize * width + metric];
                outer[EXECUTION] = outer[EXECUTION].saturating_add(inner[EXECUTION]);
                if node.is_lexical() {
                    outer[FUNCTION] = outer[FUNCTION].saturating_add(inner[FUNCTION]);
                }
            }
        }
        let mut block = ProfileBlock::default();
        for &context in &touched {
            let is_entry = matches!(tree.nodes[context as usize].kind, Kind::EntryPoint(_));
            for (metric, name) in metrics.iter().enumerate() {
                let place = context as usize * width + metric;
                let mut scoped = std::mem::take(&mut self.scratch[place]);
                if is_entry {
                    // Outside of functions there is only the sum.
                    scoped = [0, 0, 0, scoped[EXECUTION]];
                }
                // Without loops they are equal.
                scoped[LEX_AWARE] = scoped[FUNCTION];
                for (scope, &value) in scoped.iter().enumerate().filter(|(_, value)| **value != 0) {
                    self.statistics[place * SCOPES.len() + scope].add(value, name.divisor);
                    let id = metric_id(width, metric * SCOPES.len() + scope);
                    block.add(context, id, value as f64 / name.divisor);
                    self.counts[context as usize] += 1;
                }
            }
        }
        self.profiles.push(block.write(&mut self.output)?);
        self.tuples.push(tuple);
        // The number of profiles has 32 bits.
        Ok(self.profiles.len() as u32 - 1)
    }

    /// Adds own values to the scratch memory. Returns their contexts and those above, sorted.
    fn add_own(&mut self, tree: &Tree, width: usize, own: &[(u32, usize, i64)]) -> Vec<u32> {
        let mut touched = Vec::new();
        self.is_touched.resize(tree.nodes.len(), false);
        for &(context, metric, value) in own {
            let scoped = &mut self.scratch[context as usize * width + metric];
            for scope in [POINT, FUNCTION, EXECUTION] {
                scoped[scope] = scoped[scope].saturating_add(value);
            }
            let mut context = context;
            while !std::mem::replace(&mut self.is_touched[context as usize], true) {
                touched.push(context);
                context = tree.nodes[context as usize].parent;
            }
        }
        touched.iter().for_each(|&context| self.is_touched[context as usize] = false);
        touched.sort_unstable();
        touched
    }

    /// Writes the summary and the sections of profile.db, and cct.db.
    pub(super) fn finish(&mut self, metrics: &[MetricName]) -> Result<(), Error> {
        let path = self.directory.join(PROFILE.name);
        self.finish_profiles(metrics).map_err(|error| Error::io(&path, "write", error))?;
        self.write_contexts(&path)
    }

    fn finish_profiles(&mut self, metrics: &[MetricName]) -> io::Result<()> {
        let mut block = ProfileBlock::default();
        let of_context = (metrics.len() * SCOPES.len()).max(1);
        for (context, statistics) in self.statistics.chunks(of_context).enumerate() {
            let known = statistics.iter().enumerate().filter(|(_, of)| of.count != 0);
            let values = known.map(|(place, of)| (place, of.values(metrics[place / SCOPES.len()].divisor)));
            let values: Vec<(usize, [f64; STATISTICS.len()])> = values.collect();
            for statistic in 0..STATISTICS.len() {
                // The square of a small value can be 0.
                for (place, values) in values.iter().filter(|(_, values)| values[statistic] != 0.0) {
                    let id = statistic_id(metrics.len(), *place, statistic);
                    block.add(context as u32, id, values[statistic]);
                }
            }
        }
        self.profiles[0] = ThreadProfile { flags: IS_SUMMARY, ..block.write(&mut self.output)? };
        self.output.align(8)?;
        let start = self.output.position;
        for (tuple, profile) in self.tuples.iter().zip(&mut self.profiles[1..]) {
            profile.id_tuple = self.output.position;
            self.output.record(&IdTuple { count: tuple.len() as u16 })?;
            for identifier in tuple {
                self.output.record(identifier)?;
            }
        }
        self.output.section("IdTuples", start)?;
        let start = self.output.position;
        self.output.record(&Profiles {
            profiles: start + Profiles::SIZE as u64,
            count: self.profiles.len() as u32,
            size: ThreadProfile::SIZE as u8,
        })?;
        for profile in &self.profiles {
            self.output.record(profile)?;
        }
        self.output.section("ProfileInfos", start)?;
        self.output.finish()
    }

    /// Writes cct.db from profile.db, some contexts at a time.
    fn write_contexts(&self, source: &Path) -> Result<(), Error> {
        let map = File::open(source).and_then(|file| map_file(&file));
        let map = map.map_err(|error| Error::io(source, "read", error))?;
        let profiles = ProfileDb::new(&map).map_err(|error| error.at(source))?;
        let fails = |error| Error::io(&self.directory.join(CONTEXT.name), "write", error);
        let mut output = Output::create(&self.directory, CONTEXT).map_err(fails)?;
        let start = output.position;
        let count = self.counts.len().max(1);
        let infos = start + ContextInfos::SIZE as u64;
        let head = ContextInfos { contexts: infos, count: count as u32, size: ContextInfo::SIZE as u8 };
        output.record(&head).map_err(fails)?;
        output.skip((count * ContextInfo::SIZE) as u64).map_err(fails)?;
        output.section("CtxInfos", start).map_err(fails)?;
        let mut written = Vec::with_capacity(count * ContextInfo::SIZE);
        // The next index of each profile.
        let mut cursors = vec![0; profiles.profiles.len()];
        let mut first = 0;
        while first < count {
            let end = self.batch_end(first);
            let mut batch: Vec<(u32, u16, u32, f64)> = Vec::new();
            for (place, profile) in profiles.profiles.iter().enumerate() {
                if is_summary(&profile) {
                    continue;
                }
                let next = profiles.contexts_below(&profile, cursors[place], end as u32, |context, value| {
                    // The number of profiles has 32 bits.
                    batch.push((context, value.metric_id, place as u32, value.value));
                });
                cursors[place] = next.map_err(|error| error.at(source))?;
            }
            batch.sort_unstable_by_key(|&(context, metric, profile, _)| (context, metric, profile));
            let mut rest = &batch[..];
            for context in first..end {
                let length = rest.iter().take_while(|value| value.0 == context as u32).count();
                let (of_context, others) = rest.split_at(length);
                rest = others;
                let info = write_context(&mut output, of_context).map_err(fails)?;
                append(&mut written, &info);
            }
            first = end;
        }
        output.overwrite(infos, &written).and_then(|()| output.finish()).map_err(fails)
    }

    /// Returns the end of the contexts from `first` on that have a limited number of values.
    fn batch_end(&self, first: usize) -> usize {
        const MAX_VALUES: usize = 2 << 20;
        let mut values = 0;
        for (place, &count) in self.counts.iter().enumerate().skip(first) {
            values += count as usize;
            if values > MAX_VALUES && place > first {
                return place;
            }
        }
        self.counts.len().max(1)
    }
}

/// Values of a thread, to be written.
#[derive(Default)]
struct ProfileBlock {
    values: Vec<u8>,
    contexts: Vec<u8>,
    last: Option<u32>,
    value_count: u64,
    context_count: u32,
}

impl ProfileBlock {
    /// Adds a value; contexts and their metrics must ascend.
    fn add(&mut self, context: u32, metric_id: u16, value: f64) {
        if self.last != Some(context) {
            self.last = Some(context);
            append(&mut self.contexts, &ContextIndex { context_id: context, start: self.value_count });
            self.context_count += 1;
        }
        append(&mut self.values, &MetricValue { metric_id, value });
        self.value_count += 1;
    }

    fn write(self, output: &mut Output) -> io::Result<ThreadProfile> {
        output.align(MetricValue::ALIGNMENT)?;
        let values = output.position;
        output.bytes(&self.values)?;
        output.align(ContextIndex::ALIGNMENT)?;
        let contexts = output.position;
        output.bytes(&self.contexts)?;
        let (value_count, context_count) = (self.value_count, self.context_count);
        Ok(ThreadProfile { value_count, values, context_count, contexts, ..ThreadProfile::default() })
    }
}

/// Writes the values of a context, which are sorted by metric and profile.
fn write_context(output: &mut Output, values: &[(u32, u16, u32, f64)]) -> io::Result<ContextInfo> {
    output.align(ThreadValue::ALIGNMENT)?;
    let start = output.position;
    let mut metrics = Vec::new();
    for (place, &(_, metric_id, profile, value)) in values.iter().enumerate() {
        if place == 0 || values[place - 1].1 != metric_id {
            metrics.push(MetricIndex { metric_id, start: place as u64 });
        }
        output.record(&ThreadValue { profile, value })?;
    }
    output.align(MetricIndex::ALIGNMENT)?;
    let index = output.position;
    for metric in &metrics {
        output.record(metric)?;
    }
    let (value_count, metric_count) = (values.len() as u64, metrics.len() as u16);
    Ok(ContextInfo { value_count, values: start, metric_count, metrics: index })
}
