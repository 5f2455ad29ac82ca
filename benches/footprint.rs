//! The costs of a profiler besides its ticks: memory, start-up time and file size.
//!
//! Run it with nothing else on the machine: `cargo bench --bench footprint`. Profilers, and the
//! program without them, take turns in each round.

mod rig;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rig::{Plan, Profiler, Result, median};
use sigprof::format::CpuProfile;

/// The number of repetitions, and the passes of the large plans.
struct Size {
    rounds: usize,
    starts: usize,
    passes: u32,
}

const FULL: Size = Size { rounds: 5, starts: 500, passes: 100 };
const SMOKE: Size = Size { rounds: 1, starts: 3, passes: 1 };

fn main() -> Result<()> {
    let size = if rig::is_full_run() { FULL } else { SMOKE };
    let scratch = rig::scratch("footprint")?;
    let profilers = rig::profilers()?;
    memory_and_file(&size, &profilers, &scratch)?;
    start_up(&size, &profilers, &scratch)
}

fn memory_and_file(size: &Size, profilers: &[Profiler], scratch: &Path) -> Result<()> {
    let program = rig::compile("tick", scratch)?;
    let peak = rig::compile("peak", scratch)?;
    let small = Plan { common_trunk: false, threads: 1, depth: 8, paths: 10, signals: 1, passes: 1 };
    let large = Plan { depth: 128, paths: 1000, passes: size.passes, ..small };
    let plans = [
        ("small", small),
        ("chains differ throughout", large),
        ("chains differ innermost", Plan { common_trunk: true, ..large }),
    ];

    let file_of = |profiler: &Profiler| scratch.join(profiler.name);

    println!(
        "Resident memory at its peak, the program's exit included, in KiB. Medians; rounds: {}.",
        size.rounds
    );
    println!("Least: each distinct chain once, the header, the trailer and the mapped objects.");
    for (title, plan) in plans {
        let mut alone = Vec::new();
        let mut profiled = vec![Vec::new(); profilers.len()];
        for _ in 0..size.rounds {
            alone.push(peak_of(&peak, &program, plan, None)?);
            for (profiler, peaks) in profilers.iter().zip(&mut profiled) {
                peaks.push(peak_of(&peak, &program, plan, Some((profiler, &file_of(profiler))))?);
            }
        }
        let alone = median(alone);
        println!("\n{title}: {} ticks over {} paths of depth {}", plan.sent(), plan.paths, plan.depth);
        println!(
            "{:16}{:>12}{:>12}{:>14}{:>14}{:>14}",
            "", "peak KiB", "added KiB", "file bytes", "least", "file/least"
        );
        println!("{:16}{alone:>12.0}{:>12}{:>14}{:>14}{:>14}", "alone", "-", "-", "-", "-");
        for (profiler, peaks) in profilers.iter().zip(profiled) {
            let peak = median(peaks);
            let (bytes, least) = file_size(&file_of(profiler))?;
            let ratio = bytes as f64 / least as f64;
            println!(
                "{:16}{peak:>12.0}{:>12.0}{bytes:>14}{least:>14}{ratio:>14.2}",
                profiler.name,
                peak - alone
            );
        }
    }
    Ok(())
}

/// Returns the peak of a run in KiB, after a check that the profiler recorded each signal.
fn peak_of(peak: &Path, program: &Path, plan: Plan, profiler: Option<(&Profiler, &Path)>) -> Result<f64> {
    let mut arguments = Vec::new();
    for (name, value) in profiler.iter().flat_map(|(profiler, file)| profiler.environment(file)) {
        arguments.push(format!("{name}={}", value.display()));
    }
    arguments.push(program.display().to_string());
    arguments.extend(plan.arguments(if profiler.is_some() { "preloaded" } else { "own" }));
    let output = rig::run(peak, &arguments, &[])?;
    if let Some((profiler, file)) = profiler {
        rig::checked_profile(file, &output.stderr, plan.sent())
            .map_err(|error| format!("{}: {error}", profiler.name))?;
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Returns the length of a file, and its length if each distinct chain had one record.
fn file_size(file: &Path) -> Result<(usize, usize)> {
    let bytes = fs::read(file)?;
    let profile = CpuProfile::parse(&bytes)?;
    let length = |pcs: &[u64]| (2 + pcs.len()) * profile.layout.width.bytes();
    let all: usize = profile.records.iter().map(|record| length(&record.pcs)).sum();
    let chains: HashSet<&[u64]> = profile.records.iter().map(|record| record.pcs.as_slice()).collect();
    let distinct: usize = chains.into_iter().map(length).sum();
    Ok((bytes.len(), bytes.len() - all + distinct))
}

fn start_up(size: &Size, profilers: &[Profiler], scratch: &Path) -> Result<()> {
    let mut variants = vec![("alone".to_owned(), Vec::<(&str, PathBuf)>::new(), Vec::new())];
    for profiler in profilers {
        let off = vec![("LD_PRELOAD", profiler.library.clone())];
        let on = [off.clone(), vec![("CPUPROFILE", scratch.join("start"))]].concat();
        variants.push((format!("{}, off", profiler.name), off, Vec::new()));
        variants.push((format!("{}, on", profiler.name), on, Vec::new()));
    }
    for _ in 0..size.starts {
        for (_, environment, times) in &mut variants {
            let mut command = Command::new("/bin/true");
            command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let begin = Instant::now();
            // The standard library uses posix_spawn(3), so this program's size does not matter.
            let status = command.status()?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
            if !status.success() {
                return Err(format!("/bin/true under {environment:?}: {status}").into());
            }
        }
    }

    println!(
        "\nA run of /bin/true in ms, from spawn to wait. Medians; runs: {}. Off: preloaded, CPUPROFILE not set.",
        size.starts
    );
    println!("{:24}{:>12}{:>12}", "", "ms", "added ms");
    let alone = median(variants[0].2.clone());
    for (name, _, times) in variants {
        let time = median(times);
        println!("{name:24}{time:>12.2}{:>12.2}", time - alone);
    }
    Ok(())
}
