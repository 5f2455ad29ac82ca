//! What a session says of itself at its end.

use super::{END, field, number_at};

/// How many numbers a session says of itself at its end; all are 0 before.
pub(crate) const FIGURES: usize = 12;

/// What a session says of itself at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndFigures {
    pub(crate) elapsed_nanos: u64,
    pub(crate) cpu_nanos: u64,
    pub(crate) unaccounted_nanos: u64,
    pub(crate) interrupted_nanos: u64,
    pub(crate) blocking_threads: u64,
    pub(crate) timers_refused: u64,
    pub(crate) walks: u64,
    pub(crate) complete_walks: u64,
    pub(crate) lost: u64,
    /// Why there are no samples, as `NoSamples` numbers the reasons; 0 where there are some.
    pub(crate) no_samples: u64,
    /// The clock that ran, by its number.
    pub(crate) clock: u64,
}

impl EndFigures {
    /// As they stand in the head. The first is 1: they are there.
    pub(crate) fn words(self) -> [u64; FIGURES] {
        [
            1,
            self.elapsed_nanos,
            self.cpu_nanos,
            self.unaccounted_nanos,
            self.interrupted_nanos,
            self.blocking_threads,
            self.timers_refused,
            self.walks,
            self.complete_walks,
            self.lost,
            self.no_samples,
            self.clock,
        ]
    }

    /// None where they are not there.
    fn from_words(words: [u64; FIGURES]) -> Option<Self> {
        let [is_there, rest @ ..] = words;
        let [elapsed_nanos, cpu_nanos, unaccounted_nanos, interrupted_nanos, rest @ ..] = rest;
        let [blocking_threads, timers_refused, walks, complete_walks, lost, no_samples, clock] = rest;
        (is_there == 1).then_some(Self {
            elapsed_nanos,
            cpu_nanos,
            unaccounted_nanos,
            interrupted_nanos,
            blocking_threads,
            timers_refused,
            walks,
            complete_walks,
            lost,
            no_samples,
            clock,
        })
    }
}

/// What the last page of a head says.
pub(super) fn figures(end: &[u8]) -> Option<EndFigures> {
    let mut words = [0; FIGURES];
    for (i, word) in words.iter_mut().enumerate() {
        *word = number_at(end, field::FIGURES - END + 8 * i)?;
    }
    EndFigures::from_words(words)
}
