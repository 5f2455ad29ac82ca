//! Profiles threads that do different work. The profiler samples all threads of the process.
//!
//! ```text
//! cargo run --release --example threads
//! ```

use std::{error::Error, hint::black_box, thread};

/// The thread's name, the function that it runs, and the last part of that function's name.
type Work = (&'static str, fn() -> u64, &'static str);

const WORK: [Work; 3] = [
    ("sorter", sort_numbers, "sort_numbers"),
    ("hasher", hash_bytes, "hash_bytes"),
    ("multiplier", multiply_matrices, "multiply_matrices"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let profiler = sigprof::Profiler::builder().frequency(250).start_in_memory()?;

    let mut threads = Vec::new();
    for (name, function, _) in WORK {
        threads.push((name, thread::Builder::new().name(name.into()).spawn(function)?));
    }
    for (name, thread) in threads {
        let result = thread.join().map_err(|_| "a thread panicked")?;
        println!("{name} is done: {result:x}");
    }

    let profile = profiler.stop()?;
    let report = profile.report();
    println!("\n{report}");
    // The cumulative time of a thread's function is the time of the thread.
    println!("samples of {:?} in each thread:", profile.summary().period);
    for (name, _, name_end) in WORK {
        let found = report.functions().iter().find(|function| function.name.ends_with(name_end));
        println!("{:>6}  {name}", found.map_or(0, |function| function.cumulative));
    }
    Ok(())
}

#[inline(never)]
fn sort_numbers() -> u64 {
    let mut state = 1u64;
    let mut middle = 0;
    for _ in 0..100 {
        let mut numbers: Vec<u64> = (0..200_000).map(|_| random(&mut state)).collect();
        numbers.sort_unstable();
        middle ^= numbers[numbers.len() / 2];
    }
    middle
}

/// Returns the next number of a xorshift sequence.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[inline(never)]
fn hash_bytes() -> u64 {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for _ in 0..1_000_000 {
        for byte in black_box(&bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[inline(never)]
fn multiply_matrices() -> u64 {
    const SIZE: usize = 300;
    let left: Vec<u64> = (0..SIZE * SIZE).map(|i| i as u64).collect();
    let right: Vec<u64> = left.iter().rev().copied().collect();
    let mut trace = 0u64;
    for _ in 0..20 {
        for row in 0..SIZE {
            for column in 0..SIZE {
                let sum = (0..SIZE).fold(0u64, |sum, i| {
                    sum.wrapping_add(left[row * SIZE + i].wrapping_mul(right[i * SIZE + column]))
                });
                trace ^= black_box(sum);
            }
        }
    }
    trace
}
