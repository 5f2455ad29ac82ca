//! Malicious inputs: none makes memory exceed the bounds in `analysis/src/formats/mod.rs` and
//! `analysis/src/symbolize/mod.rs`.
//!
//! The command reads each input in its own process, and the kernel reports its peak of resident
//! memory. The peak includes the memory of the parent at the start, so inputs are written to files
//! in pieces. The backtrace of a failed test needs memory, so later figures are unreliable.

use std::{
    fs::{self, File},
    io::{BufWriter, Read as _, Result, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::tier::is_full;

mod databases;
mod elf;
mod inputs;

/// The constant part of the bound: program, libraries, buffers, expressions, the test's memory.
const BASE: u64 = 32 << 20;
/// For each byte of an uncompressed profile.
const FACTOR: u64 = 32;
/// For folded stacks and `perf script`, in which four bytes can be a frame of a new function.
const FACTOR_OF_TEXT: u64 = 192;

struct Outcome {
    status: Option<i32>,
    messages: String,
    peak: u64,
}

#[expect(unsafe_code, reason = "no safe wrapper gives what one child has used")]
#[expect(clippy::zombie_processes, reason = "it is waited for by `wait4`, which tells that")]
fn run(arguments: &[&std::ffi::OsStr]) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sigprof"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut messages = String::new();
    child.stderr.take().expect("is piped").read_to_string(&mut messages).expect("is text");
    let pid = i32::try_from(child.id()).expect("a process id");
    let mut status = 0;
    // SAFETY: all zeros are a valid `rusage`: it only has numbers.
    let mut usage: nix::libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointers are to locals; `Child` does not wait for the child by itself.
    let waited = unsafe { nix::libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, pid, "{}", std::io::Error::last_os_error());
    let status = nix::libc::WIFEXITED(status).then(|| nix::libc::WEXITSTATUS(status));
    Outcome { status, messages, peak: usage.ru_maxrss as u64 * 1024 }
}

/// Writes an input with `fill`; returns its path and length.
fn input(directory: &Path, name: &str, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> (PathBuf, u64) {
    let path = directory.join(name);
    let mut out = BufWriter::new(File::create(&path).expect("is created"));
    fill(&mut out).and_then(|()| out.flush()).expect("is written");
    drop(out);
    let length = fs::metadata(&path).expect("is there").len();
    (path, length)
}

/// Makes the command read an input of `size` bytes within `most` bytes; returns its messages.
fn hold(name: &str, arguments: &[&std::ffi::OsStr], size: u64, most: u64) -> String {
    let Outcome { status, messages, peak } = run(arguments);
    let factor = peak.saturating_sub(20 << 20) as f64 / size as f64;
    println!(
        "{name:32} {size:9} bytes, {:4} MiB, about {factor:.0} a byte: {}",
        peak >> 20,
        messages.trim_end()
    );
    assert!(matches!(status, Some(0 | 1)), "{name}: {status:?}: {messages}");
    assert!(!messages.contains("panicked"), "{name}: {messages}");
    assert!(peak <= most, "{name}: {peak} bytes of memory for {size}, where {most} are allowed");
    messages
}

/// Makes `sigprof top` read a profile; returns its messages.
fn top(name: &str, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> String {
    top_within(FACTOR, name, fill)
}

/// The same, with `factor` bytes of memory for each byte.
fn top_within(factor: u64, name: &str, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> String {
    let scratch = tempfile::tempdir().expect("a directory");
    let (path, size) = input(scratch.path(), name, fill);
    hold(name, &["top".as_ref(), path.as_ref()], size, BASE + factor * size)
}

/// An input and its name in messages.
type Input = (&'static str, fn(&mut dyn Write) -> Result<()>);

/// Makes `sigprof top` read each input within `factor`, without output on stderr.
fn expect_silence(factor: u64, inputs: &[Input]) {
    for (name, fill) in inputs {
        assert_eq!(top_within(factor, name, fill), "", "{name}");
    }
}

#[test]
fn protobuf_of_tiny_parts() {
    expect_silence(
        FACTOR,
        &[
            ("empty texts", inputs::empty_texts),
            ("functions", inputs::functions),
            ("locations", inputs::locations),
            ("locations backwards", inputs::locations_backwards),
            ("lines", inputs::lines),
            ("mappings", inputs::mappings),
            ("samples", inputs::samples),
            ("deep chain", inputs::deep_chain),
        ],
    );
}

#[test]
fn concatenated_profiles() {
    expect_silence(
        FACTOR,
        &[("protobuf", inputs::tiny_profiles), ("CPU profiles", inputs::tiny_cpu_profiles)],
    );
}

#[test]
fn protobuf_with_many_labels() {
    expect_silence(
        FACTOR,
        &[
            ("labels of one sample", inputs::labels_of_one_sample),
            ("sets of labels", inputs::sets_of_labels),
            ("a long text in each set", inputs::sets_with_a_long_text),
        ],
    );
}

#[test]
fn protobuf_with_repeated_references() {
    assert!(top("types", inputs::types).contains("sample types, more than 256"));
    assert_eq!(top("comments", inputs::comments), "");
    assert!(top("paths", inputs::mappings_of_one_path).contains("the paths of all mappings have more than"));
    assert!(top("expression", inputs::long_expression).contains("more than 16384"));
    assert!(top("values", inputs::too_many_values).contains("values, but the profile has 1 sample types"));
}

#[test]
fn cpu_profiles() {
    assert_eq!(top("records", inputs::records), "");
    assert!(top("depth", inputs::claimed_depth).contains("depth"));
    assert!(top("header", inputs::claimed_header).starts_with("sigprof: "));
    assert!(top("counts", inputs::large_counts).contains("exceeds 64 bits"));
    assert_eq!(top("maps", inputs::short_maps), "");
    assert_eq!(top("maps of the other form", inputs::short_maps_with_ids), "");
}

#[test]
fn texts() {
    expect_silence(
        FACTOR_OF_TEXT,
        &[
            ("folded lines", inputs::folded_lines),
            ("folded stack", inputs::folded_stack),
            ("folded stacks without names", inputs::folded_without_names),
            ("addresses of perf script", inputs::script_addresses),
            ("symbols of perf script", inputs::script_symbols),
            ("threads of perf script", inputs::script_threads),
        ],
    );
}

#[test]
fn java_dialect() {
    expect_silence(FACTOR, &[("names", inputs::java), ("lines that name nothing", inputs::java_lines)]);
}

#[test]
fn spools() {
    top("spool", inputs::spool);
    assert_eq!(top("spool that claims much", inputs::spool_that_claims_much), "");
}

#[test]
fn gzip() {
    let scratch = tempfile::tempdir().expect("a directory");
    let most = |size: u64| BASE + 2 * (50 * size + (4 << 20));
    for (name, fill, reason) in [
        ("bomb", inputs::bomb as fn(&mut dyn Write) -> Result<()>, "expand to more than"),
        ("members", inputs::bomb_of_members, "expand to more than"),
        ("nested", inputs::nested_bomb, "unrecognised format"),
    ] {
        let (path, size) = input(scratch.path(), name, fill);
        let messages = hold(name, &["top".as_ref(), path.as_ref()], size, most(size));
        assert!(messages.contains(reason), "{messages}");
    }
    // Data within the compression bounds counts uncompressed.
    let (path, size) = input(scratch.path(), "packed", inputs::packed_locations);
    let unpacked = inputs::SIZE as u64;
    assert!(size < unpacked / 2, "{size} bytes");
    hold("packed", &["top".as_ref(), path.as_ref()], unpacked, BASE + FACTOR * unpacked);
}

#[test]
fn maps_of_generated_code() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (profile, profile_size) = input(scratch.path(), "profile", inputs::generated_code);
    fs::create_dir(scratch.path().join("tmp")).expect("is made");
    for (name, fill) in [
        ("one long line", inputs::perf_map_of_one_line as fn(&mut dyn Write) -> Result<()>),
        ("lines around all", inputs::perf_map_around_all),
        ("short lines", inputs::perf_map_of_short_lines),
    ] {
        let (_, size) = input(&scratch.path().join("tmp"), "perf-7.map", fill);
        let size = size + profile_size;
        let arguments =
            ["top".as_ref(), "--sysroot".as_ref(), scratch.path().as_os_str(), profile.as_os_str()];
        assert_eq!(hold(name, &arguments, size, BASE + FACTOR * size), "");
    }
}

#[test]
fn databases_of_hpctoolkit() {
    for (name, contexts, reason) in [
        ("chain", databases::chain as databases::Contexts, "need more memory than 16 times the size"),
        ("shared", databases::shared, "has a cycle, or two parents have the same children"),
        ("siblings", databases::siblings, ""),
    ] {
        let scratch = tempfile::tempdir().expect("a directory");
        let size = databases::write(scratch.path(), contexts);
        let messages = hold(name, &["top".as_ref(), scratch.path().as_ref()], size, BASE + FACTOR * size);
        assert!(messages.contains(reason) && messages.is_empty() == reason.is_empty(), "{name}: {messages}");
        let check = ["hpctoolkit".as_ref(), "check".as_ref(), scratch.path().as_os_str()];
        hold(name, &check, size, BASE + FACTOR_OF_CHECK * size);
    }
}

/// For a byte of a database that is checked: its values are kept, and the violations.
const FACTOR_OF_CHECK: u64 = 32;

/// For each byte of an object.
const OBJECT_FACTOR: u64 = 256;
/// For each address: the calls inlined there.
const ADDRESS_BYTES: u64 = 16 << 10;

#[test]
fn objects() {
    // Each address is looked up separately.
    let addresses = if is_full() { 2000 } else { 500 };
    let scratch = tempfile::tempdir().expect("a directory");
    let (profile, profile_size) =
        input(scratch.path(), "profile", |out| inputs::profile_of_object(out, addresses as u64));
    type Make = fn(usize) -> Vec<u8>;
    let objects: [(&str, Make); 11] = [
        ("sections that claim much", elf::claims),
        ("abbreviations", elf::abbreviations),
        ("units of one table", elf::units_of_one_table),
        ("files of a unit", elf::files),
        ("zlib", elf::zlib),
        ("zstd", elf::zstd),
        ("inlined", elf::inlined),
        ("names of inlined", elf::names_of_inlined),
        ("scopes", elf::scopes),
        ("symbols", elf::symbols),
        ("C++ names", elf::cpp_names),
    ];
    for (name, make) in objects {
        let (object, size) = input(scratch.path(), "object", |out| out.write_all(&make(addresses)));
        let most = BASE + FACTOR * profile_size + OBJECT_FACTOR * size + ADDRESS_BYTES * addresses as u64;
        let arguments = ["top".as_ref(), "--binary".as_ref(), object.as_os_str(), profile.as_os_str()];
        hold(name, &arguments, size, most);
    }
}
