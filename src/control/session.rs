//! A session: its parts and its file.

mod end;
mod figures;
mod start;

pub(super) use end::wait_for_handlers;

use super::{
    diagnostics::{self, Diagnostic},
    maps_text::KeptLines,
    output::{Contents, Output},
    spool::SessionSpool,
    summary::SpoolUse,
};
use crate::{
    error::Failure,
    format::spool::Ancestors,
    sample::{
        recording::{OwnedRecording, Recording},
        sampled_dsos::SampledDso,
    },
    sys::{errno, file::PathBuffer, memory::MappedBox},
};
use figures::EndTotals;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started(u64);

pub(crate) struct Session {
    name: Started,
    recording: OwnedRecording,
    output: Option<Output>,
    child_path: Option<MappedBox<PathBuffer>>,
    /// None for a session in memory.
    lines: Option<MappedBox<KeptLines>>,
    /// None without a spool. A failed `exec` may have removed its file.
    spool: Option<SessionSpool>,
    spool_use: SpoolUse,
    keeps_spool: bool,
    /// The recorder's directory if it has no spool: a child tries again.
    recorders_directory: Option<MappedBox<PathBuffer>>,
    starts_at_random: bool,
    /// Not empty only in a forked child, which writes no file without ticks.
    ancestors: Ancestors,
    frequency: u32,
    max_memory: usize,
    /// Seconds since 1970.
    start_time: i64,
    start_monotonic: u64,
    start_cpu: u64,
    start_interrupted: u64,
    /// The totals when the ticks stopped; stopping itself does not count.
    end: Option<EndTotals>,
    refused_at_start: u64,
    without_event_at_start: u64,
    lost_without_slot_at_start: u64,
    /// No timer was armed at the stop.
    had_no_timer: bool,
}

impl Session {
    pub(crate) fn started(&self) -> Started {
        self.name
    }

    pub(crate) fn start_time(&self) -> i64 {
        self.start_time
    }

    pub(crate) fn path(&self) -> &[u8] {
        self.output.as_ref().map_or(&[], |output| output.given().as_bytes())
    }

    pub(crate) fn recording(&self) -> &Recording {
        self.recording.get()
    }

    pub(crate) fn process(&self) -> u32 {
        self.recording.get().process
    }

    /// Writes the complete file. Returns the bytes of its binary part, 0 without a file.
    ///
    /// # Errors
    /// Why it could not be written.
    fn write_file(&mut self, dsos: &[SampledDso]) -> Result<u64, Failure> {
        let Some(output) = &mut self.output else { return Ok(0) };
        let kept = self.lines.as_deref().map_or(&[][..], KeptLines::text);
        let recording = self.recording.get();
        let mut hold = recording.spiller.lock().ok_or(Failure::System {
            action: "wait for records that are being moved",
            errno: errno::EBUSY,
        })?;
        let written = output.write(Contents { recording, spilled: &mut hold.sink, dsos, kept })?;
        drop(hold);
        // Recovery can then recognise a file that another program wrote later.
        if let Some(stamp) = output.stamp() {
            self.recording.get().memory().note_written(stamp);
        }
        if let Err(errno) = written.list {
            let failure = Failure::System { action: "read /proc/self/maps", errno };
            diagnostics::report(self.path(), Diagnostic::NoList(failure));
        }
        Ok(written.bytes)
    }

    /// Writes the file of a session that continues, unless a collected spool has the same samples.
    ///
    /// # Errors
    /// Why it could not be written.
    pub(super) fn flush(&mut self, dsos: &[SampledDso]) -> Result<(), Failure> {
        if self.keeps_spool && self.spool.as_ref().is_some_and(SessionSpool::is_there) {
            return Ok(());
        }
        self.write_file(dsos).map(|_| ())
    }
}
