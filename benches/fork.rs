//! The time of a fork in a small process and in one of 2 GiB, at high rates of ticks.
//!
//! Run it with nothing else on the machine: `cargo bench --bench fork`. It takes a quarter of an
//! hour and 3 GiB of memory. All variants take turns in each round; ratios are within a round.

mod rig;

use std::path::{Path, PathBuf};

use rig::{Profiler, Result, median};

/// A process that forks.
struct Shape {
    megabytes: u32,
    forks: usize,
    rounds: usize,
}

const FULL: [Shape; 2] =
    [Shape { megabytes: 0, forks: 1000, rounds: 9 }, Shape { megabytes: 2048, forks: 125, rounds: 8 }];
const SMOKE: [Shape; 2] =
    [Shape { megabytes: 0, forks: 10, rounds: 1 }, Shape { megabytes: 16, forks: 10, rounds: 1 }];

/// The environment in which the process forks.
struct Variant {
    name: String,
    environment: Vec<(&'static str, PathBuf)>,
    /// Not run in a large process, where it takes long.
    is_for_small: bool,
}

/// The microseconds of all forks of a variant, by round: wall time until the fork returned in the
/// parent, and CPU time of the child until it returned there.
#[derive(Clone, Default)]
struct Times {
    parent: Vec<Vec<f64>>,
    child: Vec<Vec<f64>>,
}

fn main() -> Result<()> {
    let shapes = if rig::is_full_run() { FULL } else { SMOKE };
    let scratch = rig::scratch("fork")?;
    let program = rig::compile("fork", &scratch)?;
    let variants = variants(&rig::profilers()?, &scratch);
    println!(
        "One fork in us: wall-clock time until it returns in the parent, CPU time of the child until it"
    );
    println!(
        "returns there. Ratios to the program alone: of the medians of a round, and of these the median."
    );
    for shape in shapes {
        let variants: Vec<&Variant> =
            variants.iter().filter(|variant| shape.megabytes == 0 || !variant.is_for_small).collect();
        let mut times = vec![Times::default(); variants.len()];
        for round in 0..shape.rounds {
            // Each variant is first, second and last in turn.
            for turn in 0..variants.len() {
                let variant = (round + turn) % variants.len();
                measure(&program, &shape, variants[variant], &mut times[variant])?;
            }
        }
        print(&shape, &variants, &times);
    }
    Ok(())
}

/// Returns the variants: no profiler; each profiler loaded but off; each one on, at each rate.
fn variants(profilers: &[Profiler], scratch: &Path) -> Vec<Variant> {
    let mut variants =
        vec![Variant { name: "alone".to_owned(), environment: Vec::new(), is_for_small: false }];
    for profiler in profilers {
        let loaded = ("LD_PRELOAD", profiler.library.clone());
        variants.push(Variant {
            name: format!("{}, off", profiler.name),
            environment: vec![loaded.clone()],
            is_for_small: true,
        });
        let on = |rate: &str| {
            vec![
                loaded.clone(),
                ("CPUPROFILE", scratch.join("profile")),
                ("CPUPROFILE_FREQUENCY", PathBuf::from(rate)),
            ]
        };
        // gperftools limits the rate to 4000 Hz.
        let rates: &[&str] = if profiler.name == "gperftools" { &["1000"] } else { &["1000", "10000"] };
        for rate in rates {
            let name = format!("{}, {rate} Hz", profiler.name);
            variants.push(Variant { name, environment: on(rate), is_for_small: false });
        }
        if profiler.name == "sigprof" {
            // The shares of the clock, the child's own session, and the spool.
            for (name, variable, value) in [
                ("clock cpu", "CPUPROFILE_CLOCK", "cpu"),
                ("children not followed", "CPUPROFILE_FOLLOW_FORK", "0"),
                ("no spools", "CPUPROFILE_SPOOL", "off"),
            ] {
                let mut environment = on("1000");
                environment.push((variable, PathBuf::from(value)));
                variants.push(Variant { name: format!("sigprof, {name}"), environment, is_for_small: true });
            }
        }
    }
    variants
}

fn measure(program: &Path, shape: &Shape, variant: &Variant, times: &mut Times) -> Result<()> {
    let arguments = [shape.megabytes.to_string(), shape.forks.to_string()];
    let output = rig::run(program, &arguments, &variant.environment)?;
    let printed = String::from_utf8(output.stdout)?;
    let (mut parent, mut child) = (Vec::new(), Vec::new());
    for line in printed.lines() {
        let (in_parent, in_child) = line.split_once(' ').ok_or(format!("fork printed {line:?}"))?;
        parent.push(in_parent.parse::<f64>()? / 1000.0);
        child.push(in_child.parse::<f64>()? / 1000.0);
    }
    if parent.len() != shape.forks {
        return Err(format!("{} of {} forks under {}", parent.len(), shape.forks, variant.name).into());
    }
    times.parent.push(parent);
    times.child.push(child);
    Ok(())
}

fn print(shape: &Shape, variants: &[&Variant], times: &[Times]) {
    println!("\n{} MiB resident, {} runs of {} forks", shape.megabytes, shape.rounds, shape.forks);
    println!(
        "{:32}{:>10}{:>8}{:>10}{:>10}{:>12}{:>8}",
        "", "parent", "ratio", "99 %", "slowest", "child CPU", "ratio"
    );
    let Some(alone) = times.first() else { return };
    for (variant, times) in variants.iter().zip(times) {
        let parent: Vec<f64> = times.parent.concat();
        println!(
            "{:32}{:>10.1}{:>8.2}{:>10.1}{:>10.1}{:>12.1}{:>8.2}",
            variant.name,
            median(parent.clone()),
            ratio(&times.parent, &alone.parent),
            of_hundred(99, parent.clone()),
            of_hundred(100, parent),
            median(times.child.concat()),
            ratio(&times.child, &alone.child),
        );
    }
}

/// Returns the median over all rounds of the ratio of the round's medians.
fn ratio(times: &[Vec<f64>], alone: &[Vec<f64>]) -> f64 {
    median(
        times.iter().zip(alone).map(|(times, alone)| median(times.clone()) / median(alone.clone())).collect(),
    )
}

/// Returns the value that `percent` of a hundred values do not exceed.
fn of_hundred(percent: usize, mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * percent / 100).min(values.len() - 1)).copied().unwrap_or_default()
}
