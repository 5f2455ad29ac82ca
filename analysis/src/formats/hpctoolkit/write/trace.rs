//! trace.db: the context of each thread over time, of samples with times.

use super::{
    super::layout::{Record, TRACE, Trace, TraceSample, Traces},
    output::Output,
    tree::GLOBAL,
};
use crate::formats::times::Span;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Writes traces while threads are added. If no thread has one, no file is written.
pub(super) struct TraceWriter {
    path: PathBuf,
    output: Output,
    traces: Vec<Trace>,
    /// The first and the last time, in nanoseconds since 1970.
    times: Option<(u64, u64)>,
}

impl TraceWriter {
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        let output = Output::create(directory, TRACE)?;
        Ok(Self { path: directory.join(TRACE.name), output, traces: Vec::new(), times: None })
    }

    /// Adds the trace of a profile, by its index in profile.db, from sorted spans with a context each.
    pub(super) fn add(&mut self, profile: u32, spans: &[(Span, u32)]) -> io::Result<()> {
        let mut samples: Vec<TraceSample> = Vec::new();
        let mut add = |nanos: i64, context_id: u32| {
            let nanos = u64::try_from(nanos).unwrap_or(0);
            if samples.last().is_none_or(|last| last.context_id != context_id) {
                samples.push(TraceSample { nanos, context_id });
            }
        };
        let mut now = None;
        for (span, context) in spans {
            match now {
                Some(now) if span.follows(now) => add(now, *context),
                _ => {
                    // The thread did not run in the gap.
                    now.inspect(|&now| add(now, GLOBAL));
                    add(span.begin, *context);
                }
            }
            now = Some(span.end);
        }
        let Some(end) = now else { return Ok(()) };
        add(end, GLOBAL);
        for &TraceSample { nanos, .. } in &samples {
            let (first, last) = self.times.unwrap_or((nanos, nanos));
            self.times = Some((first.min(nanos), last.max(nanos)));
        }
        self.output.align(8)?;
        let start = self.output.position;
        for sample in &samples {
            self.output.record(sample)?;
        }
        self.traces.push(Trace { profile, start, end: self.output.position });
        Ok(())
    }

    /// Writes the section with the list of traces, or removes the file.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let Some((first_nanos, last_nanos)) = self.times else { return fs::remove_file(&self.path) };
        self.output.align(8)?;
        let start = self.output.position;
        let (traces, size) = (start + Traces::SIZE as u64, Trace::SIZE as u8);
        self.output.record(&Traces {
            traces,
            count: self.traces.len() as u32,
            size,
            first_nanos,
            last_nanos,
        })?;
        for trace in &self.traces {
            self.output.record(trace)?;
        }
        self.output.section("CtxTraces", start)?;
        self.output.finish()
    }
}
