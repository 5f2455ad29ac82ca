//! Shared parts of the benches: profilers, programs, and the check that a run is valid.
#![allow(dead_code, reason = "each bench uses its own part of this module")]

pub(crate) mod programs;
pub(crate) mod stamps;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sigprof::format::CpuProfile;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Far more than a run takes: then the profiler hangs, and the run is killed.
const RUN_LIMIT: Duration = Duration::from_secs(300);

/// True with `cargo bench`. With `cargo test` one short round shows that the bench works.
pub(crate) fn is_full_run() -> bool {
    let mut bench = false;
    for argument in std::env::args() {
        match argument.as_str() {
            "--bench" => bench = true,
            "--test" => return false,
            _ => {}
        }
    }
    bench
}

pub(crate) struct Profiler {
    pub(crate) name: &'static str,
    pub(crate) library: PathBuf,
}

impl Profiler {
    /// Returns the variables that make a program write a profile to `file`. At 1 Hz the profiler's
    /// own timer does not matter.
    pub(crate) fn environment(&self, file: &Path) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("LD_PRELOAD", self.library.clone()),
            ("CPUPROFILE", file.to_owned()),
            ("CPUPROFILE_FREQUENCY", PathBuf::from("1")),
        ]
    }
}

/// Builds `libprofiler.so`, and finds Debian's `libgoogle-perftools4`.
pub(crate) fn profilers() -> Result<Vec<Profiler>> {
    let mut found = vec![Profiler { name: "sigprof", library: build_library()? }];
    let triple = match std::env::consts::ARCH {
        "x86" => "i386",
        other => other,
    };
    let gperftools = PathBuf::from(format!("/usr/lib/{triple}-linux-gnu/libprofiler.so.0"));
    if gperftools.exists() {
        found.push(Profiler { name: "gperftools", library: gperftools });
    } else {
        println!("gperftools: absent (no {}); install libgoogle-perftools4 to compare", gperftools.display());
    }
    Ok(found)
}

/// Builds `libprofiler.so` with default flags.
pub(crate) fn build_library() -> Result<PathBuf> {
    build(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(""), "")
}

/// Builds `libprofiler.so` with time stamps (`src/sample/stamps.rs`). It has its own directory:
/// other flags would make the next ordinary build compile everything.
pub(crate) fn build_stamped_library() -> Result<PathBuf> {
    build(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("stamps"), "--cfg sigprof_stamps")
}

pub(crate) fn build_framehop_walker() -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("framehop");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
        .arg(&target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/framehop"))
        .status()?;
    if !status.success() {
        return Err("the walker with framehop does not build".into());
    }
    Ok(target.join("release/libframehop_walker.so"))
}

fn build(target: PathBuf, flags: &str) -> Result<PathBuf> {
    let flags = format!("{flags} {}", std::env::var("RUSTFLAGS").unwrap_or_default());
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--package", "sigprof-cdylib", "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", flags.trim())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()?;
    if !status.success() {
        return Err("libprofiler.so does not build".into());
    }
    Ok(target.join("release/libprofiler.so"))
}

/// Creates an empty directory for the files of a bench.
pub(crate) fn scratch(bench: &str) -> Result<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench").join(bench);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Compiles `benches/programs/NAME.c` without frame pointers, like most distributions.
pub(crate) fn compile(name: &str, directory: &Path) -> Result<PathBuf> {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs").join(name).with_extension("c");
    let program = directory.join(name);
    let status = Command::new("gcc")
        .args(["-O2", "-fomit-frame-pointer", "-Wall", "-Wextra", "-pthread", "-o"])
        .args([&program, &source])
        .status()
        .map_err(|error| format!("gcc: {error}"))?;
    if !status.success() {
        return Err(format!("{} does not compile", source.display()).into());
    }
    Ok(program)
}

/// The work of a run of `programs/tick.c`.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// The call chains differ only in their innermost calls, otherwise throughout.
    pub(crate) common_trunk: bool,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    pub(crate) paths: u32,
    pub(crate) signals: u32,
    pub(crate) passes: u32,
}

impl Plan {
    /// Returns the program's arguments; `handler` is `own` or `preloaded`.
    pub(crate) fn arguments(&self, handler: &str) -> Vec<String> {
        let shape = if self.common_trunk { "innermost" } else { "throughout" };
        let mut arguments = vec![handler.to_owned(), shape.to_owned()];
        let numbers = [self.threads, self.depth, self.paths, self.signals, self.passes];
        arguments.extend(numbers.iter().map(u32::to_string));
        arguments
    }

    /// Returns the number of signals that a run sends, with those of the untimed first pass.
    pub(crate) fn sent(&self) -> u64 {
        [self.threads, self.paths, self.signals, self.passes]
            .iter()
            .map(|&factor| u64::from(factor))
            .product()
    }
}

/// Runs a command in an otherwise empty environment and returns its output. Other variables would
/// have a cost: a library path makes the loader search more.
///
/// # Errors
/// If it does not start, fails, or runs longer than [`RUN_LIMIT`].
pub(crate) fn run(program: &Path, arguments: &[String], environment: &[(&str, PathBuf)]) -> Result<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // The output is a few lines, which the pipes hold without a reader.
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > RUN_LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(format!("{} {arguments:?} {environment:?}: stuck", program.display()).into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let status = output.status;
        return Err(format!("{} {arguments:?} {environment:?}: {status}: {said}", program.display()).into());
    }
    Ok(output)
}

/// Reads a profile and checks that it holds every signal that was sent, by the file and by the line
/// that the profiler prints at exit. Another tick may be there: the timer can expire before the
/// program stops it.
///
/// # Errors
/// If the file cannot be read, or a signal is missing from it or from the line.
pub(crate) fn checked_profile(file: &Path, stderr: &[u8], sent: u64) -> Result<CpuProfile> {
    let profile =
        CpuProfile::parse(&fs::read(file)?).map_err(|error| format!("{}: {error}", file.display()))?;
    let said = String::from_utf8_lossy(stderr);
    let interrupts = interrupts(&said).ok_or(format!("the profiler printed no figures: {said}"))?;
    for (place, count) in [("file", profile.total_samples()), ("last line", interrupts)] {
        if !(u128::from(sent)..=u128::from(sent) + 1).contains(&count) {
            return Err(format!("{sent} signals sent, the profiler's {place} has {count}").into());
        }
    }
    Ok(profile)
}

/// Returns the first figure of `PROFILE: interrupts/evictions/bytes = 1000/0/8192`.
fn interrupts(stderr: &str) -> Option<u128> {
    let (_, figures) = stderr.split_once("PROFILE: interrupts/evictions/bytes = ")?;
    figures.split('/').next()?.parse().ok()
}

/// Returns the middle value, or the mean of the two middle ones.
///
/// # Panics
/// If there is no value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
