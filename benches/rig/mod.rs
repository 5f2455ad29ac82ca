//! What the benches stand on: the profilers they compare, the programs they run, and the check that a run counts.
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

/// No run comes near this; it ends one whose profiler has locked up.
const RUN_LIMIT: Duration = Duration::from_secs(300);

/// True under `cargo bench`. `cargo test` runs the benches too, without that argument: one short round, which
/// shows that they still work.
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

/// A profiler that is preloaded into the programs.
pub(crate) struct Profiler {
    pub(crate) name: &'static str,
    pub(crate) library: PathBuf,
}

impl Profiler {
    /// What a program's environment needs, beside nothing, to be profiled into `file`.
    ///
    /// At 1 Hz the profiler's own timer plays no part.
    pub(crate) fn environment(&self, file: &Path) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("LD_PRELOAD", self.library.clone()),
            ("CPUPROFILE", file.to_owned()),
            ("CPUPROFILE_FREQUENCY", PathBuf::from("1")),
        ]
    }
}

/// Builds `libprofiler.so` as users get it, and looks for the one of Debian's `libgoogle-perftools4`.
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

/// Builds `libprofiler.so` as users get it.
pub(crate) fn build_library() -> Result<PathBuf> {
    build(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(""), "")
}

/// Builds `libprofiler.so` with a time stamp at each stage of a tick (`src/sample/stamps.rs`), in a directory of its own:
/// the flag would make the next ordinary build start afresh.
pub(crate) fn build_stamped_library() -> Result<PathBuf> {
    build(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("stamps"), "--cfg sigprof_stamps")
}

/// Builds the library of `benches/framehop/`, a workspace of its own.
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

/// An empty directory for the files of one bench.
pub(crate) fn scratch(bench: &str) -> Result<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench").join(bench);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Compiles `benches/programs/NAME.c` without frame pointers, as distributions mostly ship programs.
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

/// What one run of `programs/tick.c` does.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// The chains of calls differ in their innermost calls only; otherwise throughout.
    pub(crate) common_trunk: bool,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    pub(crate) paths: u32,
    pub(crate) signals: u32,
    pub(crate) passes: u32,
}

impl Plan {
    /// The program's arguments; `handler` is `own` or `preloaded`.
    pub(crate) fn arguments(&self, handler: &str) -> Vec<String> {
        let shape = if self.common_trunk { "innermost" } else { "throughout" };
        let mut arguments = vec![handler.to_owned(), shape.to_owned()];
        let numbers = [self.threads, self.depth, self.paths, self.signals, self.passes];
        arguments.extend(numbers.iter().map(u32::to_string));
        arguments
    }

    /// The signals that one run sends, those of the untimed first pass included.
    pub(crate) fn sent(&self) -> u64 {
        [self.threads, self.paths, self.signals, self.passes]
            .iter()
            .map(|&factor| u64::from(factor))
            .product()
    }
}

/// Runs a command in an empty environment and takes its output.
///
/// What is in the environment already has a price: a library path, for one, makes the loader search more.
///
/// # Errors
///
/// When it does not start, fails, or does not end within [`RUN_LIMIT`].
pub(crate) fn run(program: &Path, arguments: &[String], environment: &[(&str, PathBuf)]) -> Result<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // The output is a few lines, which the pipes hold: nothing waits for us to read it.
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

/// Reads a profile and checks that it holds every signal that was sent, by the file and by the line that the
/// profiler prints when the program ends.
///
/// One more may be there: the timer can go off before the program stops it.
///
/// # Errors
///
/// When the file cannot be read, or a signal is missing from it or from the line.
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

/// The first figure of `PROFILE: interrupts/evictions/bytes = 1000/0/8192`.
fn interrupts(stderr: &str) -> Option<u128> {
    let (_, figures) = stderr.split_once("PROFILE: interrupts/evictions/bytes = ")?;
    figures.split('/').next()?.parse().ok()
}

/// The middle value, or the mean of the middle two.
///
/// # Panics
///
/// When there is no value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
