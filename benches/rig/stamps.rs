//! The records of ticks that `src/sample/stamps.rs` writes, and their statistics.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::Result;

/// A tick; times in µs.
#[derive(Clone, Copy)]
pub(crate) struct Tick {
    pub(crate) claim: f64,
    pub(crate) walk: f64,
    pub(crate) table: f64,
    pub(crate) leave: f64,
    pub(crate) depth: f64,
    pub(crate) misses: f64,
    pub(crate) faults: f64,
}

impl Tick {
    /// Returns the time from the handler's first instruction to its last.
    pub(crate) fn whole(&self) -> f64 {
        self.claim + self.walk + self.table + self.leave
    }
}

/// Reads the ticks of all processes that wrote to `stamps.PID` in `place`, each in order.
///
/// # Errors
/// If there is none, or a file cannot be read.
pub(crate) fn read(place: &Path, per_micro: f64) -> Result<Vec<Tick>> {
    let mut ticks = Vec::new();
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("stamps.")) {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines().skip(1) {
            let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<std::result::Result<_, _>>()?;
            let &[entered, claimed, walked, added, left, depth, misses, faults] = numbers.as_slice() else {
                return Err(format!("{}: {line}", path.display()).into());
            };
            let micros = |from: u64, to: u64| to.wrapping_sub(from) as f64 / per_micro;
            ticks.push(Tick {
                claim: micros(entered, claimed),
                walk: micros(claimed, walked),
                table: micros(walked, added),
                leave: micros(added, left),
                depth: depth as f64,
                misses: misses as f64,
                faults: faults as f64,
            });
        }
    }
    if ticks.is_empty() { Err(format!("{}: no tick", place.display()).into()) } else { Ok(ticks) }
}

/// Fits a walk's time: a constant, and a price for each frame, rule miss and page fault. Three
/// times it drops the tenth that fits worst: preempted ticks would outweigh all others.
pub(crate) fn fit(ticks: &[Tick]) -> [f64; 4] {
    let mut kept: Vec<[f64; 5]> =
        ticks.iter().map(|tick| [1.0, tick.depth, tick.misses, tick.faults, tick.walk]).collect();
    let mut prices = least_squares(&kept);
    for _ in 0..3 {
        let misfit = |row: &[f64; 5]| {
            let sum: f64 = prices.iter().zip(row).map(|(price, count)| price * count).sum();
            (row[4] - sum).abs()
        };
        kept.sort_by(|a, b| misfit(a).total_cmp(&misfit(b)));
        kept.truncate(kept.len() - kept.len() / 10);
        prices = least_squares(&kept);
    }
    prices
}

/// Returns the least-squares prices for rows of counts and their total (Gauss-Jordan elimination).
fn least_squares(rows: &[[f64; 5]]) -> [f64; 4] {
    let mut system = [[0.0; 5]; 4];
    for row in rows {
        for (i, equation) in system.iter_mut().enumerate() {
            equation.iter_mut().zip(row).for_each(|(sum, value)| *sum += row[i] * value);
        }
    }
    for pivot in 0..4 {
        // Without any fault or miss its price is unknown: zero.
        if system[pivot][pivot].abs() < 1e-9 {
            system[pivot] = [0.0; 5];
            system[pivot][pivot] = 1.0;
        }
        let row = system[pivot];
        for (_, equation) in system.iter_mut().enumerate().filter(|(i, _)| *i != pivot) {
            let factor = equation[pivot] / row[pivot];
            equation.iter_mut().zip(row).for_each(|(value, other)| *value -= factor * other);
        }
    }
    [0, 1, 2, 3].map(|i| system[i][4] / system[i][i])
}

/// Returns the frequency of the time-stamp counter, the same on all processors.
pub(crate) fn stamps_per_micro() -> f64 {
    let stamp = || {
        // SAFETY: this only runs on x86-64, which has this instruction.
        #[allow(unsafe_code, reason = "no safe way to the counter")]
        unsafe {
            core::arch::x86_64::_rdtsc()
        }
    };
    let (begin, first) = (Instant::now(), stamp());
    thread::sleep(Duration::from_millis(200));
    (stamp() - first) as f64 / begin.elapsed().as_secs_f64() / 1e6
}
