//! Times of samples, for formats with a time line.

use crate::profile::{Label, LabelValue, Profile};

/// Label with the end time of a sample, written by Datadog's and other continuous profilers.
pub const TIME_LABEL: &str = "end_timestamp_ns";

/// Times of the samples of a profile, in nanoseconds since 1970.
pub(super) struct Times<'p> {
    profile: &'p Profile,
    /// By set of labels.
    ends: Vec<Option<i64>>,
}

/// A sample's time span, in nanoseconds.
pub(super) struct Span {
    pub(super) begin: i64,
    pub(super) end: i64,
    /// Index of the sample.
    pub(super) sample: usize,
}

impl Span {
    /// Whether it follows a span that ended at `now` without a gap. Half of its length is tolerated.
    pub(super) fn follows(&self, now: i64) -> bool {
        self.begin <= now.saturating_add(self.end.saturating_sub(self.begin) / 2)
    }
}

impl<'p> Times<'p> {
    pub(super) fn of(profile: &'p Profile) -> Self {
        let end = |label: &Label| match &label.value {
            LabelValue::Number(time, _) if &*label.key == TIME_LABEL => Some(*time),
            _ => None,
        };
        let ends = profile.label_sets.iter().map(|labels| labels.iter().find_map(end)).collect();
        Self { profile, ends }
    }

    /// Whether all samples have a time.
    pub(super) fn are_complete(&self) -> bool {
        self.profile.samples.iter().all(|sample| self.ends[sample.labels.index()].is_some())
    }

    /// Returns the spans of samples, sorted; the value of the type `value` is the length of each.
    pub(super) fn spans(&self, samples: &[usize], value: usize) -> Vec<Span> {
        let span = |&sample: &usize| {
            let found = self.profile.samples.get(sample);
            let end = self.ends[found.labels.index()]?;
            Some(Span { begin: end.saturating_sub(found.values[value]), end, sample })
        };
        let mut spans: Vec<Span> = samples.iter().filter_map(span).collect();
        spans.sort_by_key(|span| (span.end, span.sample));
        spans
    }
}
