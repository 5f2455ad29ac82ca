//! The cost of a tick: a program sends itself SIGPROF at a known call depth, with each profiler in
//! turn.
//!
//! Run it with nothing else on the machine: `cargo bench --bench tick`. An empty handler is the
//! lower bound: a signal's way into the kernel and back. All variants take turns in each round and
//! ratios are within a round, so a machine that slows down slows all of them.

mod rig;

use std::path::{Path, PathBuf};
use std::thread;

use rig::{Plan, Profiler, Result, median};

const DEPTHS: [u32; 3] = [8, 32, 128];
const THREADS: [u32; 2] = [1, 4];
const FLOOR: &str = "empty handler";

/// The work of a run. The threads share the timed passes.
struct Size {
    rounds: usize,
    paths: u32,
    signals: u32,
    timed_passes: u32,
}

const FULL: Size = Size { rounds: 7, paths: 1000, signals: 10, timed_passes: 8 };
const SMOKE: Size = Size { rounds: 1, paths: 20, signals: 2, timed_passes: 4 };

fn main() -> Result<()> {
    let size = if rig::is_full_run() { FULL } else { SMOKE };
    let scratch = rig::scratch("tick")?;
    let program = rig::compile("tick", &scratch)?;
    let profilers = rig::profilers()?;

    let mut tables: Vec<Table> = THREADS.iter().map(|&threads| Table::new(threads, &profilers)).collect();
    for round in 0..size.rounds {
        for table in &mut tables {
            for (row, depth) in DEPTHS.into_iter().enumerate() {
                let plan = Plan {
                    common_trunk: false,
                    threads: table.threads,
                    depth,
                    paths: size.paths,
                    signals: size.signals,
                    passes: 1 + size.timed_passes / table.threads,
                };
                // Each variant is first, second and last in turn.
                for turn in 0..=profilers.len() {
                    let variant = (round + turn) % (profilers.len() + 1);
                    let profiler = variant.checked_sub(1).map(|index| &profilers[index]);
                    let cost = cost_of_tick(&program, plan, profiler, &scratch)?;
                    table.costs[row][variant].push(cost);
                }
            }
        }
    }

    println!(
        "One tick in ns: wall-clock time x processors at work / signals. Medians; rounds: {}.",
        size.rounds
    );
    println!("{} paths, {} signals at the end of each, no frame pointers.", size.paths, size.signals);
    for table in &tables {
        table.print();
    }
    print_scaling(&tables);
    Ok(())
}

/// Returns nanoseconds per signal of a run, after a check that the profiler recorded each.
fn cost_of_tick(program: &Path, plan: Plan, profiler: Option<&Profiler>, scratch: &Path) -> Result<f64> {
    let file = scratch.join("profile");
    let (handler, mut environment) = match profiler {
        None => ("own", Vec::<(&str, PathBuf)>::new()),
        Some(profiler) => ("preloaded", profiler.environment(&file)),
    };
    // With other clocks a thread's first timer tick comes at a random time in the first second.
    environment.push(("CPUPROFILE_CLOCK", PathBuf::from("itimer")));
    let output = rig::run(program, &plan.arguments(handler), &environment)?;
    if let Some(profiler) = profiler {
        rig::checked_profile(&file, &output.stderr, plan.sent()).map_err(|error| {
            format!("{}, depth {}, {} threads: {error}", profiler.name, plan.depth, plan.threads)
        })?;
    }
    let printed = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> =
        printed.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    let &[_, timed, wall_ns] = figures.as_slice() else {
        return Err(format!("tick printed {printed:?}").into());
    };
    let processors = thread::available_parallelism()?.get() as f64;
    Ok(wall_ns * f64::from(plan.threads).min(processors) / timed)
}

/// The costs at one number of threads: by depth, by variant (the empty handler first), by round.
struct Table {
    threads: u32,
    variants: Vec<&'static str>,
    costs: Vec<Vec<Vec<f64>>>,
}

impl Table {
    fn new(threads: u32, profilers: &[Profiler]) -> Table {
        let variants: Vec<_> = [FLOOR].into_iter().chain(profilers.iter().map(|each| each.name)).collect();
        let costs = vec![vec![Vec::new(); variants.len()]; DEPTHS.len()];
        Table { threads, variants, costs }
    }

    fn print(&self) {
        println!("\nthreads at once: {}", self.threads);
        print!("{:32}", "");
        DEPTHS.iter().for_each(|depth| print!("{:>10}", format!("D={depth}")));
        println!("{:>16}", "net per frame");
        for (variant, name) in self.variants.iter().enumerate() {
            print!("{:32}", format!("{name}, ns per tick"));
            (0..DEPTHS.len()).for_each(|row| print!("{:>10.0}", median(self.costs[row][variant].clone())));
            match variant {
                0 => println!("{:>16}", "-"),
                _ => println!("{:>16.1}", self.net_per_frame(variant)),
            }
        }
        // Ratios of each variant to those before it.
        for below in 0..self.variants.len() {
            for above in below + 1..self.variants.len() {
                print!("{:32}", format!("{} / {}", self.variants[above], self.variants[below]));
                (0..DEPTHS.len()).for_each(|row| print!("{:>10.2}", self.ratio(row, above, below)));
                println!();
            }
        }
    }

    /// Returns the ratio of two variants: the median of the ratios in each round.
    fn ratio(&self, row: usize, above: usize, below: usize) -> f64 {
        let pairs = self.costs[row][above].iter().zip(&self.costs[row][below]);
        median(pairs.map(|(above, below)| above / below).collect())
    }

    /// Returns the nanoseconds that a frame adds, between the least and the greatest depth, without
    /// the empty handler's, which also depend on the depth.
    fn net_per_frame(&self, variant: usize) -> f64 {
        let last = DEPTHS.len() - 1;
        let frames = f64::from(DEPTHS[last] - DEPTHS[0]);
        let net = |row: usize, round: usize| self.costs[row][variant][round] - self.costs[row][0][round];
        let rounds = 0..self.costs[0][0].len();
        median(rounds.map(|round| (net(last, round) - net(0, round)) / frames).collect())
    }
}

/// Prints how much the ratio to the empty handler grows with the number of threads.
fn print_scaling(tables: &[Table]) {
    let (Some(one), Some(many)) = (tables.first(), tables.last()) else { return };
    println!("\nRatio to the empty handler, {} threads against {}", many.threads, one.threads);
    for (variant, name) in one.variants.iter().enumerate().skip(1) {
        print!("{name:32}");
        (0..DEPTHS.len())
            .for_each(|row| print!("{:>10.2}", many.ratio(row, variant, 0) / one.ratio(row, variant, 0)));
        println!();
    }
}
