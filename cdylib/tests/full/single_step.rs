//! The unwinder at every instruction: a program sets the processor's trap flag. At each instruction
//! of eight workloads, it compares the C interface's stack with those of libunwind and libgcc, and
//! with the calls that the traps showed (`programs/step/`).
//!
//! Here each address is compared only the first times. `ci/single_step.sh` compares at each
//! instruction, by the variables below, and keeps the reports that `docs/unwinding.md` summarises.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Linkage, Scratch, plain, program_source, run, tool};

/// The most instructions of a region that are stepped; 0 for all.
const BUDGET: &str = "SIGPROF_STEP_BUDGET";
/// The number of runs of a region.
const ROUNDS: &str = "SIGPROF_STEP_ROUNDS";
/// The most comparisons at one address; 0 for no limit.
const VISITS: &str = "SIGPROF_STEP_VISITS";
/// A folder for the reports, one file for each workload.
const REPORTS: &str = "SIGPROF_STEP_REPORTS";

/// Sources of the workloads, and the libraries that they need.
const WORKLOADS: [(&str, &[&str]); 8] = [
    ("libc_text.c", &["-fno-builtin", "-Wl,--no-as-needed", "-lm"]),
    ("libc_memory.c", &["-fno-builtin"]),
    ("libc_control.c", &[]),
    ("libm.c", &["-fno-builtin", "-Wl,--no-as-needed", "-lm"]),
    ("libstdcxx.cc", &[]),
    ("libcrypto.c", &[]),
    ("ld_so.c", &[]),
    ("rust_std.rs", &[]),
];

/// Known wrong stacks: the object that has the code (empty for any), and the regions.
/// `docs/unwinding.md`, "What remains", explains each.
const EXPLAINED: [(&str, &[&str]); 4] = [
    // Unwinding overwrites the frame in which it runs.
    ("libgcc_s.so", &["exceptions", "panics"]),
    // `__longjmp`, directly and below the loader's own exceptions.
    ("libc.so", &["jumps", "failures", "names", "iconv"]),
    // `swapcontext`, `__start_context` and `clone3`.
    ("libc.so", &["contexts", "threads", "processes"]),
    // `_init` and similar functions of libraries that are loaded and unloaded.
    ("", &["iconv", "lazy", "now", "others"]),
];

/// The least share of instructions at which our stack equals libunwind's or libgcc's, or is proven
/// by the calls; and the least share at which it is right.
const AGREED: f64 = 0.9999;
const RIGHT: f64 = 0.999;

/// With fewer, stepping stopped somewhere.
const MIN_COMPARED: u64 = 100_000;

#[test]
fn stacks_are_right_at_every_instruction() {
    let scratch = Scratch::new();
    let program = compile_program(&scratch);
    let plugin =
        scratch.compile_library("step/plugin.c", &["-fno-builtin", "-Wl,-z,lazy,--no-as-needed", "-lm"]);
    let libraries = WORKLOADS.map(|(source, flags)| compile_workload(&scratch, source, flags));
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let step = |library| {
            let (program, plugin) = (&program, &plugin);
            scope.spawn(move || Report::of(program, library, plugin))
        };
        let threads: Vec<_> = libraries.iter().map(step).collect();
        threads.into_iter().map(|thread| thread.join().expect("the workload ran")).collect()
    });
    let total = |name: &str| reports.iter().map(|report| report.figure(name)).sum::<u64>();
    let compared = total("compared");
    let share = |name: &str| total(name) as f64 / compared as f64;
    for name in ["whole", "right", "agreed", "called-known", "called-ours"] {
        println!("{name} at {:.4} % of {compared} instructions", 100.0 * share(name));
    }
    assert!(compared >= MIN_COMPARED, "only {compared} instructions were compared");
    assert!(total("called-known") > compared / 2, "the calls were known at too few instructions");
    assert_eq!(total("dropped"), 0, "more differences than there is room for");
    assert!(share("agreed") >= AGREED, "{}", differences(&reports));
    assert!(share("right") >= RIGHT, "{}", differences(&reports));
    let unexplained: Vec<&Difference> = reports
        .iter()
        .flat_map(|report| &report.differences)
        .filter(|difference| !difference.is_right && !difference.is_explained())
        .collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

struct Report {
    workload: String,
    /// Lines of a name and a number; the last one counts.
    figures: BTreeMap<String, u64>,
    differences: Vec<Difference>,
}

/// An address at which two unwinders, or ours and the calls, have different stacks.
#[derive(Debug)]
struct Difference {
    is_right: bool,
    region: String,
    /// The innermost PC, as the program prints it.
    leaf: String,
    text: String,
}

impl Difference {
    fn is_explained(&self) -> bool {
        EXPLAINED
            .iter()
            .any(|(object, regions)| self.leaf.starts_with(object) && regions.contains(&self.region.as_str()))
    }
}

impl Report {
    fn of(program: &Path, library: &PathBuf, plugin: &Path) -> Self {
        let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let mut command = plain(program);
        command.arg(library).args([setting(BUDGET, "20000"), setting(ROUNDS, "1"), setting(VISITS, "2")]);
        command.env("SIGPROF_STEP_PLUGIN", plugin);
        // They select other versions of the libraries' assembly.
        for name in ["GLIBC_TUNABLES", "OPENSSL_ia32cap"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let text = run(&mut command).expect_success().text();
        let workload = library.file_stem().and_then(|stem| stem.to_str()).expect("a plain name").to_owned();
        if let Some(folder) = std::env::var_os(REPORTS) {
            std::fs::write(Path::new(&folder).join(format!("{workload}.txt")), &text).expect("a report");
        }
        Self::parse(workload, &text)
    }

    fn parse(workload: String, text: &str) -> Self {
        let mut report = Self { workload, figures: BTreeMap::new(), differences: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["difference", verdict, ..] => {
                    let after = |name| words.iter().skip_while(|word| **word != name).nth(1);
                    let (region, leaf) = (after("region"), after("leaf"));
                    report.differences.push(Difference {
                        is_right: verdict == "right",
                        region: region.expect("a region").to_string(),
                        leaf: leaf.expect("a leaf").to_string(),
                        text: line.to_owned(),
                    });
                }
                [name, figure] => {
                    report.figures.insert(name.to_owned(), figure.parse().expect("a figure"));
                }
                _ => {
                    if let (true, Some(last)) = (line.starts_with("  "), report.differences.last_mut()) {
                        last.text = format!("{}\n{line}", last.text);
                    }
                }
            }
        }
        report
    }

    fn figure(&self, name: &str) -> u64 {
        *self.figures.get(name).unwrap_or_else(|| panic!("{}: no {name}", self.workload))
    }
}

fn differences(reports: &[Report]) -> String {
    let wrong =
        reports.iter().flat_map(|report| &report.differences).filter(|difference| !difference.is_right);
    wrong.map(|difference| format!("{}\n", difference.text)).collect()
}

fn compile_program(scratch: &Scratch) -> PathBuf {
    let others = ["tally.c", "shadow.c", "unwinders.c"]
        .map(|name| program_source(&format!("step/{name}")).into_os_string());
    let mut flags: Vec<&str> = others.iter().map(|path| path.to_str().expect("a UTF-8 path")).collect();
    // libgcc first: libunwind has an exception unwinder with the same names.
    flags.extend(["-Wl,--no-as-needed", "-lgcc_s", "-lunwind"]);
    scratch.compile("step/main.c", Linkage::Shared, &flags)
}

fn compile_workload(scratch: &Scratch, source: &str, flags: &[&str]) -> PathBuf {
    let source = format!("step/{source}");
    if !source.ends_with(".rs") {
        return scratch.compile_library(&source, flags);
    }
    let library = scratch.path("librust_std.so");
    let mut compiler = tool("rustc");
    compiler.args(["--edition=2024", "-O", "--crate-type=cdylib", "-Dwarnings"]);
    run(compiler.arg("-o").arg(&library).arg(program_source(&source))).expect_success();
    library
}
