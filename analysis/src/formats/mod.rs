//! Readers and writers, a file for each format.
//!
//! Readers accept any bytes: they return a profile or an error with its position, and never panic.
//! A report uses at most 32 bytes of memory for each byte of the file, spool or list of objects,
//! plus 32 MiB. For folded stacks and `perf script` output the factor is 192, because a frame with
//! a new function can have four bytes. Compressed data counts uncompressed, which is at most 50
//! times the file plus 4 MiB. `tests/gate/hostile.rs` tries to exceed this. The most measured was
//! 31 bytes, for a list of objects with lines of 8 bytes, and 155 for one folded stack.

pub mod callgrind;
mod chains;
pub mod chrome_trace;
pub mod cpu_profile;
pub mod firefox;
pub mod folded;
mod foreign;
mod frames;
pub mod gmon;
mod gzip;
pub mod hpctoolkit;
pub mod memory;
pub mod perf_script;
pub mod pprof;
pub mod speedscope;
pub mod spool;
mod times;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod trial;

use crate::{
    error::{Error, ErrorKind},
    profile::{Merger, Profile},
};
use sigprof::recover::Spool;
use std::{fs::File, io::Read, path::Path};

/// Reads a profile of any supported format, detected by its first bytes, or the HPCToolkit database
/// in a directory. Several CPU profiles or pprof protobufs in sequence, compressed or not, are
/// merged.
///
/// # Errors
/// If the file cannot be read, has an unknown format, or violates its format.
pub fn read_file(path: &Path) -> Result<Profile, Error> {
    let fails = |error| Error::io(path, "read the profile", error);
    let file = File::open(path).map_err(|error| {
        let is_address = path.starts_with("http:") || path.starts_with("https:");
        if is_address { fails(error).advise("fetch it first: curl -o FILE ADDRESS") } else { fails(error) }
    })?;
    let status = file.metadata().map_err(fails)?;
    if status.is_dir() && hpctoolkit::is_database(path) {
        return hpctoolkit::read(path);
    }
    if status.is_file() && status.len() > 0 {
        let map = map_file(&file).map_err(fails)?;
        if spool::is_spool(&map) {
            let spool = Spool::open(path).map_err(spool::fails)?;
            return spool::read(&spool);
        }
        return read(&map).map_err(|error| error.at(path));
    }
    // A pipe, or a file of /proc, which cannot be mapped.
    read_stream(file, path)
}

/// Reads a profile of any supported format from a pipe or standard input; errors call it `name`.
///
/// # Errors
/// As for [`read_file`].
pub fn read_stream(mut stream: impl Read, name: &Path) -> Result<Profile, Error> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(|error| Error::io(name, "read the profile", error))?;
    read(&bytes).map_err(|error| error.at(name))
}

/// Reads a profile of any supported format.
///
/// # Errors
/// If the bytes have an unknown format, or violate their format.
pub fn read(bytes: &[u8]) -> Result<Profile, Error> {
    if bytes.is_empty() {
        return Err(Error::new(ErrorKind::Format, "the file is empty (0 bytes)")
            .advise("gperftools leaves an empty profile if the program is killed; record it again"));
    }
    if spool::is_spool(bytes) {
        return Err(Error::new(ErrorKind::Format, "a spool can only be read from its file")
            .advise("name the file instead of standard input"));
    }
    if gzip::is_gzip(bytes) {
        let unpacked = gzip::unpack(bytes)?;
        return read_unpacked(&unpacked);
    }
    read_unpacked(bytes)
}

/// Reads an uncompressed profile, or merges several in sequence.
fn read_unpacked(bytes: &[u8]) -> Result<Profile, Error> {
    let first = length(bytes);
    let mut profile = read_one(&bytes[..first])?;
    if first == bytes.len() {
        return Ok(profile);
    }
    let mut merger = Merger::new("the first profile of the file".into(), profile);
    let mut offset = first;
    while offset < bytes.len() {
        let rest = &bytes[offset..];
        let length = length(rest);
        profile = read_one(&rest[..length]).map_err(|error| error.after(offset as u64))?;
        merger.add(&profile).map_err(|error| error.at_offset(offset as u64))?;
        offset += length;
    }
    Ok(merger.finish())
}

/// Returns the length of the first profile in `bytes`; another may follow, unless it is text.
fn length(bytes: &[u8]) -> usize {
    if bytes.first() == Some(&0) {
        cpu_profile::length(bytes)
    } else if pprof::may_be_profile(bytes) {
        pprof::length(bytes)
    } else {
        bytes.len()
    }
}

fn read_one(bytes: &[u8]) -> Result<Profile, Error> {
    // A CPU profile begins with a slot of 0, which is not a protobuf tag.
    if bytes.first() == Some(&0) {
        return cpu_profile::read(bytes)
            .map_err(|error| error.advise("the file may be damaged or incomplete; record it again"));
    }
    if pprof::may_be_profile(bytes) {
        return pprof::read(bytes);
    }
    if perf_script::may_be_perf_script(bytes) {
        return perf_script::read(bytes);
    }
    if let Some((reason, advice)) = foreign::describe(bytes) {
        return Err(Error::new(ErrorKind::Format, reason).advise(advice));
    }
    if folded::may_be_folded(bytes) {
        return folded::read(bytes);
    }
    Err(Error::new(ErrorKind::Format, "unrecognised format")
        .advise("supported: CPU profiles of gperftools, pprof protobuf, folded stacks, output of `perf script` (all optionally gzipped), spools of sigprof, and directories with databases of HPCToolkit"))
}

/// Refuses negative values, for formats without a sign.
fn ensure_no_negative(profile: &Profile, value: usize, format: &str) -> Result<(), Error> {
    if profile.samples.iter().any(|sample| sample.values[value] < 0) {
        let reason = format!(
            "a value of {} is negative, and {format} has no negative values",
            profile.sample_types[value].kind
        );
        return Err(Error::new(ErrorKind::Request, reason)
            .advise("convert without --base and --diff-base, or to `pprof`"));
    }
    Ok(())
}

#[expect(unsafe_code, reason = "the mapping's bytes may change under us, which is stated below")]
pub(crate) fn map_file(file: &File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: another process may change the file, so two reads may differ, as with read(2).
    // Readers accept any bytes, and none depends on equal reads for memory safety. If the file is
    // truncated, SIGBUS kills this command; profiles are written once, under a temporary name.
    unsafe { memmap2::Mmap::map(file) }
}
