//! Metrics, their scopes, and statistics over threads.

use super::super::layout::scope;
use crate::profile::ValueType;

/// The scopes, in the order of their IDs.
pub(super) const SCOPES: [(&str, u8, u8); 4] = [
    ("point", scope::POINT, 255),
    ("function", scope::TRANSITIVE, 0),
    ("lex_aware", scope::CUSTOM, 255),
    ("execution", scope::EXECUTION, 255),
];
pub(super) const POINT: usize = 0;
pub(super) const FUNCTION: usize = 1;
pub(super) const LEX_AWARE: usize = 2;
pub(super) const EXECUTION: usize = 3;

/// The statistics over threads for each scope: formula and combination, in the order of their IDs.
///
/// The sum is the last one, because Hatchet 2026.2.0 takes the last of those with the combination 0
/// for it.
pub(super) const STATISTICS: [(&str, u8); 5] = [("1", 0), ("($$^2)", 0), ("$$", 1), ("$$", 2), ("$$", 0)];
const SUM: usize = 4;

/// The largest number of metrics: IDs have 16 bits.
pub(super) const MAX_METRICS: usize = (1 << 16) / (SCOPES.len() * STATISTICS.len());

/// A metric: its name, and the factor from the values of its sample type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricName {
    pub(super) name: String,
    pub(super) divisor: f64,
}

impl MetricName {
    /// The opposite of the reader's `sample_type`.
    pub(super) fn of(sample_type: &ValueType) -> Self {
        let ValueType { kind, unit } = sample_type;
        let name = |kind: &str, unit: &str| format!("{kind} ({unit})");
        let seconds = |divisor: f64| {
            let kind = match &**kind {
                "cpu" => "CPUTIME",
                "wall" => "REALTIME",
                other => other,
            };
            Self { name: name(kind, "sec"), divisor }
        };
        match &**unit {
            "nanoseconds" => seconds(1e9),
            "microseconds" => seconds(1e6),
            "milliseconds" => seconds(1e3),
            "seconds" => seconds(1.0),
            "bytes" => Self { name: name(kind, "B"), divisor: 1.0 },
            _ => Self { name: kind.to_string(), divisor: 1.0 },
        }
    }
}

/// Statistics of one value over threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    sum: i128,
    pub(super) count: u32,
    squares: f64,
    smallest: i64,
    largest: i64,
}

impl Statistics {
    pub(super) fn add(&mut self, value: i64, divisor: f64) {
        (self.smallest, self.largest) = match self.count {
            0 => (value, value),
            _ => (self.smallest.min(value), self.largest.max(value)),
        };
        self.sum += i128::from(value);
        self.count += 1;
        self.squares += (value as f64 / divisor).powi(2);
    }

    /// Returns the values in the order of [`STATISTICS`].
    pub(super) fn values(&self, divisor: f64) -> [f64; STATISTICS.len()] {
        let scaled = |value: i64| value as f64 / divisor;
        [
            self.count.into(),
            self.squares,
            scaled(self.smallest),
            scaled(self.largest),
            self.sum as f64 / divisor,
        ]
    }
}

/// Values of a context by scope; of one metric and thread.
pub(super) type Scoped = [i64; SCOPES.len()];

/// Returns the `statMetricId` of a statistic of the value at `place`, which is the number of its
/// metric multiplied by 4, plus its scope.
pub(super) fn statistic_id(metric_count: usize, place: usize, statistic: usize) -> u16 {
    // At most `MAX_METRICS` are written.
    (statistic * metric_count * SCOPES.len() + place) as u16
}

/// Returns the `propMetricId` of the value at `place`. It is also the ID of its sum: Hatchet 2024.1.3
/// looks up the one by the other.
pub(super) fn metric_id(metric_count: usize, place: usize) -> u16 {
    statistic_id(metric_count, place, SUM)
}
