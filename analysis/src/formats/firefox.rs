//! Writer of the processed format of profiler.firefox.com.
//!
//! The format needs time stamps, which samples do not have: those of a thread are placed end to
//! end, each as long as its time. Call tree, flame graph and sums are correct; the order is not.
//!
//! CPU time is counted from the previous sample, so an empty first sample marks the start.

use super::{ensure_no_negative, frames::LocationFrames};
use crate::{
    error::{Error, ErrorKind},
    profile::{Profile, SampleRef, Threads},
};
use fxprof_processed_profile::{
    self as firefox, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ReferenceTimestamp,
    SamplingInterval, Timestamp, WeightType,
};
use std::{
    collections::HashMap,
    io::{self, Write},
    time::Duration,
};

/// Writes the values of the sample type `value` as weights. Times are in periods if all values are
/// multiples of the period, otherwise in rounded microseconds.
///
/// # Errors
/// If a value is negative, or a weight exceeds 31 bits; those of `out`.
pub fn write(profile: &Profile, value: usize, name: &str, mut out: impl Write) -> Result<(), Error> {
    ensure_no_negative(profile, value, "Firefox's format")?;
    let converted = convert(profile, value, name)?;
    serde_json::to_writer(&mut out, &converted)
        .map_err(io::Error::from)
        .and_then(|()| out.flush())
        .map_err(Error::output)
}

/// Conversion of values to weights.
struct Weighing {
    /// Value of a weight of 1.
    divisor: i64,
    /// The same in nanoseconds; an arbitrary millisecond for values that are not times.
    nanos: u64,
    weights: WeightType,
}

impl Weighing {
    fn of(profile: &Profile, value: usize) -> Self {
        const MICROSECOND: i64 = 1000;
        let sample_type = &profile.sample_types[value];
        let period_nanos = match &profile.period_type {
            Some(period_type) if &*period_type.unit == "nanoseconds" => profile.period.max(0),
            _ => 0,
        };
        if &*sample_type.unit != "nanoseconds" {
            let weights = if &*sample_type.unit == "bytes" { WeightType::Bytes } else { WeightType::Samples };
            let nanos = if period_nanos > 0 { period_nanos.unsigned_abs() } else { 1_000_000 };
            return Self { divisor: 1, nanos, weights };
        }
        let is_whole = |sample: SampleRef<'_>| sample.values[value] % period_nanos == 0;
        let is_periods = period_nanos > 0 && profile.samples.iter().all(is_whole);
        let divisor = if is_periods { period_nanos } else { MICROSECOND };
        Self { divisor, nanos: divisor.unsigned_abs(), weights: WeightType::Samples }
    }

    fn weight(&self, value: i64) -> Result<i32, Error> {
        let rounded = value.saturating_add(self.divisor / 2) / self.divisor;
        i32::try_from(rounded).map_err(|_| {
            Error::new(ErrorKind::Request, format!("the weight {rounded} of a sample exceeds 31 bits"))
                .advise("use the format `speedscope` or `pprof`")
        })
    }
}

fn convert(profile: &Profile, value: usize, name: &str) -> Result<firefox::Profile, Error> {
    let scale = Weighing::of(profile, value);
    let began = Duration::from_nanos(u64::try_from(profile.time_nanos).unwrap_or(0));
    let start = ReferenceTimestamp::from_duration_since_unix_epoch(began);
    let mut converted = firefox::Profile::new(name, start, SamplingInterval::from_nanos(scale.nanos));
    converted.set_symbolicated(true);
    let frames = LocationFrames::of(profile);
    let infos: Vec<FrameInfo> = frames
        .frames
        .iter()
        .map(|frame| FrameInfo {
            frame: Frame::Label(converted.intern_string(&frame.name)),
            category_pair: CategoryHandle::OTHER.into(),
            flags: FrameFlags::empty(),
        })
        .collect();
    let zero = Timestamp::from_nanos_since_reference(0);
    let mut processes = HashMap::new();
    let threads = Threads::of(profile);
    for (place, ((thread, _), samples)) in threads.iter().zip(threads.samples(profile)).enumerate() {
        let process = *processes.entry((thread.process_id, thread.process.clone())).or_insert_with(|| {
            let id = thread.process_id.and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
            converted.add_process(thread.process.as_deref().unwrap_or(name), id, zero)
        });
        let id = thread.id.and_then(|id| u32::try_from(id).ok()).unwrap_or(place as u32);
        let is_main = thread.id.is_none() || thread.id == thread.process_id;
        let handle = converted.add_thread(process, id, zero, is_main);
        converted.set_thread_name(handle, thread.name().as_deref().unwrap_or("all threads"));
        converted.set_thread_samples_weight_type(handle, scale.weights.clone());
        let mut now = 0u64;
        converted.add_sample(handle, zero, None, CpuDelta::from_nanos(0), 0);
        for sample in samples {
            let sample = profile.samples.get(sample);
            let mut stack = None;
            for place in frames.chain(sample.chain).rev() {
                let frame = converted.intern_frame(handle, infos[place.frame].clone());
                stack = Some(converted.intern_stack(handle, stack, frame));
            }
            let weight = scale.weight(sample.values[value])?;
            let nanos = u64::try_from(weight).unwrap_or(0).saturating_mul(scale.nanos);
            now = now.saturating_add(nanos);
            let stamp = Timestamp::from_nanos_since_reference(now);
            converted.add_sample(handle, stamp, stack, CpuDelta::from_nanos(nanos), weight);
        }
        converted.set_thread_end_time(handle, Timestamp::from_nanos_since_reference(now));
    }
    Ok(converted)
}
