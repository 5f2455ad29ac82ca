//! The profiler's walker compared with framehop: the same stacks, in a signal handler, by the
//! time-stamp counter.
//!
//! Run it with nothing else on the machine: `cargo bench --bench walkers`. Both walk at each
//! SIGPROF under LD_PRELOAD and stamp the walk's begin and end: sigprof in a build with
//! `src/sample/stamps.rs`, framehop in the library of `benches/framehop/`.

mod rig;

use std::fs;
use std::path::{Path, PathBuf};

use rig::programs::{CARGO, PROGRAMS};
use rig::stamps::{self, Tick, fit};
use rig::{Plan, Result, median};

const DEPTHS: [u32; 3] = [8, 32, 128];

fn main() -> Result<()> {
    let is_full = rig::is_full_run();
    let (rounds, paths, passes, seconds) = if is_full { (7, 1000, 9, 10) } else { (1, 20, 2, 1) };
    let scratch = rig::scratch("walkers")?;
    let program = rig::compile("tick", &scratch)?;
    let per_micro = stamps::stamps_per_micro();
    let walkers = [("sigprof", rig::build_stamped_library()?), ("framehop", rig::build_framehop_walker()?)];

    println!("A walk alone, in ns: medians of {rounds} rounds of the median tick behind the first pass.");
    println!("{paths} paths of calls without frame pointers; every rule is in the cache.\n");
    print!("{:16}", "");
    DEPTHS.iter().for_each(|depth| print!("{:>10}", format!("D={depth}")));
    println!("{:>12}{:>26}", "a frame", "misses among those ticks");
    let mut costs = vec![vec![Vec::new(); DEPTHS.len()]; walkers.len()];
    let mut missed = vec![0.0; walkers.len()];
    for round in 0..rounds {
        for (row, depth) in DEPTHS.into_iter().enumerate() {
            for turn in 0..walkers.len() {
                let walker = (round + turn) % walkers.len();
                let plan = Plan { common_trunk: false, threads: 1, depth, paths, signals: 1, passes };
                let place = scratch.join(format!("{}-{depth}-{round}", walkers[walker].0));
                let ticks = ticks_of_plan(&program, plan, &walkers[walker].1, &place, per_micro)?;
                // The kernel's and libc's frames around the calls are few.
                let shallow = ticks.iter().filter(|tick| tick.depth < f64::from(depth)).count();
                if shallow > 0 {
                    return Err(format!("{}: {shallow} walks shorter than {depth}", walkers[walker].0).into());
                }
                costs[walker][row].push(median(ticks.iter().map(|tick| tick.walk * 1e3).collect()));
                missed[walker] += ticks.iter().map(|tick| tick.misses).sum::<f64>();
            }
        }
    }
    for (walker, (name, _)) in walkers.iter().enumerate() {
        let medians: Vec<f64> = costs[walker].iter().map(|rounds| median(rounds.clone())).collect();
        print!("{name:16}");
        medians.iter().for_each(|cost| print!("{cost:>10.0}"));
        let frames = f64::from(DEPTHS[DEPTHS.len() - 1] - DEPTHS[0]);
        println!("{:>12.1}{:>26}", (medians[DEPTHS.len() - 1] - medians[0]) / frames, missed[walker]);
    }

    println!(
        "\nIn programs at 100 Hz: the walk's part in µs, how deep walks get, and by least squares the price of a"
    );
    println!("frame and of a rule that was not in the cache.\n");
    println!(
        "{:24}{:12}{:>7}{:>9}{:>9}{:>9}{:>9}{:>11}{:>11}",
        "", "", "ticks", "median", "99 %", "depth", "misses", "ns a frame", "µs a miss"
    );
    for program in
        PROGRAMS.iter().filter(|program| ["python3", "gcc's cc1"].contains(&program.name)).chain([&CARGO])
    {
        for (name, library) in walkers.iter().filter(|_| program.is_there()) {
            let place =
                scratch.join(format!("{}-{name}", program.name.split(' ').next().unwrap_or_default()));
            fs::create_dir(&place)?;
            let file = place.join("stamps").display().to_string();
            let more = [
                ("CPUPROFILE_FREQUENCY", "100"),
                ("SIGPROF_STAMPS", file.as_str()),
                ("cargo", env!("CARGO")),
            ];
            let said = program.run(seconds, library, &place, &more)?;
            print(program.name, name, &stamps::read(&place, per_micro)?);
            said.lines().filter(|line| line.starts_with("framehop:")).for_each(|line| println!("    {line}"));
        }
    }
    Ok(())
}

/// Returns the ticks of a run of `programs/tick.c` without its first pass, which fills the caches.
fn ticks_of_plan(
    program: &Path,
    plan: Plan,
    library: &Path,
    place: &Path,
    per_micro: f64,
) -> Result<Vec<Tick>> {
    fs::create_dir(place)?;
    let environment = [
        ("LD_PRELOAD", library.to_owned()),
        ("CPUPROFILE", place.join("profile")),
        ("CPUPROFILE_FREQUENCY", PathBuf::from("1")),
        ("SIGPROF_STAMPS", place.join("stamps")),
    ];
    rig::run(program, &plan.arguments("preloaded"), &environment)?;
    let ticks = stamps::read(place, per_micro)?;
    let first_pass = (plan.paths * plan.signals) as usize;
    let sent = first_pass * plan.passes as usize;
    if !(sent..=sent + 1).contains(&ticks.len()) {
        return Err(format!("{sent} signals sent, {} ticks stamped", ticks.len()).into());
    }
    Ok(ticks.into_iter().skip(first_pass).collect())
}

fn print(program: &str, walker: &str, ticks: &[Tick]) {
    let mut walks: Vec<f64> = ticks.iter().map(|tick| tick.walk).collect();
    walks.sort_by(f64::total_cmp);
    let at = |share: f64| walks[((walks.len() - 1) as f64 * share).round() as usize];
    let mean = |part: fn(&Tick) -> f64| ticks.iter().map(part).sum::<f64>() / ticks.len() as f64;
    let [_, per_frame, per_miss, _] = fit(ticks);
    print!("{program:24}{walker:12}{:>7}{:>9.2}{:>9.2}", ticks.len(), at(0.5), at(0.99));
    print!("{:>9.1}{:>9.2}", mean(|tick| tick.depth), mean(|tick| tick.misses));
    println!("{:>11.0}{per_miss:>11.2}", per_frame * 1e3);
}
