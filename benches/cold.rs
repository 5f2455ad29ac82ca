//! The handler's time in each stage of a tick, by the time-stamp counter, in real programs: their
//! data fills the caches, not the profiler's.
//!
//! Run it with nothing else on the machine: `cargo bench --bench cold`. The library is built with
//! time stamps (`src/sample/stamps.rs`). Ticks that evaluate rules for the first time are
//! expensive: a program's first ticks sample most of its PCs.

mod rig;

use std::fs;
use std::path::Path;

use rig::Result;
use rig::programs::{CARGO, PROGRAMS, Program};
use rig::stamps::{self, Tick, fit};

/// A usual profiling rate.
const FREQUENCY: &str = "100";

fn main() -> Result<()> {
    let is_full = rig::is_full_run();
    let seconds = if is_full { 10 } else { 1 };
    let rounds = if is_full { 3 } else { 1 };
    let scratch = rig::scratch("cold")?;
    let library = rig::build_stamped_library()?;
    let per_micro = stamps::stamps_per_micro();
    println!(
        "The handler's own time at {FREQUENCY} Hz in µs, first to last instruction; {per_micro:.0} stamps per µs."
    );
    println!(
        "Times: medians. Counts: means. Misses: rules that were not in the cache. Faults: pages first touched."
    );
    for program in
        PROGRAMS.iter().filter(|program| ["python3", "gcc's cc1"].contains(&program.name)).chain([&CARGO])
    {
        if !program.is_there() {
            continue;
        }
        let mut ticks = Vec::new();
        for round in 0..rounds {
            let place =
                scratch.join(format!("{}-{round}", program.name.split(' ').next().unwrap_or_default()));
            ticks.extend(ticks_of(program, seconds, &library, &place, per_micro)?);
        }
        print(program.name, &ticks);
    }
    Ok(())
}

/// Returns the ticks of a run, of all processes of the program.
fn ticks_of(
    program: &Program,
    seconds: u32,
    library: &Path,
    place: &Path,
    per_micro: f64,
) -> Result<Vec<Tick>> {
    fs::create_dir(place)?;
    let file = place.join("stamps").display().to_string();
    let more =
        [("CPUPROFILE_FREQUENCY", FREQUENCY), ("SIGPROF_STAMPS", file.as_str()), ("cargo", env!("CARGO"))];
    program.run(seconds, library, place, &more)?;
    stamps::read(place, per_micro)
}

/// The name of a group of ticks, and its condition.
type Group = (&'static str, fn(&Tick) -> bool);

type Part = fn(&Tick) -> f64;

fn print(name: &str, ticks: &[Tick]) {
    println!("\n{name}");
    println!(
        "{:22}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "", "ticks", "median", "99 %", "claim", "walk", "table", "leave", "depth", "misses", "faults"
    );
    let groups: [Group; 6] = [
        ("all", |_| true),
        ("no miss", |tick| tick.misses == 0.0),
        ("1 to 4 misses", |tick| (1.0..=4.0).contains(&tick.misses)),
        ("5 to 16 misses", |tick| (5.0..=16.0).contains(&tick.misses)),
        ("more misses", |tick| tick.misses > 16.0),
        ("with page faults", |tick| tick.faults > 0.0),
    ];
    for (title, belongs) in groups {
        let group: Vec<Tick> = ticks.iter().copied().filter(belongs).collect();
        if group.is_empty() {
            continue;
        }
        let all = |part: Part| {
            let mut values: Vec<f64> = group.iter().map(part).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let at = |values: Vec<f64>, share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        print!(
            "{title:22}{:>8}{:>9.2}{:>9.2}",
            group.len(),
            at(all(Tick::whole), 0.5),
            at(all(Tick::whole), 0.99)
        );
        let times: [Part; 4] = [|tick| tick.claim, |tick| tick.walk, |tick| tick.table, |tick| tick.leave];
        times.into_iter().for_each(|part| print!("{:>9.2}", at(all(part), 0.5)));
        let counts: [Part; 3] = [|tick| tick.depth, |tick| tick.misses, |tick| tick.faults];
        counts
            .into_iter()
            .for_each(|part| print!("{:>9.2}", all(part).iter().sum::<f64>() / group.len() as f64));
        println!();
    }
    let [fixed, per_frame, per_miss, per_fault] = fit(ticks);
    println!(
        "A walk, by least squares: {fixed:.2} µs, {:.0} ns a frame, {per_miss:.2} µs a miss, {per_fault:.2} µs a fault.",
        per_frame * 1e3
    );
}
