//! Writer: profiles are added one by one, and their values written immediately.
//!
//! Memory grows with the distinct contexts of all profiles, not with their number: profile.db is
//! written as they come, and read again for cct.db, which has the same values by context.

mod frames;
mod meta;
mod metrics;
mod output;
mod taxonomy;
mod trace;
mod tree;
mod values;

use super::layout::{self, IS_PHYSICAL, Identifier};
use crate::{
    error::{Error, ErrorKind},
    formats::{
        ensure_no_negative,
        times::{Span, Times},
    },
    profile::{Label, LabelValue, Profile, Threads, ValueType, label},
    source_file::{self, MAX_BYTES},
};
use foldhash::fast::RandomState;
use frames::{LocationContexts, begins_at_entry};
use metrics::{MAX_METRICS, MetricName};
use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
};
use trace::TraceWriter;
use tree::{Entry, GLOBAL, Kind, Names, Tree};
use values::ValuesWriter;

/// Options of the writer.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Title of the database.
    pub title: String,
    /// Copy the sources that exist.
    pub copies_sources: bool,
    /// Begin all call stacks at the main thread: some readers show no other.
    pub has_one_entry_point: bool,
    /// Write names in ASCII, with other characters as `\u{e9}`: readers in Python fail otherwise.
    pub is_ascii: bool,
}

/// A database under construction, in a directory with a temporary name.
pub struct DatabaseWriter {
    options: WriteOptions,
    directory: tempfile::TempDir,
    tree: Tree,
    names: Names,
    /// Sample types, and the metrics that they become.
    types: Vec<ValueType>,
    metrics: Vec<MetricName>,
    values: ValuesWriter,
    traces: TraceWriter,
    comments: BTreeSet<Arc<str>>,
    /// The number of threads of each rank.
    ranks: HashMap<i64, u32, RandomState>,
    /// All lower ranks are in use.
    free_rank: i64,
}

const NODE: u8 = 1;
const RANK: u8 = 2;
const THREAD: u8 = 3;

impl DatabaseWriter {
    /// Creates a database in a new directory beside `target`.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn new(target: &Path, options: WriteOptions) -> Result<Self, Error> {
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let fails = |error| Error::io(target, "write the database", error);
        let directory = tempfile::Builder::new().prefix(".sigprof-").tempdir_in(parent).map_err(fails)?;
        let values = ValuesWriter::create(directory.path()).map_err(fails)?;
        let traces = TraceWriter::create(directory.path()).map_err(fails)?;
        Ok(Self {
            options,
            directory,
            tree: Tree::new(),
            names: Names::new(),
            types: Vec::new(),
            metrics: Vec::new(),
            values,
            traces,
            comments: BTreeSet::new(),
            ranks: HashMap::default(),
            free_rank: 0,
        })
    }

    /// Keeps a rank for a later profile: processes that have no rank take others.
    pub fn reserve_rank(&mut self, rank: i64) {
        self.ranks.entry(rank).or_default();
    }

    /// Adds the threads of a profile. Without a label for it, `rank` is the rank of its processes.
    ///
    /// # Errors
    /// If its sample types differ from those of the profiles before, a value is negative, or the
    /// values cannot be written.
    pub fn add(&mut self, profile: &Profile, rank: Option<i64>) -> Result<(), Error> {
        for value in 0..profile.sample_types.len() {
            ensure_no_negative(profile, value, "HPCToolkit's format")?;
        }
        let columns = self.columns(profile)?;
        self.comments.extend(profile.comments.iter().cloned());
        let threads = Threads::of(profile);
        // Otherwise the stacks come from a tool that removes these frames.
        let has_entries = profile.samples.iter().any(|sample| begins_at_entry(profile, sample.chain));
        let mut contexts = LocationContexts::new(profile);
        threads.iter().filter_map(|(thread, _)| thread.rank).for_each(|rank| self.reserve_rank(rank));
        // Ranks of this profile's processes that have none.
        let mut free_ranks: HashMap<Option<i64>, i64> = HashMap::new();
        let times = Times::of(profile);
        let nanos =
            columns.iter().copied().find(|&column| &*profile.sample_types[column].unit == "nanoseconds");
        for ((thread, _), samples) in threads.iter().zip(threads.samples(profile)) {
            let node = samples.first().map_or(0, |&place| node_of(profile, place));
            let rank = thread.rank.or(rank).unwrap_or_else(|| {
                *free_ranks.entry(thread.process_id).or_insert_with(|| {
                    while self.ranks.contains_key(&self.free_rank) {
                        self.free_rank += 1;
                    }
                    self.free_rank
                })
            });
            let index = self.ranks.entry(rank).or_default();
            // Without process IDs, the first thread is taken for the main one.
            let is_main = match thread.process_id {
                Some(process) => thread.id.is_none_or(|id| id == process),
                None => *index == 0,
            };
            let tuple = id_tuple(node, rank, *index);
            *index += 1;
            let mut own: Vec<(u32, usize, i64)> = Vec::new();
            let mut context_of = Vec::with_capacity(samples.len());
            for &place in &samples {
                let sample = profile.samples.get(place);
                let is_complete = !has_entries || begins_at_entry(profile, sample.chain);
                let entry = match (self.options.has_one_entry_point, is_complete, is_main) {
                    (true, ..) | (_, true, true) => Entry::MainThread,
                    (_, false, _) => Entry::Unknown,
                    _ => Entry::Thread,
                };
                let mut context = self.tree.child(GLOBAL, Kind::EntryPoint(entry));
                for &id in sample.chain.iter().rev() {
                    context = contexts.enter(&mut self.tree, &mut self.names, context, id);
                }
                context_of.push(context);
                let values = columns.iter().map(|&column| sample.values[column]).enumerate();
                own.extend(
                    values.filter(|&(_, value)| value != 0).map(|(metric, value)| (context, metric, value)),
                );
            }
            let added = self.values.add_thread(&self.tree, &self.metrics, &own, tuple);
            let index = added.map_err(|error| Error::io(&self.path(layout::PROFILE.name), "write", error))?;
            let spans = nanos.map_or_else(Vec::new, |column| times.spans(&samples, column));
            let spans = spans.into_iter().filter_map(|span| {
                let place = samples.binary_search(&span.sample).ok()?;
                Some((span, context_of[place]))
            });
            let added = self.traces.add(index, &spans.collect::<Vec<(Span, u32)>>());
            added.map_err(|error| Error::io(&self.path(layout::TRACE.name), "write", error))?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the columns of the metrics in a profile.
    fn columns(&mut self, profile: &Profile) -> Result<Vec<usize>, Error> {
        let types = &profile.sample_types;
        // HPCToolkit has no metric for the number of samples.
        let is_metric = |column: &usize| types.len() == 1 || !types[*column].is_sample_count();
        let columns: Vec<usize> = (0..types.len()).filter(is_metric).collect();
        let types: Vec<ValueType> = columns.iter().map(|&column| types[column].clone()).collect();
        if types.len() > MAX_METRICS {
            let reason = format!("{} sample types, and a database has at most {MAX_METRICS}", types.len());
            return Err(Error::new(ErrorKind::Request, reason).advise("choose another format"));
        }
        if self.types.is_empty() {
            self.metrics = types.iter().map(MetricName::of).collect();
            self.types = types;
        } else if types != self.types {
            let names =
                |types: &[ValueType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let reason =
                format!("it has values of {}, and the first profile {}", names(&types), names(&self.types));
            return Err(Error::new(ErrorKind::Mismatch, reason).advise("convert them one by one"));
        }
        Ok(columns)
    }

    /// Writes the other files, and gives the directory its name. A database that is there is
    /// replaced if `replaces`.
    ///
    /// # Errors
    /// If a file cannot be written, or there is a directory at `target`.
    pub fn finish(mut self, target: &Path, replaces: bool) -> Result<(), Error> {
        let fails = |error: io::Error| Error::io(target, "write the database", error);
        self.values.finish(&self.metrics)?;
        self.traces.finish().map_err(|error| Error::io(target, "write the traces of the database", error))?;
        let copies = if self.options.copies_sources { self.copy_sources() } else { Vec::new() };
        let metrics = self.path("metrics");
        fs::create_dir(&metrics)
            .and_then(|()| {
                fs::write(self.path(layout::META.name), meta::MetaWriter::new(&self, &copies).write())
            })
            .and_then(|()| fs::write(metrics.join("default.yaml"), taxonomy::default_yaml(&self.metrics)))
            .and_then(|()| fs::write(metrics.join("METRICS.yaml.ex"), taxonomy::METRICS))
            .and_then(|()| fs::write(self.path("FORMATS.md"), taxonomy::FORMATS))
            // A temporary directory is only for its user; others have the permissions of the umask.
            .and_then(|()| fs::metadata(&metrics))
            .and_then(|status| {
                let mode = status.permissions().mode();
                fs::set_permissions(self.directory.path(), fs::Permissions::from_mode(mode))
            })
            .map_err(fails)?;
        if replaces && target.exists() {
            // The other database is then the temporary one, and is removed.
            exchange(self.directory.path(), target).map_err(fails)?;
        } else {
            fs::rename(self.directory.path(), target).map_err(fails)?;
            let _ = self.directory.keep();
        }
        Ok(())
    }

    /// Copies the sources that exist. Returns for each file whether it was copied.
    fn copy_sources(&self) -> Vec<bool> {
        let copy = |path: &Arc<str>| {
            if self.options.is_ascii && !path.is_ascii() {
                // Its name in the database differs.
                return None;
            }
            let target = self.path(copied_path(path)?.to_str()?);
            let bytes = source_file::read(Path::new(&**path), MAX_BYTES)?;
            fs::create_dir_all(target.parent()?).and_then(|()| fs::write(&target, bytes)).ok()
        };
        self.names.files.items.iter().map(|path| copy(path).is_some()).collect()
    }
}

/// Returns the identifiers of a thread.
fn id_tuple(node: i64, rank: i64, thread: u32) -> Vec<Identifier> {
    let logical = |kind: u8, id: u32| Identifier { kind, flags: 0, logical: id, physical: id.into() };
    let node = Identifier { kind: NODE, flags: IS_PHYSICAL, logical: 0, physical: node as u64 };
    vec![node, logical(RANK, u32::try_from(rank).unwrap_or(u32::MAX)), logical(THREAD, thread)]
}

/// Returns the path of a source's copy, for an absolute path without `..`.
fn copied_path(path: &str) -> Option<PathBuf> {
    let mut components = Path::new(path).components();
    let is_absolute = components.next() == Some(Component::RootDir);
    let is_plain = components.clone().all(|component| matches!(component, Component::Normal(_)));
    (is_absolute && is_plain).then(|| Path::new("src").join(components.as_path()))
}

fn exchange(made: &Path, target: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, made, CWD, target, RenameFlags::EXCHANGE)?)
}

/// Returns the node of a sample, 0 if unknown.
fn node_of(profile: &Profile, place: usize) -> i64 {
    let labels = profile.labels(profile.samples.get(place).labels);
    let node = labels.iter().find_map(|Label { key, value }| match value {
        LabelValue::Number(node, _) if **key == *label::NODE => Some(*node),
        _ => None,
    });
    node.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_metrics_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("database");
        let written = |count: usize| {
            let types = (0..count).map(|number| ValueType::new(&format!("metric {number}"), "count"));
            let mut builder = crate::profile::Builder::new(types.collect());
            let labels = builder.label_set(&[]);
            builder.profile.samples.push(&[], &vec![1; count], labels);
            let options = WriteOptions {
                title: "many".into(),
                copies_sources: false,
                has_one_entry_point: false,
                is_ascii: false,
            };
            let mut writer = DatabaseWriter::new(&target, options)?;
            writer.add(&builder.finish(), None)?;
            writer.finish(&target, true)
        };
        written(MAX_METRICS).unwrap();
        let (_, findings) = super::super::check(&target).unwrap();
        assert_eq!(findings, []);
        let error = written(MAX_METRICS + 1).unwrap_err().to_string();
        assert!(error.starts_with("3277 sample types, and a database has at most 3276"), "{error}");
    }
}
