//! The shared library, as linkers and loaders see it.

use std::collections::BTreeSet;

use crate::support::{repository_root, run, shared_library, tool};

#[test]
fn the_exports_are_the_committed_list() {
    let path = repository_root().join("cdylib/exports.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let listed: BTreeSet<&str> = lines.filter(|line| !line.is_empty()).collect();

    let mut nm = tool("nm");
    let table = run(nm.args(["-D", "--defined-only", "--format=posix"]).arg(shared_library()))
        .expect_success()
        .text();
    let defined: BTreeSet<&str> = table.lines().filter_map(|line| line.split([' ', '@']).next()).collect();
    assert_eq!(defined, listed);
}

#[test]
fn the_library_has_the_soname_of_gperftools_and_is_never_unloaded() {
    let dynamic = run(tool("readelf").arg("-dW").arg(shared_library())).expect_success().text();
    let entry =
        |tag: &str, value: &str| dynamic.lines().any(|line| line.contains(tag) && line.contains(value));
    assert!(entry("(SONAME)", "[libprofiler.so.0]"), "{dynamic}");
    assert!(entry("(FLAGS_1)", "NODELETE"), "{dynamic}");
}

#[test]
fn the_library_requires_no_executable_stack() {
    let headers = run(tool("readelf").arg("-lW").arg(shared_library())).expect_success().text();
    let stack = headers.lines().find(|line| line.contains("GNU_STACK")).expect("a GNU_STACK header");
    assert!(stack.contains("RW ") && !stack.contains("RWE"), "{stack}");
}

/// No relocation of the library is by a name that it exports: another profiler in the program may
/// define the same name.
#[test]
fn the_library_uses_none_of_its_exports_by_name() {
    let exports = run(tool("nm").args(["-D", "--defined-only", "--format=posix"]).arg(shared_library()));
    let exports = exports.expect_success().text();
    let relocations = run(tool("readelf").arg("-rW").arg(shared_library())).expect_success().text();
    assert!(relocations.contains("getpid"), "no relocations are listed: {relocations}");
    // `__sigaction` replaces a missing next definition of `sigaction` in static programs. Here
    // there always is one, and the pointer is not used.
    let names = exports.lines().filter_map(|line| line.split([' ', '@']).next());
    for name in names.filter(|name| *name != "__sigaction") {
        let uses = relocations.lines().find(|line| line.split_whitespace().nth(4) == Some(name));
        assert_eq!(uses, None, "{name}");
    }
}
