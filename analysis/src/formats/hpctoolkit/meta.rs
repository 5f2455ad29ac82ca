//! meta.db: metrics, identifier kinds, and the tree of contexts.

use super::{
    file::{Array, DbFile},
    layout::{
        Context, Contexts, EntryPoint, General, IdNames, META, Metric, Metrics, Record, Scalar, Scope,
        ScopeInstance, Summary, has, scope,
    },
};
use crate::error::{Error, ErrorKind};
use std::borrow::Cow;

/// The contents of meta.db.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta<'a> {
    pub(super) file: DbFile<'a>,
}

/// A metric, and the IDs of its values.
#[derive(Clone, Debug)]
pub(super) struct MetricIds<'a> {
    pub(super) name: Cow<'a, str>,
    /// In profiles of threads, by scope.
    pub(super) of_threads: Vec<(Scope, u16)>,
    /// Sums over threads, in the summary profile.
    pub(super) of_sums: Vec<(Scope, u16)>,
}

/// The variable part of a [`Context`]: pointers to functions, files and modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lexical {
    pub(super) function: Option<u64>,
    /// A file, and the line in it.
    pub(super) source: Option<(u64, u32)>,
    /// A module, and the offset in it.
    pub(super) point: Option<(u64, u64)>,
}

impl<'a> Meta<'a> {
    /// # Errors
    /// If it is another file.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { file: DbFile::new(META, bytes)? })
    }

    /// Returns title and description.
    pub(super) fn title(&self) -> Result<(Cow<'a, str>, Cow<'a, str>), Error> {
        let general: General = self.file.head("General")?;
        Ok((self.file.text(general.title)?, self.file.text(general.description)?))
    }

    /// Returns the names of the kinds of identifiers.
    pub(super) fn kinds(&self) -> Result<Vec<Cow<'a, str>>, Error> {
        let names: IdNames = self.file.head("IdNames")?;
        let pointers = self.file.slice(names.names, u64::from(names.count) * 8)?;
        pointers.chunks_exact(8).map(|pointer| self.file.text(u64::decode(pointer))).collect()
    }

    pub(super) fn metrics(&self) -> Result<Vec<MetricIds<'a>>, Error> {
        /// The formula of a sum.
        const VALUE: &str = "$$";
        const SUM: u8 = 0;
        let head: Metrics = self.file.head("Metrics")?;
        let metrics: Array<'_, Metric> =
            self.file.array(head.metrics, head.metric_count.into(), head.metric_size.into())?;
        let ids = metrics.iter().map(|metric| {
            let instances: Array<'_, ScopeInstance> = self.file.array(
                metric.scope_instances,
                metric.scope_instance_count.into(),
                head.scope_instance_size.into(),
            )?;
            let summaries: Array<'_, Summary> =
                self.file.array(metric.summaries, metric.summary_count.into(), head.summary_size.into())?;
            let scope = |pointer: u64| self.file.record::<Scope>(pointer);
            let of_threads = instances
                .iter()
                .map(|instance| scope(instance.scope).map(|scope| (scope, instance.metric_id)))
                .collect::<Result<_, _>>()?;
            let mut of_sums = Vec::new();
            for summary in summaries.iter() {
                if summary.combine == SUM && self.file.text(summary.formula)? == VALUE {
                    of_sums.push((scope(summary.scope)?, summary.metric_id));
                }
            }
            Ok(MetricIds { name: self.file.text(metric.name)?, of_threads, of_sums })
        });
        ids.collect()
    }

    /// Iterates over all contexts, parents first.
    ///
    /// # Errors
    /// If the section is damaged.
    pub(super) fn contexts(&self) -> Result<ContextWalk<'a>, Error> {
        let head: Contexts = self.file.head("Context")?;
        let entry_points = self.file.array(head.entry_points, head.count.into(), head.size.into())?;
        let left = self.file.bytes.len() as u64;
        Ok(ContextWalk { file: self.file, entry_points, next: 0, open: Vec::new(), left })
    }
}

impl Lexical {
    /// Reads the words after a context. Words of later versions are ignored.
    ///
    /// # Errors
    /// If there are too few.
    pub(super) fn read(context: &Context, words: &[u8]) -> Result<Self, Error> {
        let mut words = words.chunks_exact(8).map(u64::decode);
        let mut next = || {
            words.next().ok_or_else(|| {
                Error::new(ErrorKind::Format, format!("context {} has too few words", context.id))
            })
        };
        let mut lexical = Self::default();
        if context.flags & has::FUNCTION != 0 {
            lexical.function = Some(next()?);
        }
        if context.flags & has::SOURCE != 0 {
            // The line is in the lower half of its word.
            lexical.source = Some((next()?, next()? as u32));
        }
        if context.flags & has::POINT != 0 {
            lexical.point = Some((next()?, next()?));
        }
        Ok(lexical)
    }
}

/// A step of a walk through the context tree. Offsets are those of the records.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// An entry point; its children follow, then [`Step::Leave`].
    EntryPoint(u64, EntryPoint),
    /// A context; its children follow, then [`Step::Leave`].
    Context(u64, Context, Lexical),
    Leave,
}

/// A walk through the context tree, without recursion.
#[derive(Debug)]
pub(super) struct ContextWalk<'a> {
    file: DbFile<'a>,
    entry_points: Array<'a, EntryPoint>,
    next: usize,
    /// For each context on the path: the offsets of its next child, and of the children's end.
    open: Vec<(u64, u64)>,
    /// Bytes of contexts that may still come: no more than the file has, unless there is a cycle.
    left: u64,
}

impl ContextWalk<'_> {
    fn enter(&mut self, children: u64, size: u64) -> Result<(), Error> {
        if size > 0 {
            self.file.slice(children, size)?;
        }
        self.open.push((children, children.saturating_add(size)));
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Step>, Error> {
        let Some((next, end)) = self.open.last_mut() else {
            if self.next == self.entry_points.len() {
                return Ok(None);
            }
            let (offset, entry) = (self.entry_points.offset(self.next), self.entry_points.get(self.next));
            self.next += 1;
            self.enter(entry.children, entry.children_size)?;
            return Ok(Some(Step::EntryPoint(offset, entry)));
        };
        if next >= end {
            self.open.pop();
            return Ok(Some(Step::Leave));
        }
        let offset = *next;
        let context: Context = self.file.record(offset)?;
        let words = u64::from(context.word_count) * 8;
        let size = Context::SIZE as u64 + words;
        *next += size;
        if *next > *end {
            let reason = format!("context {} lies beyond the end of its parent's children", context.id);
            return Err(Error::new(ErrorKind::Format, reason).at_offset(offset));
        }
        self.left = self.left.checked_sub(size).ok_or_else(|| {
            Error::new(
                ErrorKind::Format,
                "the context tree has a cycle, or two parents have the same children",
            )
            .at_offset(offset)
        })?;
        let words = self.file.slice(offset + Context::SIZE as u64, words)?;
        let lexical = Lexical::read(&context, words).map_err(|error| error.at_offset(offset))?;
        self.enter(context.children, context.children_size)?;
        Ok(Some(Step::Context(offset, context, lexical)))
    }
}

impl Iterator for ContextWalk<'_> {
    type Item = Result<Step, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            // No step follows an error.
            self.open.clear();
            self.next = self.entry_points.len();
        }
        step.transpose()
    }
}

/// Returns the instance from which a context's own values are computed: by the scope that includes
/// the most.
pub(super) fn widest(instances: &[(Scope, u16)]) -> Option<(Scope, u16)> {
    let find = |kind: u8| instances.iter().find(|(scope, _)| scope.kind == kind).copied();
    [scope::EXECUTION, scope::POINT, scope::TRANSITIVE].into_iter().find_map(find)
}
