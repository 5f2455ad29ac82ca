//! Complete stacks through objects with call frame information that has no search table, or is not
//! mapped.

use std::path::{Path, PathBuf};

use crate::support::{
    Finished, Linkage, Profile, Record, Root, Scratch, Symbolizer, exit_code, plain, program_source,
    repository_root, run, shared_library, tool,
};
use object::{Object, ObjectSection};

/// Links a program or library without a search table of its `.eh_frame`.
const NO_TABLE: &str = "-Wl,--no-eh-frame-hdr";
/// Links a library that has only its source's code.
const ALONE: &str = "-nostdlib";

/// The sections of a file that have call frame information, sorted by name.
fn frame_sections(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = object::File::parse(bytes.as_slice()).expect("an ELF file");
    let filled = file.sections().filter(|section| section.size() > 0);
    let names = filled.map(|section| section.name().expect("a name").to_owned());
    let mut names: Vec<String> = names.filter(|name| name.contains("_frame")).collect();
    names.sort();
    names
}

/// Profiles a case of the compiled `programs/frame_tables.c`.
#[track_caller]
fn profile_case(scratch: &Scratch, program: &Path, case: &str, libraries: &[&Path]) -> (Finished, Profile) {
    let path = scratch.path("prof");
    let mut command = plain(program);
    let finished = run(command.env("CPUPROFILE_FREQUENCY", "1").arg(&path).arg(case).args(libraries));
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    (finished, Profile::read(&path))
}

/// Profiles a case in a program that has a search table, and opens libraries.
#[track_caller]
fn profile_opening(scratch: &Scratch, case: &str, libraries: &[&Path]) -> (Finished, Profile) {
    let program = scratch.compile("frame_tables.c", Linkage::Shared, &[]);
    profile_case(scratch, &program, case, libraries)
}

/// The number of samples with a stack through the relay to `main`. Panics if another stack leads
/// beyond the relay.
#[track_caller]
fn whole_through_relay(profile: &Profile) -> usize {
    let mut symbols = Symbolizer::default();
    let mut is_whole = |record: &Record| {
        let names = symbols.names(profile, record);
        let is_whole = symbols.calls(profile, record, &["ticks", "relay", "calls_relay", "main"])
            && symbols.root(profile, record) == Root::Process;
        assert!(is_whole || names.last().is_some_and(|name| name == "relay"), "{names:?}");
        is_whole
    };
    profile.records.iter().filter(|record| is_whole(record)).map(|record| record.count).sum()
}

/// Compiles `programs/relay.c` into the library `name`, described only in `.debug_frame`.
fn relay_library(scratch: &Scratch, frame: u32) -> PathBuf {
    let library = scratch.compile_library("relay.c", &[ALONE, &format!("-DFRAME={frame}")]);
    assert_eq!(frame_sections(&library), [".debug_frame"]);
    library
}

/// Compiler arguments that link `programs/relay.c` into a program, described in `section`.
fn with_relay(section: &str) -> [String; 2] {
    let source = program_source("relay.c").into_os_string().into_string();
    [format!("-DSECTION=\"{section}\""), source.expect("a path in UTF-8")]
}

#[track_caller]
fn expect_whole(scratch: &Scratch, program: &Path, sections: &[&str]) {
    assert_eq!(frame_sections(program), sections);
    let (_, profile) = profile_case(scratch, program, "linked", &[]);
    assert_eq!((profile.samples(), whole_through_relay(&profile)), (5, 5));
}

/// Links the program with the shared library, as PIE and not.
#[track_caller]
fn expect_whole_without_table(section: &str, sections: &[&str]) {
    let relay = with_relay(section);
    for place in ["-pie", "-no-pie"] {
        let scratch = Scratch::new();
        let flags = [place, NO_TABLE, &relay[0], &relay[1]];
        expect_whole(&scratch, &scratch.compile("frame_tables.c", Linkage::Shared, &flags), sections);
    }
}

#[test]
fn a_program_without_a_table_has_complete_stacks() {
    expect_whole_without_table(".eh_frame", &[".eh_frame"]);
}

/// The C functions are described in one section, the assembly function in the other.
#[test]
fn functions_described_in_the_unmapped_section_have_complete_stacks() {
    expect_whole_without_table(".debug_frame", &[".debug_frame", ".eh_frame"]);
}

/// The linker made the table's header, but no table, because an entry in the middle is unreadable.
#[test]
fn a_program_with_an_empty_table_has_complete_stacks() {
    let scratch = Scratch::new();
    let (unreadable, relay) = (program_source("unreadable_entry.c"), with_relay(".eh_frame"));
    let flags = [unreadable.to_str().expect("a path in UTF-8"), &relay[0], &relay[1]];
    let program = scratch.compile("frame_tables.c", Linkage::Shared, &flags);
    let header = |name: &str, size: u64| name == ".eh_frame_hdr" && size == 8;
    let bytes = std::fs::read(&program).expect("the program is there");
    let file = object::File::parse(bytes.as_slice()).expect("an ELF file");
    assert!(file.sections().any(|section| header(section.name().expect("a name"), section.size())));
    expect_whole(&scratch, &program, &[".eh_frame", ".eh_frame_hdr"]);
}

/// Under a filter that kills a process for `process_vm_readv`.
#[test]
fn a_program_without_a_table_has_complete_stacks_in_a_sandbox() {
    let scratch = Scratch::new();
    let relay = with_relay(".eh_frame");
    let program = scratch.compile("frame_tables.c", Linkage::Shared, &[NO_TABLE, &relay[0], &relay[1]]);
    let path = scratch.path("prof");
    let mut command = plain(scratch.compile("sandbox.c", Linkage::None, &[]));
    command.arg("kill").arg(program).arg(&path).arg("linked").env("CPUPROFILE_FREQUENCY", "1");
    run(&mut command).expect_success();
    let profile = Profile::read(&path);
    assert_eq!((profile.samples(), whole_through_relay(&profile)), (5, 5));
}

/// Both sections, without the loader's look-up: objects come from a snapshot.
#[test]
fn a_static_program_with_both_sections_has_complete_stacks() {
    for place in ["-static", "-static-pie"] {
        let scratch = Scratch::new();
        let program = scratch.path("frame_tables");
        let mut compiler = tool("gcc");
        compiler.args(["-std=c11", "-O2", "-g", place, NO_TABLE]).args(with_relay(".debug_frame"));
        compiler.arg("-I").arg(repository_root().join("include")).arg(program_source("frame_tables.c"));
        compiler.arg(shared_library().with_file_name("libprofiler.a"));
        compiler.args(["-lutil", "-lrt", "-lm", "-lpthread", "-ldl", "-o"]).arg(&program);
        run(&mut compiler).expect_success();
        expect_whole(&scratch, &program, &[".debug_frame", ".eh_frame"]);
    }
}

#[test]
fn a_library_without_a_table_has_complete_stacks() {
    let scratch = Scratch::new();
    let library = scratch.compile_library("relay.c", &[NO_TABLE, "-DSECTION=\".eh_frame\""]);
    assert_eq!(frame_sections(&library), [".eh_frame"]);
    let (_, profile) = profile_opening(&scratch, "opened-before", &[&library]);
    assert_eq!((profile.samples(), whole_through_relay(&profile)), (5, 5));
}

#[test]
fn a_library_described_in_the_unmapped_section_has_complete_stacks() {
    let scratch = Scratch::new();
    let (_, profile) = profile_opening(&scratch, "opened-before", &[&relay_library(&scratch, 64)]);
    assert_eq!((profile.samples(), whole_through_relay(&profile)), (5, 5));
}

/// The library runs no code when another is opened: its sections are read at the next flush.
#[test]
fn a_library_opened_while_profiling_is_known_after_a_flush() {
    let scratch = Scratch::new();
    let (_, profile) = profile_opening(&scratch, "flushed", &[&relay_library(&scratch, 64)]);
    assert_eq!(profile.samples(), 7);
    assert!(whole_through_relay(&profile) >= 5, "rules from before the flush are still in use");
}

/// Or when another library is closed.
#[test]
fn a_library_opened_while_profiling_is_known_after_a_close() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let libraries = [relay_library(&scratch, 64), relay_library(&other, 64)];
    let (_, profile) = profile_opening(&scratch, "other-closed", &[&libraries[0], &libraries[1]]);
    assert_eq!(profile.samples(), 7);
    assert!(whole_through_relay(&profile) >= 5, "rules from before the close are still in use");
}

/// Libraries that are loaded at the same addresses, one after another, have their own frames.
#[test]
fn another_library_at_the_same_addresses_has_its_own_frames() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (small, large) = (relay_library(&scratch, 64), relay_library(&other, 1024));
    let (finished, profile) = profile_opening(&scratch, "replaced", &[&small, &large]);
    assert_eq!(finished.text().lines().count(), 19, "the system loads each at addresses of its own");
    assert_eq!((profile.samples(), whole_through_relay(&profile)), (20, 20));
}
