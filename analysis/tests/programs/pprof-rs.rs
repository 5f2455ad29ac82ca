//! Profiles itself with the crate pprof and writes protobuf to standard output. One function
//! recurses.

use pprof::protos::Message as _;
use std::{hint::black_box, io::Write as _};

#[inline(never)]
fn collatz(mut number: u64) -> u32 {
    let mut steps = 0;
    while number != 1 {
        number = if number % 2 == 0 { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

#[inline(never)]
fn fibonacci(number: u32) -> u64 {
    if number < 2 { u64::from(number) } else { fibonacci(number - 1) + fibonacci(number - 2) }
}

fn main() {
    let guard = pprof::ProfilerGuardBuilder::default().frequency(250).build().expect("a profiler");
    let longest = (1..900_000).map(|number| collatz(black_box(number))).max();
    let large = fibonacci(black_box(39));
    let profile = guard.report().build().expect("a report").pprof().expect("a profile");
    std::io::stdout().write_all(&profile.encode_to_vec()).expect("standard output");
    eprintln!("{longest:?} {large}");
}
