//! A program without frame pointers, with a stack that is known at any moment: `main`, a chain of three, `collatz_steps`.

use std::hint::black_box;

#[inline(never)]
#[unsafe(no_mangle)]
fn collatz_steps(mut number: u64) -> u64 {
    let mut steps = 0;
    while number != 1 {
        number = if number % 2 == 0 { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

#[inline(never)]
#[unsafe(no_mangle)]
fn longest_below(limit: u64) -> u64 {
    (1..black_box(limit)).map(|number| collatz_steps(black_box(number))).max().unwrap_or(0)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn visit_tree(depth: u32, limit: u64, names: &mut Vec<String>) -> u64 {
    if depth == 0 {
        return longest_below(limit);
    }
    names.push(format!("level {depth}"));
    let deeper = visit_tree(black_box(depth - 1), limit, names);
    names.pop();
    black_box(deeper) + 1
}

#[inline(never)]
#[unsafe(no_mangle)]
fn known_work(limit: u64) -> u64 {
    let mut names = Vec::new();
    (0..4).map(|round| visit_tree(20, limit + round, &mut names)).sum()
}

fn main() {
    let limit: u64 = std::env::args().nth(1).and_then(|limit| limit.parse().ok()).expect("a limit");
    println!("{}", known_work(limit));
    std::process::exit(3);
}
