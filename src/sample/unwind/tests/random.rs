//! Reproducible random numbers.

/// xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", 2016).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn word(&mut self) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) as usize
    }

    /// The low bits are the weakest.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.word() >> 8) % limit
    }

    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
