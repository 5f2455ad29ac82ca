//! A profile in memory.

use crate::{
    chain::Pc,
    control::{Session, Summary, write_maps_text},
    format::{ProfileWriter, SlotLayout, WriteError, write_records},
    report::Report,
    sample::{sampled_dsos::SampledDso, thread_table::ThreadIndex},
    sync::{Ordering, modelled::AtomicUsize},
    thread::Thread,
};
use std::{collections::BTreeMap, io::Write};

/// A profile in memory.
///
/// Its PCs are addresses in this process. Read it while their shared objects are still loaded.
#[derive(Clone, Debug)]
pub struct Profile {
    samples: Vec<Sample>,
    maps_text: Vec<u8>,
    summary: Summary,
    is_by_thread: bool,
}

/// A call stack, and the number of periods that it represents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// The weight: a number of periods, at least 1.
    pub count: u64,
    /// PCs of the frames, innermost first; at least one.
    pub chain: Vec<Pc>,
    /// The thread, in a profile by thread ([`Builder::by_thread`](crate::Builder::by_thread)). None
    /// if it is not known ([`SampledThreads::others`](crate::SampledThreads::others)).
    pub thread: Option<Thread>,
}

impl Profile {
    pub(crate) fn of(session: &Session, dsos: &[SampledDso]) -> Self {
        let recording = session.recording();
        let sample = |(count, words): (usize, &[AtomicUsize])| {
            let (pcs, thread) = recording.parts(words);
            let index = thread.map(|word| ThreadIndex::from_word(word.load(Ordering::Relaxed)));
            Sample {
                count: count as u64,
                chain: pcs.iter().map(|pc| Pc::from_address(pc.load(Ordering::Relaxed))).collect(),
                thread: index.and_then(|index| recording.threads.thread(index)),
            }
        };
        let mut samples: Vec<Sample> = recording.table.records().map(sample).collect();
        samples.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (&a.chain, a.thread).cmp(&(&b.chain, b.thread)))
        });
        let mut maps_text = Vec::new();
        let mut lines = vec![0; 4 * crate::sys::file::PATH_BYTES];
        // A vector accepts everything. Without /proc the list is short.
        let _ = write_maps_text(&mut maps_text, &mut lines, dsos, &[]);
        Self { samples, maps_text, summary: session.summary(), is_by_thread: recording.is_by_thread }
    }

    pub(crate) fn with_summary(self, summary: Summary) -> Self {
        Self { summary, ..self }
    }

    /// The samples, largest weight first. Each call stack appears once, or once per thread.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The figures of the session.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The list of mapped objects, as in a CPU profile.
    pub fn maps_text(&self) -> &[u8] {
        &self.maps_text
    }

    /// Writes the profile in the CPU profile format, with native word size and byte order. Returns
    /// the number of bytes. Threads are merged, because the format cannot store them.
    ///
    /// # Errors
    /// [`WriteError::Io`] if writing to `out` fails.
    ///
    /// # Examples
    /// ```
    /// let profiler = sigprof::Profiler::builder().start_in_memory()?;
    /// let mut bytes = Vec::new();
    /// profiler.stop()?.write(&mut bytes)?;
    /// let read = sigprof::format::CpuProfile::parse(&bytes)?;
    /// assert_eq!(read.period_micros, 10_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&self, out: impl Write) -> Result<u64, WriteError> {
        let mut writer = ProfileWriter::new(out, SlotLayout::NATIVE);
        writer.header(u64::try_from(self.summary.period.as_micros()).unwrap_or(u64::MAX))?;
        let chains = self.chains();
        write_records(&mut writer, || {
            chains.iter().map(|(count, chain)| (*count, chain.iter().map(|pc| pc.address())))
        })?;
        writer.trailer()?;
        writer.text().write_all(&self.maps_text)?;
        writer.text().flush()?;
        Ok(writer.bytes_written())
    }

    fn chains(&self) -> Vec<(u64, &[Pc])> {
        let samples = self.samples.iter();
        if !self.is_by_thread {
            return samples.map(|sample| (sample.count, &*sample.chain)).collect();
        }
        let mut folded = BTreeMap::<&[Pc], u64>::new();
        for sample in samples {
            let count = folded.entry(&sample.chain).or_default();
            *count = count.saturating_add(sample.count);
        }
        let mut chains: Vec<_> = folded.into_iter().map(|(chain, count)| (count, chain)).collect();
        chains.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        chains
    }

    /// The functions by time. Can take seconds: it reads symbols and debug information from files.
    pub fn report(&self) -> Report {
        Report::of(self)
    }
}
