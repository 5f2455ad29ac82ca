//! A profile in memory: its samples, its list of mapped objects, its report.

use crate::{
    chain::Pc,
    control::{Session, Summary, write_maps_text},
    format::{ProfileWriter, SlotLayout, WriteError, write_records},
    report::Report,
    sample::met_objects::MetObject,
    sync::Ordering,
};
use std::io::Write;

/// A profile in memory.
///
/// Its PCs are addresses in this process, so it is read best while the objects they lie in are still loaded.
#[derive(Clone, Debug)]
pub struct Profile {
    samples: Vec<Sample>,
    maps_text: Vec<u8>,
    summary: Summary,
}

/// A call chain, and how many periods were spent in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// In periods, at least 1.
    pub count: u64,
    /// Innermost first, at least one.
    pub chain: Vec<Pc>,
}

impl Profile {
    pub(crate) fn of(session: &Session, met: &[MetObject]) -> Self {
        let mut samples: Vec<Sample> = session
            .recording()
            .table
            .records()
            .map(|(count, pcs)| Sample {
                count: count as u64,
                chain: pcs.iter().map(|pc| Pc::from_address(pc.load(Ordering::Relaxed))).collect(),
            })
            .collect();
        samples.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.chain.cmp(&b.chain)));
        let mut maps_text = Vec::new();
        let mut lines = vec![0; 4 * crate::sys::file::PATH_BYTES];
        // A vector takes everything; without /proc the list stays short.
        let _ = write_maps_text(&mut maps_text, &mut lines, met, &[]);
        Self { samples, maps_text, summary: session.summary() }
    }

    pub(crate) fn with_summary(self, summary: Summary) -> Self {
        Self { summary, ..self }
    }

    /// The samples, most frequent first; each chain once.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// What was gathered and what was lost.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The list of mapped objects, as it stands at the end of a CPU profile.
    pub fn maps_text(&self) -> &[u8] {
        &self.maps_text
    }

    /// Writes the profile in the CPU profile format, with this machine's slots, and gives the number of bytes.
    ///
    /// # Errors
    /// [`WriteError::Io`] with the error of `out`.
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
        write_records(&mut writer, || {
            self.samples.iter().map(|sample| (sample.count, sample.chain.iter().map(|pc| pc.address())))
        })?;
        writer.trailer()?;
        writer.text().write_all(&self.maps_text)?;
        writer.text().flush()?;
        Ok(writer.bytes_written())
    }

    /// The functions by time, named through the program's own debug information. Takes its time: it reads that
    /// information from files.
    pub fn report(&self) -> Report {
        Report::of(self)
    }
}
