//! The output file, which appears complete or not at all.
//!
//! A profile is written under a random name and then renamed. Devices, pipes, and own files in a
//! directory that permits no other are written in place. The path is resolved and its directory
//! opened at the start ([`output_directory`]), because the application may change what it depends
//! on. Nothing here allocates: see [`super`].
//!
//! | the name is | at the start | at each write |
//! | --- | --- | --- |
//! | free, or an own file | another is created and removed | another is created and renamed |
//! | an own file, no other is permitted | checked | emptied and written in place |
//! | another user's file | refused if it cannot be replaced | replaced, never written into |
//! | a symbolic link | followed, if safe (`sys/links.rs`) | replaced, if it is new |
//! | a device, a pipe | checked | opened, without waiting for a reader |
//! | a directory, a socket, an own standard stream | refused | refused |
//!
//! # Safety
//! Declares a structure of integers zeroable.
#![allow(unsafe_code)]

mod body;
mod names;
mod output_directory;
mod output_file;

pub(crate) use names::Naming;
pub(crate) use output_directory::OutputDirectory;

use crate::{
    config::MAX_DEPTH,
    error::Failure,
    format::spool::FileStamp,
    sample::spill_file::SpillDirectory,
    sys::{
        entry::{Entry, FileKind, Status},
        errno,
        file::{self, PATH_BYTES, PathBuffer},
        links::{self, ResolveError},
        memory::{MappedBox, Zeroable},
    },
};
pub(crate) use body::Contents;
use body::{WriteBuffers, Written};
use output_directory::split;
use output_file::OutputFile;

const BUFFER_BYTES: usize = 64 << 10;
const SPILLED_WORDS: usize = 4 * (MAX_DEPTH + 2);

#[repr(C)]
struct Buffers {
    /// As the user gave it, with an added number if any.
    given: PathBuffer,
    /// Absolute, symbolic links not followed.
    requested: PathBuffer,
    /// Absolute, without symbolic links.
    target: PathBuffer,
    temporary: PathBuffer,
    links: links::ResolveBuffers,
    buffer: [u8; BUFFER_BYTES],
    /// For /proc/self/maps: room for the longest line.
    lines: [u8; 4 * PATH_BYTES],
    /// For spilled records.
    words: [usize; SPILLED_WORDS],
}

// SAFETY: integers, arrays of them, and path buffers, for which zeros are valid.
unsafe impl Zeroable for Buffers {}

impl Buffers {
    fn new() -> Result<MappedBox<Self>, Failure> {
        MappedBox::zeroed().map_err(|errno| Failure::System { action: "map memory for the output", errno })
    }
}

#[derive(Clone, Copy)]
pub(crate) struct OpenOptions<'a> {
    pub(crate) naming: Naming,
    /// Test now what would fail at the end.
    pub(crate) tries: bool,
    /// An open directory, used if the path is in it.
    pub(crate) open_directory: Option<&'a OutputDirectory>,
}

pub(crate) struct Output {
    buffers: MappedBox<Buffers>,
    target: OutputTarget,
}

enum OutputTarget {
    /// A directory, and the index of the name in the target's path.
    Named(OutputDirectory, usize),
    /// Device and inode of a device or pipe that only a descriptor's number names.
    Descriptor((u64, u64)),
}

impl Output {
    /// Resolves `path`.
    ///
    /// # Errors
    /// Why a profile cannot be written there.
    pub(crate) fn open(path: &[u8], opening: OpenOptions<'_>) -> Result<Self, Failure> {
        let mut buffers = Buffers::new()?;
        if path.is_empty() {
            return Err(fails("find a file name")(errno::ENOENT));
        }
        buffers.given.replace(path).map_err(fails("take the path"))?;
        absolute(path, &mut buffers.requested)?;
        if matches!(last_name(path), b"" | b"." | b"..") {
            return Err(fails("write a file")(errno::EISDIR));
        }
        let target =
            match opening.open_directory.map(|open| beside(&mut buffers, open)).transpose()?.flatten() {
                Some(target) => target,
                None => locate(&mut buffers)?,
            };
        let mut output = Self { buffers, target };
        if opening.naming == Naming::Numbered {
            output.take_free_name()?;
        }
        if opening.tries {
            output.try_out()?;
        }
        Ok(output)
    }

    pub(super) fn target(&self) -> &[u8] {
        self.buffers.target.as_bytes()
    }

    pub(super) fn lines(&mut self) -> &mut [u8] {
        &mut self.buffers.lines
    }

    pub(super) fn stamp(&self) -> Option<FileStamp> {
        let OutputTarget::Named(place, name) = &self.target else { return None };
        let status = place.handle().ok()?.entry(&self.buffers.target, *name).status().ok()?;
        let (device, inode) = status.identity;
        Some(FileStamp { device, inode, changed: status.modified as u64 })
    }

    pub(crate) fn given(&self) -> &PathBuffer {
        &self.buffers.given
    }

    /// None if the profile is a device or a pipe, or its directory is not open.
    pub(crate) fn beside(&self) -> Option<SpillDirectory> {
        let place = self.place()?;
        let status = place.handle().ok().and_then(|handle| match &self.target {
            OutputTarget::Named(_, name) => handle.entry(&self.buffers.target, *name).status().ok(),
            OutputTarget::Descriptor(_) => None,
        });
        let is_special = status.is_some_and(|status| status.kind == FileKind::Special);
        if is_special { None } else { place.beside() }
    }

    pub(crate) fn place(&self) -> Option<&OutputDirectory> {
        match &self.target {
            OutputTarget::Named(place, _) => Some(place),
            OutputTarget::Descriptor(_) => None,
        }
    }

    fn take_free_name(&mut self) -> Result<(), Failure> {
        let OutputTarget::Named(place, name) = &self.target else { return Ok(()) };
        // Reported when the file is written.
        let Ok(handle) = place.handle() else { return Ok(()) };
        let Buffers { given, target, .. } = &mut *self.buffers;
        let found = handle.entry(target, *name).status().ok();
        let Some(status) = found.filter(names::is_own_work) else { return Ok(()) };
        refuse_own_output(&status)?;
        let lengths = (given.as_bytes().len(), target.as_bytes().len());
        for number in 2..=names::MAX_NUMBER {
            add_number(given, lengths.0, number)?;
            add_number(target, lengths.1, number)?;
            match handle.entry(target, *name).status() {
                Ok(_) => {}
                Err(errno::ENOENT) => return Ok(()),
                Err(errno) => return Err(fails("look for a free name")(errno)),
            }
        }
        Err(fails("find a free name")(errno::EEXIST))
    }

    fn try_out(&mut self) -> Result<(), Failure> {
        let Buffers { requested, target, temporary, .. } = &mut *self.buffers;
        match &mut self.target {
            OutputTarget::Named(place, name) => {
                let left = OutputFile::new(place, target, *name, temporary)?.try_out()?;
                place.permissions = left.unwrap_or(place.permissions);
                Ok(())
            }
            OutputTarget::Descriptor(_) => {
                Entry::at(requested.as_c_str()).ensure_writable().map_err(fails("write to it"))
            }
        }
    }

    /// Writes a complete profile to the target.
    ///
    /// # Errors
    /// Why it could not be written. An existing file is unchanged, or empty if written in place.
    pub(crate) fn write(&mut self, mut contents: Contents<'_>) -> Result<Written, Failure> {
        let Buffers { requested, target, temporary, buffer, lines, words, .. } = &mut *self.buffers;
        let mut buffers = WriteBuffers { buffer, lines, words };
        let fill = |file: &file::File| body::write(file, &mut buffers, &mut contents);
        match &self.target {
            OutputTarget::Named(place, name) => OutputFile::new(place, target, *name, temporary)?.write(fill),
            OutputTarget::Descriptor(identity) => {
                output_file::write_special(Entry::at(requested.as_c_str()), *identity, true, fill)
            }
        }
    }
}

/// Sets `place` to the absolute path of `path`.
///
/// # Errors
/// The path is too long, or the working directory does not exist.
pub(crate) fn absolute(path: &[u8], place: &mut PathBuffer) -> Result<(), Failure> {
    place.truncate(0);
    if !path.starts_with(b"/") {
        file::current_directory(place).map_err(fails("find the working directory"))?;
        place.push(b"/").map_err(fails("take the path"))?;
    }
    place.push(path).map_err(fails("take the path"))
}

/// Whether this process has written the file at `path`, in the directory `open_directory` if given.
pub(crate) fn has_own_work(path: &PathBuffer, open_directory: Option<&OutputDirectory>) -> bool {
    let status = match open_directory.and_then(|open_directory| open_directory.handle().ok()) {
        Some(handle) => handle.entry(path, split(path.as_bytes()).1).status(),
        None => Entry::at(path.as_c_str()).status(),
    };
    status.is_ok_and(|status| names::is_own_work(&status))
}

/// Whether `path` leads to a device or a pipe.
pub(crate) fn is_special(path: &[u8]) -> bool {
    MappedBox::<PathBuffer>::zeroed().is_ok_and(|mut buffer| {
        buffer.push(path).is_ok()
            && Entry::at(buffer.as_c_str())
                .status_following_links()
                .is_ok_and(|status| status.kind == FileKind::Special)
    })
}

fn beside(buffers: &mut Buffers, open_directory: &OutputDirectory) -> Result<Option<OutputTarget>, Failure> {
    let Buffers { requested, target, .. } = buffers;
    if split(requested.as_bytes()).0 != open_directory.requested() {
        return Ok(None);
    }
    let place = open_directory.duplicate()?;
    target
        .replace(place.resolved())
        .and_then(|()| target.push(b"/"))
        .and_then(|()| target.push(last_name(requested.as_bytes())))
        .map_err(fails("take the path"))?;
    let name = place.resolved().len() + 1;
    let is_link = place.handle().is_ok_and(|handle| {
        let status = handle.entry(target, name).status();
        status.is_ok_and(|status| status.kind == FileKind::SymbolicLink)
    });
    Ok((!is_link).then_some(OutputTarget::Named(place, name)))
}

/// Follows symbolic links, and opens the directory.
fn locate(buffers: &mut Buffers) -> Result<OutputTarget, Failure> {
    let Buffers { requested, target, links, .. } = buffers;
    let behind = Entry::at(requested.as_c_str()).status_following_links().ok();
    target.replace(requested.as_bytes()).map_err(fails("take the path"))?;
    let followed = links::resolve(target, links);
    if let Err(ResolveError::ForeignLink) = followed {
        return Err(to_failure(ResolveError::ForeignLink));
    }
    let found = Entry::at(target.as_c_str()).status();
    if let Some(behind) = behind.filter(|behind| found.map(|found| found.identity) != Ok(behind.identity)) {
        // A symbolic link of /dev or /proc to a file with another name or none.
        return match behind.kind {
            FileKind::Special => Ok(OutputTarget::Descriptor(behind.identity)),
            FileKind::Socket => Err(fails("open a socket")(errno::ENXIO)),
            _ => refuse_own_output(&behind).and(Err(match (followed, found) {
                (Err(ResolveError::System(errno)), _) if errno != errno::ENOENT => {
                    to_failure(ResolveError::System(errno))
                }
                (_, Err(errno)) if errno != errno::ENOENT => fails("look at the file")(errno),
                _ => fails("find the name of what the link leads to")(errno::ENOENT),
            })),
        };
    }
    followed.map_err(to_failure)?;
    if target.as_bytes().is_empty() {
        return Err(fails("write a file")(errno::EISDIR));
    }
    let (directory, name) = split(target.as_bytes());
    let is_link =
        Entry::at(requested.as_c_str()).status().is_ok_and(|status| status.kind == FileKind::SymbolicLink);
    let known_as = if is_link { directory } else { split(requested.as_bytes()).0 };
    Ok(OutputTarget::Named(OutputDirectory::open(known_as, directory)?, name))
}

fn to_failure(error: ResolveError) -> Failure {
    match error {
        ResolveError::ForeignLink => {
            fails("follow another user's link in a directory that is open to all")(errno::EACCES)
        }
        ResolveError::System(errno) => fails("find the directory")(errno),
    }
}

/// Refuses the program's own standard streams: the profile would overwrite them.
fn refuse_own_output(status: &Status) -> Result<(), Failure> {
    let is_own = (0..=2).any(|descriptor| file::identity(descriptor) == Some(status.identity));
    if is_own { Err(fails("share the program's own output")(errno::EBUSY)) } else { Ok(()) }
}

fn add_number(path: &mut PathBuffer, length: usize, number: u64) -> Result<(), Failure> {
    path.truncate(length);
    path.push(b".").and_then(|()| path.push_decimal(number)).map_err(fails("add a number to the path"))
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

fn fails(action: &'static str) -> impl Fn(i32) -> Failure {
    move |errno| Failure::Output { action, errno }
}
