//! Everything that the library's own code can do in a signal handler, at exit, across a fork, and
//! in async-signal-safe functions. `docs/signal-safety.md` lists it with the reason why it is safe;
//! the tests compare the lists and the library.
//!
//! The library under test is the release build, with its symbol and line tables. Instructions are
//! followed from each entry through calls, jumps, jump tables and function addresses. A call by a
//! pointer is listed by its place in the source, with the pointer's possible targets. Code after a
//! panic is not followed: a panic is a finding.
//!
//! Only x86-64 is decoded. Except for `src/sys/arch/`, other processors' code has the same sources.

use std::collections::BTreeMap;
use std::fs;

use crate::calls::{
    Image, Names, Place, Program, Reached, Target,
    listed::{self, Row},
    system_calls,
};
use crate::support::{Linkage, Scratch, repository_root, run, shared_library, tool};

const TICK: &str = "sigprof::sample::handler::on_signal";

/// Functions that the kernel and libc call in handlers and across a fork, by the document's names.
const HOOKS: &[(&str, &str)] = &[
    ("tick", TICK),
    ("toggle", "sigprof::control::toggle::on_toggle"),
    ("end", "profiler::exit::watch_quick_exit::at_quick_exit"),
    ("fork", "sigprof::control::fork::before"),
    ("fork", "sigprof::control::fork::after_in_parent"),
    ("fork", "sigprof::control::fork::after_in_child"),
];

/// Stack bytes that the library's own frames may use. `src/sys/signal/alternate_stack.rs` assumes
/// 2048 for a tick: half of it is left to libc. Programs call `_exit` and `exec` on alternate
/// stacks with only 768 bytes besides the kernel's frame. A walk has its slot's 64 KiB.
const STACKS: &[(&str, u64)] = &[("tick", 1024), ("end", 512), ("exec", 512), ("walk", 32 << 10)];

/// Each reached function of another library, system call and thread-local variable is listed.
#[test]
fn all_calls_are_listed() {
    let library = fs::read(shared_library()).expect("the library");
    expect_listed("call", &library, |_, reached| {
        let name = |target: &Target| match target {
            Target::Import(name) => Some(name.clone()),
            Target::System(number) => {
                let name =
                    number.map(|number| system_calls::name(number).map_or(number.to_string(), str::to_owned));
                Some(format!("{}, by system call", name.as_deref().unwrap_or("of any number")))
            }
            Target::ThreadLocal => Some("a thread-local".to_owned()),
            Target::Own(_) | Target::Unknown => None,
        };
        reached.targets.iter().filter_map(|(place, target)| Some((name(target)?, *place))).collect()
    });
}

/// Each place that calls by a pointer, which is set at run time, is listed.
#[test]
fn all_pointer_calls_are_listed() {
    let library = fs::read(shared_library()).expect("the library");
    expect_listed("pointer", &library, |names, reached| {
        let unknown = reached.targets.iter().filter(|(_, target)| *target == Target::Unknown);
        unknown.map(|(place, _)| (names.site(*place), *place)).collect()
    });
}

/// Each place at which Rust's libraries could panic, allocate, lock or format is listed.
#[test]
fn all_panics_allocations_and_locks_are_listed() {
    let library = fs::read(shared_library()).expect("the library");
    expect_listed("exception", &library, |names, reached| {
        let finding = |(place, kind): &(Place, _)| (format!("{kind} in {}", names.site(*place)), *place);
        reached.findings.iter().map(finding).collect()
    });
}

/// The loader resolves symbols when the library is loaded, and nothing while a handler runs.
#[test]
fn every_symbol_is_resolved_when_the_library_is_loaded() {
    let dynamic = run(tool("readelf").arg("-dW").arg(shared_library())).expect_success().text();
    let has = |tag: &str, value: &str| dynamic.lines().any(|line| line.contains(tag) && line.contains(value));
    let is_bound = has("(FLAGS)", "BIND_NOW") && has("(FLAGS_1)", "NOW");
    assert!(
        is_bound,
        "the handler's first call of a function looks it up, by the loader and its locks:\n{dynamic}"
    );
}

/// A lazily bound program with the static library calls other libraries in a tick only by addresses
/// that are resolved at the start. A linker's stub would run the loader in the handler.
#[test]
fn a_tick_in_a_lazily_bound_program_calls_nothing_by_a_stub() {
    let scratch = Scratch::new();
    let program = scratch.compile("static_program.c", Linkage::Static, &["-Wl,-z,lazy"]);
    let program = fs::read(program).expect("the program");
    let image = Image::read(&program);
    let handler = image.addresses_of(TICK);
    let reached = Program::new(&image).reach(&handler, &|_| false, &|_| Vec::new());
    let leaves =
        reached.targets.iter().any(|(_, target)| *target == Target::Import("clock_gettime".to_owned()));
    assert!(leaves, "the handler was not followed");
    let stub = reached.starts().find(|start| image.is_stub(*start));
    assert!(stub.is_none_or(|stub| panic!("{}", way(&image, &reached, stub))));
}

/// The handlers' own frames leave room for the functions that they call, as does a walk.
#[test]
fn the_handlers_take_little_of_the_interrupted_stack() {
    let library = fs::read(shared_library()).expect("the library");
    let image = Image::read(&library);
    let mut program = Program::new(&image);
    let mut starts = entries(&image);
    starts.insert("walk", image.addresses_of("sigprof::sample::handler::walk_and_store"));
    for (entry, limit) in STACKS {
        for &start in &starts[entry] {
            let (bytes, functions) = program.stack_of(start);
            let functions: Vec<&str> = functions.iter().map(|start| image.name_at(*start)).collect();
            println!("{entry}: {bytes} bytes by {functions:?}");
            assert!(bytes <= *limit, "{entry}: {bytes} bytes by {functions:?}");
        }
    }
}

/// Panics unless the table with first column `title` lists exactly the items that `select` returns
/// for each entry.
#[track_caller]
fn expect_listed(title: &str, library: &[u8], select: impl Fn(&Names<'_>, &Reached) -> Vec<(String, Place)>) {
    let path = repository_root().join("docs/signal-safety.md");
    let document = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let pointers = listed::rows(&document, "pointer");
    let image = Image::read(library);
    let names = Names::read(library, &image, repository_root());
    let mut program = Program::new(&image);
    let entries = entries(&image);
    let all: Vec<u64> = entries.values().flatten().copied().collect();
    let mut found = BTreeMap::new();
    for (from, starts) in &entries {
        let is_other = |start: u64| all.contains(&start) && !starts.contains(&start);
        let reached =
            program.reach(starts, &is_other, &|place| pointed(&image, &pointers, &names.site(place)));
        for (name, place) in select(&names, &reached) {
            let describe = || {
                let lines = names.lines(place).join("\n        in ");
                format!("{}\n        at {lines}", way(&image, &reached, place.function))
            };
            found.entry((name, *from)).or_insert_with(describe);
        }
    }
    let differences = listed::differences(&listed::rows(&document, title), &found);
    let count = differences.len();
    assert!(
        count == 0,
        "docs/signal-safety.md and the library differ in {count} places:\n{}",
        differences.join("\n")
    );
}

/// The addresses of each entry: the hooks, and the interposed async-signal-safe functions of libc.
fn entries(image: &Image) -> BTreeMap<&'static str, Vec<u64>> {
    let mut entries = BTreeMap::<&str, Vec<u64>>::new();
    let mut add = |from, name: &str| {
        let starts = image.addresses_of(name);
        assert!(!starts.is_empty(), "the library has no function {name}");
        entries.entry(from).or_default().extend(starts);
    };
    for (from, name) in HOOKS {
        add(from, name);
    }
    for name in image.exports() {
        match name.as_str() {
            "_exit" | "_Exit" => add("end", name),
            // Ordinary context.
            "dlclose" | "pthread_create" => {}
            _ if name.starts_with("Profil") => {}
            _ if name.starts_with("exec") || name == "fexecve" => add("exec", name),
            // All other interposed functions set something of the application's.
            _ => add("setting", name),
        }
    }
    entries
}

/// The library's own functions that, according to the table, the pointer at `site` calls.
fn pointed(image: &Image, pointers: &[Row], site: &str) -> Vec<u64> {
    let row = pointers.iter().filter(|row| row.names.iter().any(|name| name == site));
    let names = row.flat_map(|row| listed::quoted(&row.reason)).filter(|name| name.contains("::"));
    let starts = names.map(|name| {
        let starts = image.addresses_of(name);
        assert!(!starts.is_empty(), "the library has no function {name}, which docs/signal-safety.md names");
        starts
    });
    starts.flatten().collect()
}

/// A line for each function on the way to the one at `start`.
fn way(image: &Image, reached: &Reached, start: u64) -> String {
    let names = reached.way(start).into_iter().map(|start| format!("    {}", image.name_at(start)));
    names.collect::<Vec<_>>().join("\n")
}
