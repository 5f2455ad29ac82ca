//! The CPU time that profiling adds to a program, at 100, 1000 and 4000 Hz, with sigprof's clocks,
//! gperftools and pprof-rs.
//!
//! Run it with nothing else on the machine: `cargo bench --bench overhead`. It takes half an hour.
//! All variants, and the program alone, take turns in each round. On a shared machine equal runs
//! differ by a tenth, more than a profiler costs. So there are many short runs, their medians are
//! compared, and each figure has a 95 % interval (bootstrap over the runs).

mod rig;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use rig::Result;

const RATES: [u32; 3] = [100, 1000, 4000];

/// A program with a fixed amount of work.
struct Work {
    name: &'static str,
    prepare: &'static str,
    /// Prints the path of the program.
    which: &'static str,
    arguments: &'static [&'static str],
}

const WORKS: [Work; 2] = [
    Work {
        name: "python3",
        prepare: r"cat > work.py << 'END'
import ast, collections, difflib, glob, json, os, re, sys
library = os.path.dirname(os.__file__)
texts = [open(name, encoding='utf-8', errors='replace').read() for name in sorted(glob.glob(library + '/*.py'))]
for one, other in list(zip(texts, texts[1:]))[:20 * int(sys.argv[1])]:
    compile(ast.parse(one), 'one', 'exec')
    words = re.findall(r'[A-Za-z_]\w+', one)
    counted = collections.Counter(words)
    json.loads(json.dumps(counted, indent=1, sort_keys=True))
    sorted(words, key=lambda word: (counted[word], word[::-1]))
    list(difflib.unified_diff(one.split('\n')[:100], other.split('\n')[:100]))
END
",
        which: "echo /usr/bin/python3",
        arguments: &["work.py", "SECONDS"],
    },
    Work {
        name: "gcc's cc1",
        prepare: r#"i=0; while [ $i -lt $((60 * seconds)) ]; do
    echo "int table_$i[64]; int f_$i(int n, int *p) { int s = $i; for (int k = 0; k < n; k++) {"
    echo "switch (p[k] & 7) { case 0: s += p[k] * $i; break; case 1: s ^= table_$i[k & 63]; break; case 2: s = s * 3 + k;"
    echo "default: for (int j = 0; j < (p[k] & 31); j++) s += table_$i[j] * p[j] - (s >> 3); } } return s; }"
    i=$((i + 1))
done > work.c"#,
        which: "/usr/bin/gcc -print-prog-name=cc1",
        arguments: &["-O2", "-quiet", "work.c", "-o", "work.s"],
    },
];

struct Variant {
    name: String,
    environment: Vec<(&'static str, String)>,
}

fn main() -> Result<()> {
    let is_full = rig::is_full_run();
    let (rounds, seconds) = if is_full { (25, 2) } else { (2, 1) };
    println!(
        "CPU time of a program, in percent more than without a profiler: medians of {rounds} runs, and 95 % of their likely range."
    );
    for work in &WORKS {
        let place = rig::scratch("overhead")?;
        prepare(work.prepare, seconds, &place)?;
        let path = PathBuf::from(output_of(work.which)?.trim());
        let seconds = seconds.to_string();
        let arguments: Vec<&str> = work
            .arguments
            .iter()
            .map(|argument| if *argument == "SECONDS" { &seconds } else { *argument })
            .collect();
        let rates = if is_full { &RATES[..] } else { &RATES[2..] };
        let variants = variants(&place, rates)?;
        let mut runs = vec![Vec::new(); variants.len()];
        for round in 0..rounds {
            // Each variant is first, second and last in turn.
            for turn in 0..variants.len() {
                let variant = (round + turn) % variants.len();
                runs[variant].push(cpu_seconds(&path, &arguments, &place, &variants[variant].environment)?);
            }
        }
        println!("\n{} ({:.2} s alone)", work.name, median(&mut runs[0].clone()));
        for (variant, with) in variants.iter().zip(&runs).skip(1) {
            let (more, low, high) = compare(with, &runs[0]);
            println!("{:32} {more:+6.2}   ({low:+.2} to {high:+.2})", variant.name);
        }
    }
    Ok(())
}

/// Returns the variants: no profiler; then, at each rate, sigprof by each clock and the others.
fn variants(place: &Path, rates: &[u32]) -> Result<Vec<Variant>> {
    let mut libraries: Vec<(String, PathBuf, Option<&str>)> = Vec::new();
    for profiler in rig::profilers()? {
        if profiler.name == "sigprof" {
            for clock in ["cpu", "itimer", "perf"] {
                libraries.push((format!("sigprof, {clock}"), profiler.library.clone(), Some(clock)));
            }
        } else {
            libraries.push((profiler.name.to_owned(), profiler.library, None));
        }
    }
    libraries.push(("pprof-rs".to_owned(), build_pprof()?, None));
    let mut variants = vec![Variant { name: "alone".to_owned(), environment: Vec::new() }];
    for rate in rates {
        for (name, library, clock) in &libraries {
            let mut environment = vec![
                ("LD_PRELOAD", library.display().to_string()),
                ("CPUPROFILE", place.join("profile").display().to_string()),
                ("CPUPROFILE_FREQUENCY", rate.to_string()),
            ];
            environment.extend(clock.map(|clock| ("CPUPROFILE_CLOCK", clock.to_owned())));
            variants.push(Variant { name: format!("{rate} Hz, {name}"), environment });
        }
    }
    Ok(variants)
}

/// Returns the increase of the median by profiling in percent, and its 95 % interval.
fn compare(with: &[f64], without: &[f64]) -> (f64, f64, f64) {
    const DRAWS: usize = 2000;
    let mut seed = 1u64;
    let mut draw = |runs: &[f64]| {
        let drawn = (0..runs.len()).map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            runs[(seed >> 33) as usize % runs.len()]
        });
        median(&mut drawn.collect::<Vec<_>>())
    };
    let more = |with: f64, without: f64| 100.0 * (with / without - 1.0);
    let mut draws: Vec<f64> = (0..DRAWS).map(|_| more(draw(with), draw(without))).collect();
    draws.sort_by(f64::total_cmp);
    let middle = more(median(&mut with.to_vec()), median(&mut without.to_vec()));
    (middle, draws[DRAWS / 40], draws[DRAWS - 1 - DRAWS / 40])
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Builds the library that profiles a program with pprof-rs.
fn build_pprof() -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("pprof-rs");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/pprof-rs/Cargo.toml");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()?;
    if !status.success() {
        return Err(format!("pprof-rs could not be built: {status}").into());
    }
    Ok(target.join("release/libpprof_rs_preload.so"))
}

fn prepare(script: &str, seconds: u32, place: &Path) -> Result<()> {
    let status = Command::new("/bin/sh")
        .args(["-euc", script])
        .current_dir(place)
        .env("seconds", seconds.to_string())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("{script}: {status}").into()) }
}

fn output_of(script: &str) -> Result<String> {
    Ok(String::from_utf8(Command::new("/bin/sh").args(["-c", script]).output()?.stdout)?)
}

/// Returns the CPU seconds of a run, which must succeed.
fn cpu_seconds(
    program: &Path,
    arguments: &[&str],
    place: &Path,
    environment: &[(&str, String)],
) -> Result<f64> {
    let before = used_by_children()?;
    let output = Command::new(program)
        .args(arguments)
        .current_dir(place)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        // Fixes the order in Python's hash tables.
        .env("PYTHONHASHSEED", "0")
        .envs(environment.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(used_by_children()? - before)
}

fn used_by_children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
