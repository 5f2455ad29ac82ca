//! Code that is loaded at run time: its frames, and its entries in the list of mapped objects.
//!
//! # Safety
//! Calls functions of `programs/frames.c` by their types, and unloads them when none is running.
#![cfg(feature = "runtime")]
#![allow(unsafe_code)]

mod support;

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::hint::black_box;
use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use sigprof::format::{CpuProfile, Mapping};
use sigprof::{Pc, Profile};
use support::{
    Library, compile_library, in_own_process, is_called, mappings_of, names_of, object_at, read_profile,
    signals::{quiet_builder, raise_tick, set_profiling_timer},
    symbol_at,
};

type Callback = extern "C" fn();
type CallsBack = extern "C" fn(Callback, usize) -> libc::c_int;

/// The functions that call back, with all kinds of frames; only the last one needs a table.
const FRAMES: [&CStr; 5] = [c"realigned", c"variable", c"large", c"all_saved", c"realigned_variable"];
/// The argument of each call.
const SIZES: [usize; 4] = [1, 100, 4096, 10_000];

fn calls_back(library: &Library, name: &CStr) -> CallsBack {
    // SAFETY: the function has this type in its source.
    unsafe { mem::transmute::<*mut libc::c_void, CallsBack>(library.symbol(name)) }
}

extern "C" fn tick() {
    raise_tick();
}

/// Calls each function with each size; each call is a tick. Returns the number of ticks.
#[inline(never)]
fn calls_each(library: &Library, names: &[&CStr]) -> u64 {
    for name in names {
        for size in SIZES {
            black_box(calls_back(library, name)(tick, size));
        }
    }
    (names.len() * SIZES.len()) as u64
}

fn is_in(pc: Pc, function: &str) -> bool {
    names_of(pc, false).iter().any(|name| is_called(name, function))
}

/// True if the chain has the callback, the library's function, and [`calls_each`], in a row.
fn leads_through(chain: &[Pc], function: &str) -> bool {
    let Some(callback) = chain.iter().position(|&pc| is_in(pc, "tick")) else { return false };
    let [_, in_library, caller, ..] = chain[callback..] else { return false };
    symbol_at(in_library.address_for_lookup(false)) == function && is_in(caller, "calls_each")
}

#[test]
fn walks_lead_through_frames_of_all_kinds() {
    in_own_process("walks_lead_through_frames_of_all_kinds", || {
        let directory = tempfile::tempdir().unwrap();
        // With call frame information, and without it: then by the frame pointer.
        let no_tables = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer"];
        let variants: [(&str, &[&str], bool); 5] = [
            ("plain.so", &["-O0"], false),
            ("optimized.so", &["-O2"], false),
            ("small.so", &["-Os", "-mno-red-zone"], false),
            ("pushing.so", &["-O2", "-maccumulate-outgoing-args", "-fno-omit-frame-pointer"], false),
            ("bare.so", &[&["-O1"][..], &no_tables].concat(), true),
        ];
        let is_aarch64 = cfg!(target_arch = "aarch64");
        for (name, flags, is_bare) in variants {
            // There gcc stores the frame pointer anywhere in a frame: it leads to the caller, but
            // not to the caller's stack pointer, which the callers' tables need.
            if is_bare && is_aarch64 {
                continue;
            }
            // Without the flags of x86.
            let is_known = |flag: &&&str| !(is_aarch64 && flag.starts_with("-m"));
            let flags: Vec<&str> = flags.iter().filter(is_known).copied().collect();
            let flags = flags.as_slice();
            let library = Library::open(&compile_library("frames.c", flags, directory.path(), name));
            let profiler = quiet_builder().start_in_memory().unwrap();
            // No timer tick disturbs the counts, here and below.
            set_profiling_timer(0);
            let names = if is_bare { &FRAMES[..4] } else { &FRAMES };
            let calls = calls_each(&library, names);
            let profile = profiler.stop().unwrap();
            let summary = profile.summary();
            assert_eq!((summary.samples, summary.walks.complete), (calls, calls), "{name}: {summary:?}");
            assert_eq!(summary.frames_without_rule, if is_bare { calls } else { 0 }, "{name}");
            for function in names {
                let function = function.to_str().unwrap();
                let through =
                    profile.samples().iter().filter(|sample| leads_through(&sample.chain, function));
                let through: u64 = through.map(|sample| sample.count).sum();
                assert_eq!(through, SIZES.len() as u64, "{name}: {function}");
            }
        }
    });
}

/// A function that has no tables but keeps a frame pointer.
static BARE: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

extern "C" fn calls_bare() {
    // SAFETY: the test stores a function of this type.
    let bare = unsafe { mem::transmute::<*mut libc::c_void, CallsBack>(BARE.load(Ordering::SeqCst)) };
    black_box(bare(tick, 1));
}

/// A frame pointer leads from code without tables to the program's code, where tables are used. The
/// next caller is in a library that may be unloaded at any time, so the walk ends there. (The
/// shared library sees unloads and continues: `cdylib/tests/gate/odd_code.rs`.)
#[test]
fn a_guess_ends_before_a_library_that_may_go() {
    in_own_process("a_guess_ends_before_a_library_that_may_go", || {
        let directory = tempfile::tempdir().unwrap();
        let compile =
            |name, flags: &[&str]| Library::open(&compile_library("frames.c", flags, directory.path(), name));
        let no_tables = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
        let bare = compile("bare.so", &[&["-O1", "-fno-omit-frame-pointer"][..], &no_tables].concat());
        BARE.store(bare.symbol(c"large"), Ordering::SeqCst);
        let optimized = compile("optimized.so", &["-O2", "-fomit-frame-pointer"]);
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        black_box(calls_back(&optimized, c"all_saved")(calls_bare, 1));
        let profile = profiler.stop().unwrap();
        let summary = profile.summary();
        assert_eq!(summary.frames_without_rule, 1, "{summary:?}");
        // Counted as truncated; the reason differs on i386.
        assert_eq!(
            (summary.samples, summary.walks.total(), summary.walks.complete),
            (1, 1, 0),
            "{summary:?}"
        );
        let chain = &profile.samples()[0].chain;
        assert!(chain.iter().any(|&pc| is_in(pc, "calls_bare")), "{chain:x?}");
        // The caller of the program's function is known; its caller is not.
        assert_eq!(symbol_at(chain.last().unwrap().address_for_lookup(false)), "all_saved", "{chain:x?}");
    });
}

/// Without tables and frame pointers the walk stops, and the frames so far are kept.
#[test]
fn counts_walks_through_code_without_tables_and_frame_pointers() {
    in_own_process("counts_walks_through_code_without_tables_and_frame_pointers", || {
        let directory = tempfile::tempdir().unwrap();
        let flags = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer"];
        let library = Library::open(&compile_library("frames.c", &flags, directory.path(), "lost.so"));
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        let calls = calls_each(&library, &FRAMES);
        let profile = profiler.stop().unwrap();
        let summary = profile.summary();
        assert_eq!((summary.samples, summary.walks.total()), (calls, calls), "{summary:?}");
        assert!(summary.frames_without_rule >= calls);
        for sample in profile.samples() {
            let callback = sample.chain.iter().position(|&pc| is_in(pc, "tick")).expect("the callback");
            let function = symbol_at(sample.chain[callback + 1].address_for_lookup(false));
            assert!(FRAMES.iter().any(|name| name.to_str() == Ok(&function)), "{function}");
        }
    });
}

/// Loads the library, sends ticks from each function, and unloads it. Returns the address of a
/// function and the number of ticks.
fn tick_in(path: &Path) -> (usize, u64) {
    let library = Library::open(path);
    let start = library.symbol(FRAMES[0]) as usize;
    let calls = calls_each(&library, &FRAMES);
    // SAFETY: the functions have returned.
    unsafe { library.close() };
    assert_eq!(symbol_at(start), "", "the code is still there");
    (start, calls)
}

/// Returns the executable mapping of the file `name`.
fn mapping_of<'m>(mappings: &'m [Mapping<'static>], name: &str) -> Option<&'m Mapping<'static>> {
    let name = format!("/{name}");
    mappings.iter().find(|mapping| mapping.is_executable() && mapping.path.ends_with(name.as_bytes()))
}

fn is_mapped_now(address: usize) -> bool {
    let maps = fs::read("/proc/self/maps").unwrap();
    maps.split(|&byte| byte == b'\n')
        .filter_map(Mapping::parse_line)
        .any(|mapping| mapping.contains(address as u64))
}

/// Sums the samples with a PC in the mapping.
fn samples_through(profile: &Profile, mapping: &Mapping<'_>) -> u64 {
    let is_within = |pc: &Pc| mapping.contains(pc.address() as u64);
    let through = profile.samples().iter().filter(|sample| sample.chain.iter().any(is_within));
    through.map(|sample| sample.count).sum()
}

#[test]
fn lists_code_that_was_unloaded_before_the_stop() {
    in_own_process("lists_code_that_was_unloaded_before_the_stop", || {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cpu.prof");
        let plugin = compile_library("frames.c", &["-O2"], directory.path(), "plugin.so");

        let profiler = quiet_builder().start(&file).unwrap();
        set_profiling_timer(0);
        let (start, calls) = tick_in(&plugin);
        assert!(!is_mapped_now(start));
        let summary = profiler.stop().unwrap();
        assert_eq!((summary.samples, summary.walks.complete), (calls, calls));
        let profile: CpuProfile = read_profile(&file);
        let mapping = mapping_of(&profile.mappings, "plugin.so").expect("the file lists it");
        assert!(mapping.contains(start as u64));
        let within =
            profile.records.iter().filter(|record| record.pcs.iter().any(|&pc| mapping.contains(pc)));
        assert_eq!(within.map(|record| record.count).sum::<u64>(), calls);

        // The same in memory.
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        let (start, calls) = tick_in(&plugin);
        let profile = profiler.stop().unwrap();
        let mappings = mappings_of(&profile);
        let mapping = mapping_of(&mappings, "plugin.so").expect("the profile lists it");
        assert!(mapping.contains(start as u64));
        assert_eq!(samples_through(&profile, mapping), calls);
    });
}

/// Code that is still loaded has one entry, the kernel's.
#[test]
fn lists_code_that_is_still_loaded_once() {
    in_own_process("lists_code_that_is_still_loaded_once", || {
        // Started before the library is loaded: the handler records each object that it samples.
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        let directory = tempfile::tempdir().unwrap();
        let path = compile_library("frames.c", &["-O2"], directory.path(), "plugin.so");
        let library = Library::open(&path);
        let calls = calls_each(&library, &FRAMES);
        let profile = profiler.stop().unwrap();
        assert_eq!(profile.summary().walks.complete, calls);
        let mappings = mappings_of(&profile);
        let executable = mappings
            .iter()
            .filter(|mapping| mapping.is_executable() && mapping.path.ends_with(b"/plugin.so"));
        assert_eq!(executable.count(), 1);
        for (i, mapping) in mappings.iter().enumerate() {
            assert!(mappings[..i].iter().all(|other| !other.overlaps(mapping)), "{mapping:?}");
        }
    });
}

/// Profiles two libraries in turn at the same addresses, as in a program that reloads plug-ins.
/// Passes each profile to `check`, with the library's name and the PCs from the callback outwards.
fn with_reloaded_libraries(check: impl Fn(&Profile, &str, &[&[Pc]])) {
    let directory = tempfile::tempdir().unwrap();
    // The same code, with other frame sizes.
    let variants = [("first.so", "-DBLOCK=2048"), ("second.so", "-DBLOCK=1024")];
    let paths =
        variants.map(|(name, size)| compile_library("frames.c", &["-O2", size], directory.path(), name));
    let mut profiles = Vec::new();
    let mut places = HashSet::new();
    for path in paths.iter().chain(&paths) {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        let library = Library::open(path);
        places.insert(library.symbol(c"large").addr());
        calls_each(&library, &FRAMES);
        // SAFETY: none of its functions is running.
        unsafe { library.close() };
        profiles.push((path.file_name().and_then(|name| name.to_str()).unwrap(), profiler.stop().unwrap()));
    }
    assert_eq!(places.len(), 1, "the system loads each at addresses of its own: nothing is shown");
    for (name, profile) in &profiles {
        let chains: Vec<&[Pc]> = profile
            .samples()
            .iter()
            .map(|sample| {
                let callback = sample.chain.iter().position(|&pc| is_in(pc, "tick")).expect("the callback");
                &sample.chain[callback..]
            })
            .collect();
        check(profile, name, &chains);
    }
}

#[test]
fn another_library_at_the_same_addresses_has_its_own_frames() {
    in_own_process("another_library_at_the_same_addresses_has_its_own_frames", || {
        with_reloaded_libraries(|profile, name, chains| {
            let summary = profile.summary();
            assert_eq!(summary.walks.complete, summary.samples, "{name}: {summary:?}");
            for chain in chains {
                assert!(chain.len() > 2 && is_in(chain[2], "calls_each"), "{name}: {chain:x?}");
            }
        });
    });
}

#[test]
fn another_library_at_the_same_addresses_is_listed() {
    in_own_process("another_library_at_the_same_addresses_is_listed", || {
        with_reloaded_libraries(|profile, name, chains| {
            let mappings = mappings_of(profile);
            for chain in chains {
                assert_eq!(object_at(&mappings, chain[1]), name);
            }
        });
    });
}

#[test]
fn a_report_names_code_that_was_loaded_after_an_earlier_one() {
    in_own_process("a_report_names_code_that_was_loaded_after_an_earlier_one", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        raise_tick();
        let report = profiler.stop().unwrap().report();
        assert!(report.functions().iter().any(|function| is_called(&function.name, "raise_tick")));

        let directory = tempfile::tempdir().unwrap();
        let library = Library::open(&compile_library("frames.c", &["-O2"], directory.path(), "plugin.so"));
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        calls_each(&library, &FRAMES);
        let report = profiler.stop().unwrap().report();
        for name in FRAMES {
            let is_named = |function: &sigprof::FunctionTime| function.name.as_bytes() == name.to_bytes();
            let found = report.functions().iter().find(|function| is_named(function));
            assert_eq!(found.map(|function| function.cumulative), Some(4), "{name:?}: {report}");
        }
    });
}

/// Calls back through the library's assembler function: one tick.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn calls_relay(library: &Library) -> libc::c_int {
    extern "C" fn tick_of(_argument: libc::c_int) -> libc::c_int {
        raise_tick();
        0
    }
    type Relay = extern "C" fn(extern "C" fn(libc::c_int) -> libc::c_int, libc::c_int) -> libc::c_int;
    // SAFETY: the function has this type in its source.
    let relay = unsafe { mem::transmute::<*mut libc::c_void, Relay>(library.symbol(c"relay")) };
    black_box(relay(tick_of, 0))
}

/// The crate does not learn that a library is unloaded. Frames of the old library are not used for
/// another one at its addresses: until the next start, walks stop in the new one.
#[test]
#[cfg(target_arch = "x86_64")]
fn does_not_reuse_frames_of_an_unloaded_library() {
    in_own_process("does_not_reuse_frames_of_an_unloaded_library", || {
        let directory = tempfile::tempdir().unwrap();
        let open = |name, size| {
            let source = "../../cdylib/tests/programs/relay.c";
            Library::open(&compile_library(source, &["-nostdlib", size], directory.path(), name))
        };
        let small = open("small.so", "-DFRAME=64");
        let place = small.symbol(c"relay");
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        calls_relay(&small);
        assert_eq!(profiler.snapshot().unwrap().summary().walks.complete, 1);
        // SAFETY: its function has returned.
        unsafe { small.close() };
        let large = open("large.so", "-DFRAME=1024");
        assert_eq!(large.symbol(c"relay"), place, "it is loaded elsewhere: nothing is shown");
        calls_relay(&large);
        let profile = profiler.stop().unwrap();
        let relays = |chain: &[Pc]| {
            chain.iter().filter(|pc| symbol_at(pc.address_for_lookup(false)) == "relay").count()
        };
        let cut =
            profile.samples().iter().find(|sample| relays(&sample.chain[sample.chain.len() - 1..]) == 1);
        assert_eq!(relays(&cut.expect("a chain that ends in the library").chain), 1);

        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        calls_relay(&large);
        assert_eq!(profiler.stop().unwrap().summary().walks.complete, 1);
    });
}
