//! Libraries that come and go under ticks: no chain is walked by the rules of another library that was there before,
//! and looking up code that is just going is no fault. And the loader finds what it found without us.

mod support;

use std::path::Path;

use support::{Finished, Linkage, Profile, Record, Root, Scratch, Symbolizer, plain, preload, profiled, run};

/// What a run of `programs/unloading.c` tells.
struct Told {
    /// The library's first address.
    library: usize,
    rounds: usize,
    at_same_place: usize,
    /// The page of code without call frame information.
    guess_page: usize,
}

/// How many there are, unless the machine is busy.
const MOST_ROUNDS: usize = 3000;

/// Runs `programs/unloading.c` with two libraries that differ in the sizes of their frames.
#[track_caller]
fn run_unloading(scratch: &Scratch, more: &[&str]) -> (Told, Profile) {
    let [first, second] = ["2048", "1024"].map(|block| {
        // The compiler's own start files have code without call frame information, and ticks come there, too.
        let flags = ["-nostartfiles", &format!("-DBLOCK={block}")];
        let library = scratch.compile_library("unloaded.c", &flags);
        let path = scratch.path(&format!("with_{block}.so"));
        std::fs::rename(library, &path).expect("our own directory");
        path
    });
    let program = scratch.compile("unloading.c", Linkage::None, &[]);
    let path = scratch.path("prof");
    let mut command = profiled(program, &path);
    command.env("CPUPROFILE_FREQUENCY", "4000");
    command.arg(first).arg(second).arg(MOST_ROUNDS.to_string()).args(more);
    let finished = run(&mut command).expect_success();
    // The end line says so when ticks were lost.
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    let told = tell(&finished);
    // Any mapping that the loader or the C library makes meanwhile may take the place, and give it back later.
    assert!(
        told.at_same_place > told.rounds / 2,
        "only {} times of {}: nothing is shown",
        told.at_same_place,
        told.rounds
    );
    (told, Profile::read(&path))
}

fn tell(finished: &Finished) -> Told {
    let text = finished.text();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let hex = |text: &str| usize::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address");
    let [library, rounds, at_same_place, guess_page] = fields[..] else { panic!("{text}") };
    let [rounds, at_same_place] = [rounds, at_same_place].map(|count| count.parse().expect("a number"));
    Told { library: hex(library), rounds, at_same_place, guess_page: hex(guess_page) }
}

/// The functions of the library in the order of the chain, and what must follow on them, outwards.
const CALLERS: [(&str, &str); 4] = [
    ("innermost", "in_library"),
    ("in_library", "use_library"),
    // Stripped, so named by their files: the loader calls them.
    ("on_load", "ld-linux"),
    ("on_unload", "ld-linux"),
];

/// Panics unless each frame in the library has its caller next, and the chain leads to the program's start. Gives the
/// innermost of the library's functions in the chain.
#[track_caller]
fn expect_right_chain(symbols: &mut Symbolizer, profile: &Profile, record: &Record) -> Option<&'static str> {
    let names = symbols.names(profile, record);
    let mut found = None;
    for (i, name) in names.iter().enumerate() {
        let Some((function, caller)) = CALLERS.iter().find(|(function, _)| name == function) else {
            continue;
        };
        let next = names.get(i + 1).map_or("nobody", String::as_str);
        assert!(next.contains(caller), "{function} was called by {next}: {names:?}");
        found = found.or(Some(*function));
    }
    if found.is_some() {
        assert_eq!(symbols.root(profile, record), Root::Process, "{names:?}");
    }
    found
}

/// Checks all chains that do not come from guessed frames. Gives the number of ticks in the innermost function, which
/// only other threads and the timer send.
#[track_caller]
fn expect_right_chains(told: &Told, profile: &Profile) -> usize {
    let library = told.library..told.library + 0x5000;
    let mut symbols = Symbolizer::default();
    let mut counts = [0; CALLERS.len()];
    for record in &profile.records {
        if is_guessed(told, record) {
            continue;
        }
        let found = expect_right_chain(&mut symbols, profile, record);
        let in_library = record.pcs.iter().any(|pc| library.contains(pc));
        // The other way round it may be otherwise: in a few rounds the library is elsewhere.
        assert!(!in_library || found.is_some(), "{:?}", symbols.names(profile, record));
        if let Some(place) = CALLERS.iter().position(|(function, _)| Some(*function) == found) {
            counts[place] += record.count;
        }
    }
    // One tick in each round is sent by the library's constructor, by its destructor, and in the callback. They are
    // not lost, since nobody else holds slots for long; what the storm adds depends on the machine.
    for (place, (function, _)) in CALLERS.iter().enumerate().skip(1) {
        assert!(counts[place] >= told.rounds, "{function}: {} of {}", counts[place], told.rounds);
    }
    counts[0]
}

fn is_guessed(told: &Told, record: &Record) -> bool {
    (told.guess_page..told.guess_page + 4096).contains(&record.pcs[0])
}

/// Fails when `while_unloading` in `src/interface/objects.rs` leaves out `engine.rules().retain(..)`: `in_library` was called
/// by whatever stands in the middle of its frame.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_chain_is_walked_by_the_rules_of_a_library_that_is_gone() {
    let scratch = Scratch::new();
    let (told, profile) = run_unloading(&scratch, &[]);
    assert!(expect_right_chains(&told, &profile) > 0, "no tick came to the innermost function");
}

/// Fails, by SIGSEGV, when `Gate::unload` in `src/sample/unwind/gate.rs` does not close the gate and wait.
#[test]
#[cfg(target_arch = "x86_64")]
fn code_that_is_just_being_unloaded_can_be_looked_up() {
    let scratch = Scratch::new();
    let (told, profile) = run_unloading(&scratch, &["guess"]);
    expect_right_chains(&told, &profile);
    let guessed: Vec<&Record> = profile.records.iter().filter(|record| is_guessed(&told, record)).collect();
    let library = told.library..told.library + 0x5000;
    let led_on: usize = guessed
        .iter()
        .filter(|record| record.pcs.get(1).is_some_and(|pc| library.contains(pc)))
        .map(|record| record.count)
        .sum();
    assert!(led_on > told.rounds, "{led_on} guesses led into the library");
}

/// Compiles a library that opens another by its bare name, which only its own RUNPATH leads to, and the program.
fn opening_by_runpath(scratch: &Scratch) -> [std::path::PathBuf; 2] {
    let inner = scratch.compile_library("plugin_tick.c", &[]);
    let below = scratch.directory("below");
    std::fs::rename(&inner, below.join("libplugin_tick.so")).expect("our own directory");
    let opener = scratch.compile_library("opener.c", &["-Wl,-rpath,$ORIGIN/below", "-Wl,--enable-new-dtags"]);
    [scratch.compile("opens_by_name.c", Linkage::None, &[]), opener]
}

/// The loader looks for a library where its caller's RUNPATH says; a `dlopen` of ours would be the caller.
#[test]
fn a_library_is_found_through_its_callers_own_runpath() {
    let scratch = Scratch::new();
    let [program, opener] = opening_by_runpath(&scratch);
    let arguments = [opener.as_os_str(), "libplugin_tick.so".as_ref()];
    run(plain(&program).args(arguments)).expect_success();
    run(preload(&program).args(arguments)).expect_success();
    run(profiled(&program, &scratch.path("prof")).args(arguments)).expect_success();
    Profile::read(&scratch.path("prof"));
}

/// What the test above is there for: with a `dlopen` in front of the C library's, that library is not found.
#[test]
fn a_wrapped_dlopen_does_not_find_the_library() {
    let scratch = Scratch::new();
    let [program, opener] = opening_by_runpath(&scratch);
    let wrapper = scratch.compile_library("dlopen_wrapper.c", &[]);
    let mut command = plain(&program);
    command.env("LD_PRELOAD", &wrapper).args([opener.as_os_str(), "libplugin_tick.so".as_ref()]);
    let finished = run(&mut command);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
    assert!(finished.text().contains("libplugin_tick.so"), "{}", finished.text());
    assert!(Path::new(&opener).exists());
}
