//! What the shared library shows to linkers and loaders.

use std::collections::BTreeSet;

use crate::support::{repository_root, run, shared_library, tool};

/// The dynamic symbols that the library defines are those of `cdylib/exports.txt`, no more and no fewer.
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

/// The library has the incumbent's soname and is never unloaded.
#[test]
fn the_library_is_named_as_the_incumbent_and_stays() {
    let dynamic = run(tool("readelf").arg("-dW").arg(shared_library())).expect_success().text();
    let entry =
        |tag: &str, value: &str| dynamic.lines().any(|line| line.contains(tag) && line.contains(value));
    assert!(entry("(SONAME)", "[libprofiler.so.0]"), "{dynamic}");
    assert!(entry("(FLAGS_1)", "NODELETE"), "{dynamic}");
}

/// The stack of a process must not become executable because our library is loaded into it.
#[test]
fn the_library_asks_for_no_executable_stack() {
    let headers = run(tool("readelf").arg("-lW").arg(shared_library())).expect_success().text();
    let stack = headers.lines().find(|line| line.contains("GNU_STACK")).expect("a GNU_STACK header");
    assert!(stack.contains("RW ") && !stack.contains("RWE"), "{stack}");
}

/// What the library calls and names of its own is its own: no relocation of it is by a name that it exports, which another
/// profiler in the program may have too. Its end would be the other's.
#[test]
fn the_library_uses_none_of_its_exports_by_name() {
    let exports = run(tool("nm").args(["-D", "--defined-only", "--format=posix"]).arg(shared_library()));
    let exports = exports.expect_success().text();
    let relocations = run(tool("readelf").arg("-rW").arg(shared_library())).expect_success().text();
    assert!(relocations.contains("getpid"), "no relocations are listed: {relocations}");
    // glibc's second name for `sigaction` stands in for a next definition, which a static program lacks; here there always is
    // one, and the pointer is not used.
    let names = exports.lines().filter_map(|line| line.split([' ', '@']).next());
    for name in names.filter(|name| *name != "__sigaction") {
        let uses = relocations.lines().find(|line| line.split_whitespace().nth(4) == Some(name));
        assert_eq!(uses, None, "{name}");
    }
}
