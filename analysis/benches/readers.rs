//! What it takes to read a profile and show its hottest functions: ours beside `go tool pprof -top`, `google-pprof --text` and
//! `perf report`, and how it grows with the number of records.
//!
//! Run it alone on the machine, by `ci/bench_readers.sh`, which makes the large binary and says where it is
//! (`SIGPROF_BIG_BINARY`). All readers run in turn, round after round; figures are medians, and ratios are of the same rounds.
//! Without that variable, as in the tests, small profiles are read once, by our reader alone.

use nix::sys::resource::{UsageWho, getrusage};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../examples/generate.rs"]
mod generate;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The argument that makes this program run another one and report its cost.
const MEASURE: &str = "--measure-one";

const SIGPROF: &str = env!("CARGO_BIN_EXE_sigprof");

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, rest @ ..] = arguments.as_slice() {
        if flag == MEASURE {
            return measure_here(rest);
        }
    }
    let place = tempfile::tempdir()?;
    let big = std::env::var_os("SIGPROF_BIG_BINARY").map(PathBuf::from);
    let rounds = if big.is_some() { 5 } else { 1 };
    match &big {
        Some(big) => beside_peers(big, place.path(), rounds)?,
        None => println!(
            "No other readers: SIGPROF_BIG_BINARY is not set; ci/bench_readers.sh makes what it names.\n"
        ),
    }
    growth(place.path(), rounds, if big.is_some() { &[10_000, 100_000, 1_000_000] } else { &[100, 1000] })
}

/// What a run took.
#[derive(Clone, Copy)]
struct Cost {
    elapsed: Duration,
    /// Most memory that it had at a time, in MB.
    peak: f64,
}

/// The readers of one profile of a thousand samples in a large binary.
fn beside_peers(binary: &Path, place: &Path, rounds: usize) -> Result<()> {
    let profile = record(binary, place)?;
    let perf_data = record_by_perf(binary, place)?;
    let arguments = |words: &[&str], last: &[&Path]| -> Vec<String> {
        let paths = last.iter().map(|path| path.to_string_lossy().into_owned());
        words.iter().map(ToString::to_string).chain(paths).collect()
    };
    let readers = [
        ("sigprof top", arguments(&[SIGPROF, "top"], &[&profile])),
        ("go tool pprof -top", arguments(&["go", "tool", "pprof", "-top"], &[binary, &profile])),
        ("google-pprof --text", arguments(&["google-pprof", "--text"], &[binary, &profile])),
        ("perf report", arguments(&["perf", "report", "--stdio", "-i"], &[&perf_data])),
    ];
    let mut costs = vec![Vec::new(); readers.len()];
    for _ in 0..rounds {
        for ((_, command), costs) in readers.iter().zip(&mut costs) {
            costs.push(measure(command, place)?);
        }
    }
    let bytes = fs::metadata(binary)?.len();
    println!(
        "The hottest functions of a profile of {} samples in {} ({} MB), medians of {rounds} runs.",
        samples_of(&profile)?,
        name_of(binary),
        bytes / 1_000_000
    );
    println!("\n| reader | seconds | ratio | peak memory, MB |\n| --- | --- | --- | --- |");
    let ours = median(&costs[0]).elapsed.as_secs_f64();
    for ((name, _), costs) in readers.iter().zip(&costs) {
        let cost = median(costs);
        let seconds = cost.elapsed.as_secs_f64();
        println!("| `{name}` | {seconds:.3} | {:.1} | {:.0} |", seconds / ours, cost.peak);
    }
    println!();
    Ok(())
}

/// Time and memory by the number of records, ten frames each.
fn growth(place: &Path, rounds: usize, sizes: &[u64]) -> Result<()> {
    println!("`sigprof top` of CPU profiles by their records, medians of {rounds} runs.");
    println!("\n| records | MB | seconds | ns a record | peak memory, MB |\n| --- | --- | --- | --- | --- |");
    for &records in sizes {
        let file = place.join(format!("{records}.prof"));
        generate::generate(records, 10, fs::File::create(&file)?)?;
        let command = [SIGPROF, "top", &file.to_string_lossy()].map(String::from);
        let costs: Result<Vec<Cost>> = (0..rounds).map(|_| measure(&command, place)).collect();
        let cost = median(&costs?);
        let seconds = cost.elapsed.as_secs_f64();
        let megabytes = fs::metadata(&file)?.len() as f64 / 1e6;
        println!(
            "| {records} | {megabytes:.1} | {seconds:.3} | {:.0} | {:.0} |",
            seconds / records as f64 * 1e9,
            cost.peak
        );
    }
    Ok(())
}

/// Has the library profile the large program at work for a second; gives the CPU profile.
fn record(binary: &Path, place: &Path) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--quiet", "--release", "--locked", "--package", "sigprof-cdylib"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    succeed(&mut command)?;
    // The directory of the tests' and benches' scratch files lies beside those of the profiles.
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("release/libprofiler.so");
    let profile = place.join("big.prof");
    let mut command = Command::new(binary);
    command
        .args(WORK)
        .env("LD_PRELOAD", library)
        .env("CPUPROFILE", &profile)
        .env("CPUPROFILE_FREQUENCY", "1000")
        .env("CPUPROFILE_QUIET", "1");
    succeed(&mut command)?;
    Ok(profile)
}

/// Has perf sample the same, as often.
fn record_by_perf(binary: &Path, place: &Path) -> Result<PathBuf> {
    let data = place.join("perf.data");
    let mut command = Command::new("perf");
    command
        .args(["record", "-q", "-e", "cpu-clock", "-F", "1000", "-g", "-o"])
        .args([&data, binary])
        .args(WORK);
    succeed(&mut command)?;
    Ok(data)
}

/// What the large program, ripgrep, does for about a second: searches texts that each machine with a compiler has.
const WORK: [&str; 11] = [
    "-j1",
    "-uu",
    "--no-unicode",
    "--no-messages",
    "-c",
    r"(\w+)ing\s+(\w+)ed",
    "/usr/include",
    "/usr/lib/python3",
    "/usr/include",
    "/usr/lib/python3",
    "/usr/include",
];

fn succeed(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(output.stdout)
}

fn samples_of(profile: &Path) -> Result<u128> {
    Ok(sigprof::format::CpuProfile::parse(&fs::read(profile)?)?.total_samples())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs a command as the only child of another process; returns its cost.
fn measure(command: &[String], place: &Path) -> Result<Cost> {
    let output = Command::new(std::env::current_exe()?)
        .arg(MEASURE)
        .args(command)
        .env("PPROF_TMPDIR", place)
        .env("HOME", place)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
    match figures.as_slice() {
        &[seconds, peak] if output.status.success() => {
            Ok(Cost { elapsed: Duration::from_secs_f64(seconds), peak })
        }
        _ => Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

fn measure_here(command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().ok_or("no command to measure")?;
    let start = Instant::now();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    let elapsed = start.elapsed();
    if !output.status.success() || output.stdout.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    // In KiB (getrusage(2)).
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() as f64 * 1024.0 / 1e6;
    println!("{} {peak}", elapsed.as_secs_f64());
    Ok(())
}

fn median(costs: &[Cost]) -> Cost {
    let mut times: Vec<Duration> = costs.iter().map(|cost| cost.elapsed).collect();
    let mut peaks: Vec<f64> = costs.iter().map(|cost| cost.peak).collect();
    times.sort();
    peaks.sort_by(f64::total_cmp);
    Cost { elapsed: times[times.len() / 2], peak: peaks[peaks.len() / 2] }
}
