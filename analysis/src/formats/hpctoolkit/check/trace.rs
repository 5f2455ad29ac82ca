//! Rules of trace.db.

use super::{
    super::layout::{Record, TRACE, Trace, TraceSample, Traces},
    Checked, Finding,
    meta::CheckedMeta,
    values::CheckedProfiles,
};

/// Returns the number of traces.
pub(super) fn check(
    bytes: &[u8],
    meta: &CheckedMeta,
    profiles: &CheckedProfiles,
    findings: &mut Vec<Finding>,
) -> Option<usize> {
    const SECTION: &str = "CtxTraces";
    let mut checked = Checked::open(TRACE, bytes, findings)?;
    let (offset, head) = checked.head::<Traces>(SECTION)?;
    let array = ("pTraces", SECTION);
    let traces = checked.array::<Trace>(offset, array, head.traces, head.count.into(), head.size.into())?;
    let mut known = vec![false; profiles.are_threads.len()];
    let mut times: Option<(u64, u64)> = None;
    let mut unknown = 0_u64;
    for (place, trace) in traces.iter().enumerate() {
        let (at, profile) = (traces.offset(place), trace.profile);
        let is_thread = profiles.are_threads.get(profile as usize).copied().unwrap_or(false);
        checked.ensure(is_thread, at, || format!("trace {place}: profile {profile} is not one of a thread"));
        if let Some(known) = known.get_mut(profile as usize) {
            let is_first = !std::mem::replace(known, true);
            checked.ensure(is_first, at, || format!("profile {profile} has two traces"));
        }
        checked
            .ensure(trace.start % 8 == 0, at, || format!("trace {place} does not begin at a multiple of 8"));
        let bytes = trace.end.wrapping_sub(trace.start);
        let is_whole = trace.start <= trace.end && bytes % TraceSample::SIZE as u64 == 0;
        if !checked.ensure(is_whole, at, || format!("trace {place} does not consist of whole samples")) {
            continue;
        }
        let count = bytes / TraceSample::SIZE as u64;
        let samples = checked.file.array::<TraceSample>(trace.start, count, TraceSample::SIZE);
        let Some(samples) = checked.ok(at, samples) else { continue };
        if count > 0 {
            checked.is_outside(at, &format!("trace {place}"), &(trace.start..trace.end));
        }
        let mut last: Option<TraceSample> = None;
        for (index, sample) in samples.iter().enumerate() {
            let at = samples.offset(index);
            checked.ensure(last.is_none_or(|last| last.nanos <= sample.nanos), at, || {
                format!("trace {place}: a sample is earlier than the one before it")
            });
            let is_idle_twice = sample.context_id == 0 && last.is_some_and(|last| last.context_id == 0);
            checked
                .ensure(!is_idle_twice, at, || format!("trace {place}: two samples in a row have ctxId 0"));
            unknown += u64::from(!meta.by_id.contains_key(&sample.context_id));
            last = Some(sample);
            let (first, latest) = times.unwrap_or((sample.nanos, sample.nanos));
            times = Some((first.min(sample.nanos), latest.max(sample.nanos)));
        }
    }
    if let Some((first, last)) = times {
        checked.ensure((head.first_nanos, head.last_nanos) == (first, last), offset, || {
            format!("minTimestamp and maxTimestamp are not those of the samples, {first} and {last}")
        });
    }
    if unknown > 0 {
        checked.note(offset, format!("{unknown} samples have contexts that are not in meta.db"));
    }
    Some(traces.len())
}
