//! Iterators and closures, of which few functions remain in optimised code.

use std::collections::{BTreeMap, HashMap};

#[inline]
fn step(value: u64) -> u64 {
    if value % 2 == 0 { value / 2 } else { 3 * value + 1 }
}

#[inline]
fn length(start: u64) -> u32 {
    std::iter::successors(Some(start), |&value| (value != 1).then(|| step(value))).count() as u32
}

#[inline(never)]
fn longest(below: u64) -> u64 {
    (1..below).max_by_key(|&start| length(start)).unwrap_or(1)
}

#[inline(never)]
fn count_words(text: &str) -> HashMap<&str, usize> {
    text.split_whitespace().fold(HashMap::new(), |mut words, word| {
        *words.entry(word).or_insert(0) += 1;
        words
    })
}

#[inline(never)]
fn order(words: &HashMap<&str, usize>) -> BTreeMap<String, usize> {
    words.iter().map(|(word, count)| (word.to_uppercase(), *count)).collect()
}

fn main() {
    let text: String = (0..20_000).map(|n| format!("w{} ", n * 7919 % 1009)).collect();
    let mut sum = 0;
    for round in 0..150 {
        sum += longest(1500 + round);
        let words = count_words(&text);
        sum += order(&words).len() as u64;
    }
    assert_ne!(sum, 0);
}
