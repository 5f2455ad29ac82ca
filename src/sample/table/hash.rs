//! Hash of a call chain.

/// Mixes every word into both halves: the low one selects buckets, the high one is the tag.
pub(super) fn hash(pcs: &[usize]) -> u64 {
    // 2^64 divided by the golden ratio, odd: multiplication spreads nearby addresses.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    // Independent sums, so that multiplications overlap.
    const LANES: usize = 4;
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    let mut mixed = pcs.len() as u64;
    let chunks = pcs.chunks_exact(LANES);
    let rest = chunks.remainder();
    if chunks.len() > 0 {
        let mut lanes = [0u64; LANES];
        for chunk in chunks {
            for (lane, &pc) in lanes.iter_mut().zip(chunk) {
                *lane = mix(*lane, pc as u64);
            }
        }
        mixed = lanes.into_iter().fold(mixed, mix);
    }
    mixed = rest.iter().fold(mixed, |mixed, &pc| mix(mixed, pc as u64));
    // The product's low bits depend only on low bits, the high ones on all.
    (mixed ^ mixed >> 32).wrapping_mul(SPREAD) ^ mixed >> 29
}
