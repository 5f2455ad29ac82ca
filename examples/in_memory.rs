//! Keeps a profile in memory: a snapshot, the reports, and the most frequent call chain.
//!
//! ```text
//! cargo run --release --example in_memory
//! ```

use std::collections::BTreeMap;

fn main() -> Result<(), sigprof::Error> {
    let profiler = sigprof::Profiler::builder().frequency(250).start_in_memory()?;

    let text = write_text(4_000_000);
    let half_way = profiler.snapshot()?;
    let words = count_words(&text);
    let profile = profiler.stop()?;

    println!("when the text was written:\n{}", half_way.report());
    println!("when its {} words were counted:\n{}", words.len(), profile.report());

    let summary = profile.summary();
    println!("{} call chains, {} samples", profile.samples().len(), summary.samples);
    if let Some(commonest) = profile.samples().first() {
        println!("the commonest has {}, innermost first: {:x?}", commonest.count, commonest.chain);
    }
    Ok(())
}

#[inline(never)]
fn write_text(words: usize) -> String {
    let mut state = 1u64;
    let mut text = String::new();
    for _ in 0..words {
        for _ in 0..=random(&mut state) % 6 {
            text.push(char::from(b'a' + (random(&mut state) % 26) as u8));
        }
        text.push(' ');
    }
    text
}

/// Returns the next number of a xorshift sequence.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[inline(never)]
fn count_words(text: &str) -> BTreeMap<&str, usize> {
    let mut words = BTreeMap::new();
    for word in text.split_whitespace() {
        *words.entry(word).or_default() += 1;
    }
    words
}
