//! Bytes to the model and back, one file for each format.
//!
//! Readers take any bytes: they give a profile or an error that says where, never a panic. A report of it has at most 32 bytes of
//! memory for each byte of the file, spool or list of objects, and 32 MiB besides; for folded stacks and the output of
//! `perf script` it is 192, because a frame with a new function can be four bytes. Compressed data counts with its uncompressed size,
//! which is at most 50 times the file and 4 MiB. `tests/gate/hostile.rs` makes inputs that try more. The most that it measured was
//! 31 bytes, for a list of objects with lines of 8 bytes, and 155 for one folded stack.

pub mod callgrind;
mod chains;
pub mod chrome_trace;
pub mod cpu_profile;
pub mod firefox;
pub mod folded;
mod foreign;
mod frames;
mod gzip;
pub mod memory;
pub mod perf_script;
pub mod pprof;
pub mod speedscope;
pub mod spool;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod trial;

use crate::{
    error::{Error, ErrorKind},
    profile::{Merger, Profile},
};
use sigprof::recover::Spool;
use std::{fs::File, io::Read, path::Path};

/// Reads a profile of any known format, which its first bytes tell. Several CPU profiles or pprof protobufs that follow each other in
/// the file, compressed or not, are merged.
///
/// # Errors
/// If the file cannot be read, has no known format, or breaks the rules of its format.
pub fn read_file(path: &Path) -> Result<Profile, Error> {
    let fails = |error| Error::io(path, "read the profile", error);
    let file = File::open(path).map_err(|error| {
        let is_address = path.starts_with("http:") || path.starts_with("https:");
        if is_address { fails(error).advise("fetch it first: curl -o FILE ADDRESS") } else { fails(error) }
    })?;
    let status = file.metadata().map_err(fails)?;
    if status.is_file() && status.len() > 0 {
        let map = map_file(&file).map_err(fails)?;
        if spool::is_spool(&map) {
            let spool = Spool::open(path).map_err(spool::fails)?;
            return spool::read(&spool);
        }
        return read(&map).map_err(|error| error.at(path));
    }
    // A pipe, or a file of /proc: what cannot be mapped.
    read_stream(file, path)
}

/// Reads a profile of any known format from what has no end known beforehand, as a pipe or standard input; `name` is what errors
/// call it.
///
/// # Errors
/// As for [`read_file`].
pub fn read_stream(mut stream: impl Read, name: &Path) -> Result<Profile, Error> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(|error| Error::io(name, "read the profile", error))?;
    read(&bytes).map_err(|error| error.at(name))
}

/// Reads a profile of any known format.
///
/// # Errors
/// Where the bytes are of no known format, or break the rules of their own.
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

/// Reads a profile that is not packed by gzip, or merges several that follow each other.
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

/// The length of the profile that `bytes` begin with: less than theirs if another one follows. Text has no such bounds, and
/// needs none: folded stacks and the output of `perf script` are read as one.
fn length(bytes: &[u8]) -> usize {
    if bytes.first() == Some(&0) {
        cpu_profile::length(bytes)
    } else if pprof::may_be_profile(bytes) {
        pprof::length(bytes)
    } else {
        bytes.len()
    }
}

/// Reads one profile that is not packed by gzip.
fn read_one(bytes: &[u8]) -> Result<Profile, Error> {
    // A CPU profile begins with a slot of 0, which is not the tag of a field.
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
        .advise("supported: CPU profiles of gperftools, pprof protobuf, folded stacks, output of `perf script` (all optionally gzipped), and spools of sigprof"))
}

/// Refuses the values of a difference where the format has no sign.
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

/// Maps a whole file.
#[expect(unsafe_code, reason = "the mapping's bytes may change under us, which is stated below")]
pub(crate) fn map_file(file: &File) -> std::io::Result<memmap2::Mmap> {
    // SAFETY: A writer that changes the file meanwhile makes us read other bytes, as with read(2): readers take any bytes,
    // and none looks at a byte twice to rely on its being the same for memory safety. One that shortens it ends this
    // command by SIGBUS; profiles are written once, under a temporary name.
    unsafe { memmap2::Mmap::map(file) }
}
