//! Profiles a part of the program and writes the profile to a file.
//!
//! ```text
//! cargo run --release --example start_stop [FILE]
//! ```
//!
//! The default FILE is `start_stop.prof`. `cargo run --release -- top FILE` (`sigprof top FILE`) or
//! `go tool pprof -top FILE` shows which functions used the time.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "start_stop.prof".into());

    let profiler = sigprof::Profiler::builder().frequency(250).start(&path)?;
    println!("{} primes below 10 million", count_primes(10_000_000));
    println!("{} steps at most from below 1.5 million to 1", longest_collatz(1_500_000));
    let summary = profiler.stop()?;

    println!(
        "{}: {} samples of {:?}, {:.1} % of stacks complete",
        std::path::Path::new(&path).display(),
        summary.samples,
        summary.period,
        100.0 * summary.walks.complete_share()
    );
    println!(
        "{:.2} s sampled of {:.2} s of CPU time in {:.2} s",
        summary.sampled().as_secs_f64(),
        summary.process_cpu.as_secs_f64(),
        summary.elapsed.as_secs_f64()
    );
    if summary.losses.periods() > 0 {
        println!("lost: {:?}", summary.losses);
    }
    if let Some(reason) = summary.no_samples {
        println!("no samples: {reason}");
    }
    Ok(())
}

#[inline(never)]
fn count_primes(limit: usize) -> usize {
    let mut composite = vec![false; limit];
    let mut count = 0;
    for number in 2..limit {
        if composite[number] {
            continue;
        }
        count += 1;
        for multiple in (number * number..limit).step_by(number) {
            composite[multiple] = true;
        }
    }
    count
}

#[inline(never)]
fn longest_collatz(limit: u64) -> u32 {
    (1..limit).map(collatz_steps).max().unwrap_or(0)
}

#[inline(never)]
fn collatz_steps(start: u64) -> u32 {
    let mut number = start;
    let mut steps = 0;
    while number != 1 {
        number = if number % 2 == 0 { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}
