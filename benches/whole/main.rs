//! The share of complete stacks in Debian's programs.
//!
//! `cargo bench --bench whole` runs each for about ten seconds of CPU time under the preloaded
//! library. Two sources must agree: the library's counters, and the outermost PCs in the files,
//! which `root.rs` looks up without call frame information. The machine may do other work.

#[path = "../rig/mod.rs"]
mod rig;

mod root;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rig::Result;
use rig::programs::{PROGRAMS, Program};
use root::{Root, Roots};
use sigprof::format::CpuProfile;

/// The required share of each program.
const LEAST: f64 = 0.999;
/// Ticks per second of CPU time: the rate of a kernel with HZ=250.
const FREQUENCY: &str = "250";

/// The ends of walks, by their names in the library's statistics line.
const ENDS: [&str; 6] = ["complete", "depth", "unreadable", "no_rule", "loops", "unloading"];

fn main() -> Result<()> {
    let is_full = rig::is_full_run();
    let seconds = if is_full { 10 } else { 1 };
    let only: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let scratch = rig::scratch("whole")?;
    let library = rig::build_library()?;

    println!(
        "Walks at {FREQUENCY} Hz, in %, and how the others end. Samples at a root: by the files alone.\n"
    );
    print!("{:24}{:>10}{:>10}", "", "processes", "walks");
    ENDS.iter().for_each(|end| print!("{end:>11}"));
    println!("{:>12}{:>12}{:>12}", "at a root", "rule misses", "by guess");
    let mut cut = Vec::new();
    for program in &PROGRAMS {
        if !only.is_empty() && !only.iter().any(|word| program.name.contains(word.as_str())) {
            continue;
        }
        if !program.is_there() {
            continue;
        }
        let outcome = run(program, seconds, &library, &scratch)?;
        outcome.print(program.name);
        if is_full && outcome.complete_share().min(outcome.rooted_share()) < LEAST {
            cut.push(program.name);
        }
    }
    if cut.is_empty() { Ok(()) } else { Err(format!("below {LEAST}: {cut:?}").into()) }
}

/// The result of a program and all processes that it started.
#[derive(Default)]
struct Outcome {
    processes: u32,
    /// Sums of the figures in the library's lines.
    figures: BTreeMap<String, u64>,
    samples: u128,
    /// Samples with an entry point as the outermost PC.
    rooted: u128,
    /// Other samples by the place at which they end.
    elsewhere: BTreeMap<String, u128>,
}

impl Outcome {
    fn figure(&self, name: &str) -> u64 {
        self.figures.get(name).copied().unwrap_or(0)
    }

    fn complete_share(&self) -> f64 {
        self.figure("complete") as f64 / self.figure("walks").max(1) as f64
    }

    fn rooted_share(&self) -> f64 {
        self.rooted as f64 / self.samples.max(1) as f64
    }

    fn print(&self, name: &str) {
        let walks = self.figure("walks");
        print!("{name:24}{:>10}{walks:>10}", self.processes);
        for end in ENDS {
            print!("{:>11.3}", 100.0 * self.figure(end) as f64 / walks.max(1) as f64);
        }
        print!("{:>12.3}{:>12}", 100.0 * self.rooted_share(), self.figure("rule_misses"));
        println!("{:>12}", self.figure("frames_without_rule"));
        let mut places: Vec<_> = self.elsewhere.iter().collect();
        places.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (place, samples) in places.into_iter().take(8) {
            println!("    {samples} cut at {place}");
        }
    }
}

fn run(program: &Program, seconds: u32, library: &Path, scratch: &Path) -> Result<Outcome> {
    let place = scratch.join(program.name.split(' ').next().unwrap_or_default());
    fs::create_dir(&place)?;
    let more = [("CPUPROFILE_FREQUENCY", FREQUENCY), ("CPUPROFILE_STATISTICS", "1")];
    let said = program.run(seconds, library, &place, &more)?;
    read(&place, &said).map_err(|error| format!("{}: {error}", program.name).into())
}

/// Reads the library's lines and files, and checks that they agree.
fn read(place: &Path, said: &str) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for line in said.lines() {
        let Some((_, figures)) = line.split_once("sigprof: statistics: ") else { continue };
        outcome.processes += 1;
        let words = figures.split(' ').map_while(|word| word.split_once('='));
        for (name, value) in words.take_while(|&(name, _)| name != "profile") {
            // The use of the spool is a word.
            if name != "spool" {
                *outcome.figures.entry(name.to_owned()).or_default() += value.parse::<u64>()?;
            }
        }
    }
    let mut roots = Roots::default();
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        let is_profile = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("profile_"));
        if !is_profile {
            continue;
        }
        let profile =
            CpuProfile::parse(&fs::read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        for record in &profile.records {
            let count = u128::from(record.count);
            outcome.samples += count;
            match roots.of(&profile, record) {
                Root::Process | Root::Thread => outcome.rooted += count,
                Root::Elsewhere(where_) => *outcome.elsewhere.entry(where_).or_default() += count,
            }
        }
    }
    let counted = u128::from(outcome.figure("samples"));
    if counted == 0 || counted != outcome.samples {
        return Err(format!("the library counts {counted} samples, its files {}", outcome.samples).into());
    }
    Ok(outcome)
}
