//! Writer of JSON trace events, a time line for ui.perfetto.dev and `chrome://tracing`.
//!
//! It needs samples with time stamps. The CPU profile format, spools and profiles in memory have
//! none. pprof profiles of some tools have the label [`TIME_LABEL`], the end of each sample in
//! nanoseconds since 1970. A frame shared by consecutive samples of a thread is one slice.

pub use super::times::TIME_LABEL;
use super::{ensure_no_negative, frames::LocationFrames, times::Times};
use crate::{
    error::{Error, ErrorKind},
    profile::{Profile, Thread, Threads},
};
use std::io::{self, Write};

/// Writes the samples; the value of the type `value` is the duration of each.
///
/// # Errors
/// If a sample has no time stamp, or the value is negative or not a time; those of `out`.
pub fn write(profile: &Profile, value: usize, out: impl Write) -> Result<(), Error> {
    ensure_no_negative(profile, value, "a trace")?;
    let sample_type = &profile.sample_types[value];
    if &*sample_type.unit != "nanoseconds" {
        let reason = format!("the values of the type {} are in {}", sample_type.kind, sample_type.unit);
        return Err(Error::new(ErrorKind::Request, reason)
            .advise("this format needs values in nanoseconds; choose another --sample-type"));
    }
    let times = Times::of(profile);
    if !times.are_complete() {
        let reason =
            format!("this format needs the time of each sample, and some have no label {TIME_LABEL}");
        return Err(Error::new(ErrorKind::Request, reason).advise(
            "profiles of sigprof and gperftools have no times; use `firefox` or `speedscope`, which need none",
        ));
    }
    put(profile, value, &times, out).map_err(Error::output)
}

fn put(profile: &Profile, value: usize, times: &Times<'_>, mut out: impl Write) -> io::Result<()> {
    let frames = LocationFrames::of(profile);
    let names: Vec<serde_json::Value> = frames.frames.iter().map(|frame| (*frame.name).into()).collect();
    let mut events = TraceEvents { out: &mut out, count: 0 };
    events.out.write_all(br#"{"displayTimeUnit":"ms","traceEvents":["#)?;
    let threads = Threads::of(profile);
    for (number, ((thread, _), samples)) in (1..).zip(threads.iter().zip(threads.samples(profile))) {
        let ids =
            format!(r#""pid":{},"tid":{}"#, thread.process_id.unwrap_or(0), thread.id.unwrap_or(number));
        events.names(thread, &ids)?;
        // The open frames, outermost first, with their start times.
        let mut open: Vec<(usize, i64)> = Vec::new();
        let mut now = i64::MIN;
        for span in times.spans(&samples, value) {
            let chain: Vec<usize> =
                frames.chain(profile.samples.get(span.sample).chain).rev().map(|place| place.frame).collect();
            let is_consecutive = span.follows(now);
            let same = open.iter().zip(&chain).take_while(|((frame, _), other)| frame == *other).count();
            let kept = if is_consecutive { same } else { 0 };
            for (frame, begin) in open.drain(kept..).rev() {
                events.slice(&names[frame], &ids, begin, now)?;
            }
            let begin = if is_consecutive { now } else { span.begin };
            open.extend(chain[kept..].iter().map(|&frame| (frame, begin)));
            now = span.end;
        }
        for (frame, begin) in open.drain(..).rev() {
            events.slice(&names[frame], &ids, begin, now)?;
        }
    }
    out.write_all(b"]}\n")?;
    out.flush()
}

struct TraceEvents<'o, W> {
    out: &'o mut W,
    count: usize,
}

impl<W: Write> TraceEvents<'_, W> {
    fn names(&mut self, thread: &Thread, ids: &str) -> io::Result<()> {
        let parts = [("process_name", thread.process.clone()), ("thread_name", thread.name())];
        for (what, name) in parts {
            if let Some(name) = name {
                self.next()?;
                let name: serde_json::Value = name.as_str().into();
                write!(self.out, r#"{{"ph":"M","name":"{what}",{ids},"args":{{"name":{name}}}}}"#)?;
            }
        }
        Ok(())
    }

    /// Writes a frame from `begin` to `end`; the format has microseconds.
    fn slice(&mut self, name: &serde_json::Value, ids: &str, begin: i64, end: i64) -> io::Result<()> {
        self.next()?;
        let (begin, length) = (micros(begin), micros(end.saturating_sub(begin)));
        write!(self.out, r#"{{"ph":"X","name":{name},"cat":"sample",{ids},"ts":{begin},"dur":{length}}}"#)
    }

    fn next(&mut self) -> io::Result<()> {
        self.count += 1;
        if self.count > 1 { self.out.write_all(b",\n") } else { Ok(()) }
    }
}

/// Nanoseconds as microseconds with three decimals: a float is too imprecise for today's times.
fn micros(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    format!("{sign}{}.{:03}", nanos / 1000, nanos % 1000)
}
