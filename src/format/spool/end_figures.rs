//! Figures that a session writes to its spool at its end.

use super::{END, field, number_at};

/// Number of words, which are all 0 before the end.
pub(crate) const FIGURES: usize = 12;

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
    /// Number of the `NoSamples` reason; 0 if there are samples.
    pub(crate) no_samples: u64,
    /// Number of the clock that ran.
    pub(crate) clock: u64,
}

impl EndFigures {
    /// The first word is 1: the figures are valid.
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

pub(super) fn figures(end: &[u8]) -> Option<EndFigures> {
    let mut words = [0; FIGURES];
    for (i, word) in words.iter_mut().enumerate() {
        *word = number_at(end, field::FIGURES - END + 8 * i)?;
    }
    EndFigures::from_words(words)
}
