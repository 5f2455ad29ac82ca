//! The profile's file: where it goes, and that it appears there complete or not at all.
//!
//! A profile is written under a random name beside its target and renamed when complete. A target that is not a
//! regular file (a device, a pipe), or that stands in a directory where nothing can be created, is written in
//! place. The path is made absolute, and its links are followed, at the start, since the host may change its
//! directory.
//!
//! Nothing here allocates: see the module above.
//!
//! # Safety
//! Declares one structure of integers zeroable.
#![allow(unsafe_code)]

use crate::{
    error::Failure,
    format::{ProfileWriter, SlotLayout, WriteError, spool::FileStamp, write_records},
    sample::{met_objects::MetObject, recording::Recording},
    sync::Ordering,
    sys::{
        directory::stamp_of,
        file::{self, File, FileKind, PATH_BYTES, PathBuffer},
        memory::{MappedBox, Zeroable},
    },
};
use core::ffi::CStr;
use std::io::{self, Write};

const BUFFER_BYTES: usize = 64 << 10;

/// A session's paths and buffers, in memory of their own.
#[repr(C)]
pub(crate) struct Output {
    /// As the user gave it.
    given: PathBuffer,
    /// Absolute.
    target: PathBuffer,
    /// For the name while it is written.
    temporary: PathBuffer,
    /// Non-zero when the target is written in place.
    in_place: u8,
    buffer: [u8; BUFFER_BYTES],
    /// For the lines of /proc/self/maps: room for the longest.
    lines: [u8; 4 * PATH_BYTES],
}

// SAFETY: integers, arrays of them, and path buffers, whose zeros are empty paths.
unsafe impl Zeroable for Output {}

impl Output {
    /// Resolves `path`, and, if `tries` says so, tries now what would fail at the end.
    ///
    /// # Errors
    /// Why a profile could not be written there.
    pub(crate) fn open(path: &[u8], tries: bool) -> Result<MappedBox<Self>, Failure> {
        let system = |errno| Failure::System { action: "map memory for the output", errno };
        let mut output = MappedBox::<Self>::zeroed().map_err(system)?;
        output.resolve(path)?;
        if tries {
            output.try_out()?;
        }
        Ok(output)
    }

    /// The path as the user gave it.
    pub(crate) fn given(&self) -> &PathBuffer {
        &self.given
    }

    /// The absolute path, and the two buffers.
    pub(super) fn parts(&mut self) -> (&[u8], &mut [u8], &mut [u8]) {
        (self.target.as_bytes(), &mut self.buffer, &mut self.lines)
    }

    /// What stands at the target now.
    pub(super) fn stamp(&self) -> Option<FileStamp> {
        let [device, inode, changed] = stamp_of(self.target.as_c_str())?;
        Some(FileStamp { device, inode, changed })
    }

    /// Makes the target absolute, and follows links: renaming would replace the link itself.
    fn resolve(&mut self, path: &[u8]) -> Result<(), Failure> {
        if path.is_empty() {
            return Err(fails("find a file name")(errno::NO_SUCH_FILE));
        }
        self.given.push(path).map_err(fails("take the path"))?;
        if !path.starts_with(b"/") {
            file::current_directory(&mut self.target).map_err(fails("find the working directory"))?;
            self.target.push(b"/").map_err(fails("take the path"))?;
        }
        self.target.push(path).map_err(fails("take the path"))?;
        // Links of /proc and /dev to open descriptors lead to no name that could be written beside.
        let is_special = file::kind(self.target.as_c_str(), true) == Ok(FileKind::Special);
        if !is_special {
            file::resolve_links(&mut self.target).map_err(fails("follow the link"))?;
        }
        Ok(())
    }

    /// Finds out how the target is written, and whether it can be.
    fn try_out(&mut self) -> Result<(), Failure> {
        let target = self.target.as_c_str();
        match file::kind(target, true) {
            Ok(FileKind::Directory) => return Err(fails("write a file")(errno::IS_DIRECTORY)),
            Ok(_) if !file::is_writable(target) => return Err(fails("write the file")(errno::NO_ACCESS)),
            Ok(FileKind::Special) => {
                // Not opened: a reader of a pipe would take the close for the end.
                self.in_place = 1;
                return Ok(());
            }
            Ok(FileKind::Regular | FileKind::SymbolicLink) => refuse_own_output(target)?,
            Err(errno::NO_SUCH_FILE) => {}
            Err(errno) => return Err(fails("look at the file")(errno)),
        }
        match self.create_temporary() {
            Ok(created) => {
                drop(created);
                let _ = file::unlink(self.temporary.as_c_str());
                Ok(())
            }
            // The directory refuses, but a file is there that can be written.
            Err(_) if file::kind(self.target.as_c_str(), true) == Ok(FileKind::Regular) => {
                self.in_place = 1;
                Ok(())
            }
            Err(errno) => Err(fails("create a file")(errno)),
        }
    }

    /// Creates a file under a fresh name in the target's directory.
    fn create_temporary(&mut self) -> Result<File, i32> {
        const TRIES: usize = 4;
        let path = self.target.as_bytes();
        let directory = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let mut last = errno::NO_ACCESS;
        for _ in 0..TRIES {
            self.temporary.truncate(0);
            self.temporary.push(self.target.as_bytes().get(..directory).unwrap_or_default())?;
            self.temporary.push(b".sigprof-")?;
            self.temporary.push_hexadecimal(file::random())?;
            match File::create_new(self.temporary.as_c_str()) {
                Err(errno::EXISTS) => last = errno::EXISTS,
                other => return other,
            }
        }
        Err(last)
    }

    /// Writes the profile of `recording`, complete, under the target's name; gives the bytes of its binary part.
    ///
    /// # Errors
    /// Why it could not be written; an existing file is then as it was, or, where it is written in place, empty.
    pub(crate) fn write(&mut self, recording: &Recording, met: &[MetObject]) -> Result<u64, Failure> {
        if self.in_place != 0 {
            return self.write_in_place(recording, met);
        }
        let file = self.create_temporary().map_err(fails("create a file"))?;
        file.take_mode_of(self.target.as_c_str());
        let written = self.fill(&file, recording, met).and_then(|bytes| file.close().map(|()| bytes));
        let renamed = written.map_err(fails("write the file")).and_then(|bytes| {
            match file::rename(self.temporary.as_c_str(), self.target.as_c_str()) {
                Ok(()) => Ok(bytes),
                // A sticky directory keeps somebody else's file from being replaced; it may be written all the same.
                Err(errno::NO_ACCESS | errno::NOT_PERMITTED) => self.write_in_place(recording, met),
                Err(errno) => Err(fails("name the file")(errno)),
            }
        });
        if renamed.is_err() || self.in_place != 0 {
            let _ = file::unlink(self.temporary.as_c_str());
        }
        renamed
    }

    fn write_in_place(&mut self, recording: &Recording, met: &[MetObject]) -> Result<u64, Failure> {
        self.in_place = 1;
        let file = File::write_existing(self.target.as_c_str(), true).map_err(fails("open the file"))?;
        let written = self.fill(&file, recording, met);
        if written.is_err() {
            file.empty();
        }
        let written = written.and_then(|bytes| file.close().map(|()| bytes));
        written.map_err(fails("write the file"))
    }

    fn fill(&mut self, file: &File, recording: &Recording, met: &[MetObject]) -> Result<u64, i32> {
        let sink = Buffered { file, buffer: &mut self.buffer, used: 0 };
        write_profile(sink, recording, &mut self.lines, met).map_err(|error| errno_of(&error))
    }
}

fn fails(action: &'static str) -> impl Fn(i32) -> Failure {
    move |errno| Failure::Output { action, errno }
}

/// Refuses a regular file that is the program's own standard output or error, or input: writing it would destroy what
/// the program writes there.
fn refuse_own_output(target: &CStr) -> Result<(), Failure> {
    let identity = File::write_existing(target, false).ok().and_then(|file| file.identity());
    let is_own = identity.is_some() && (0..=2).any(|descriptor| file::identity(descriptor) == identity);
    if is_own { Err(fails("share the program's own output")(errno::BUSY)) } else { Ok(()) }
}

/// Writes header, records, trailer and the list of mapped objects; gives the bytes before the list.
///
/// # Errors
/// Those of the sink.
fn write_profile(
    sink: impl Write,
    recording: &Recording,
    lines: &mut [u8],
    met: &[MetObject],
) -> Result<u64, WriteError> {
    let mut writer = ProfileWriter::new(sink, SlotLayout::NATIVE);
    writer.header(u64::from(recording.period_micros))?;
    // Relaxed: the table has ordered a record's words before the record itself.
    write_records(&mut writer, || {
        recording
            .table
            .records()
            .map(|(count, pcs)| (count as u64, pcs.iter().map(|pc| pc.load(Ordering::Relaxed))))
    })?;
    writer.trailer()?;
    let binary = writer.bytes_written();
    super::maps_text::write(writer.text(), lines, met)?;
    writer.text().flush()?;
    Ok(binary)
}

/// A file behind a buffer of the session's.
struct Buffered<'a> {
    file: &'a File,
    buffer: &'a mut [u8],
    used: usize,
}

impl Write for Buffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            self.flush()?;
        }
        let room = self.buffer.get_mut(self.used..).unwrap_or_default();
        let taken = room.len().min(bytes.len());
        for (place, byte) in room.iter_mut().zip(bytes) {
            *place = *byte;
        }
        self.used += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let filled = self.buffer.get(..self.used).unwrap_or_default();
        self.file.write_all(filled).map_err(io::Error::from_raw_os_error)?;
        self.used = 0;
        Ok(())
    }
}

fn errno_of(error: &WriteError) -> i32 {
    match error {
        WriteError::Io(error) => error.raw_os_error().unwrap_or(errno::IO),
        _ => errno::INVALID,
    }
}

/// The error numbers that decide what is tried next.
mod errno {
    pub(super) use crate::sys::errno::{
        BUSY, EXISTS, INVALID, IO, IS_DIRECTORY, NO_ACCESS, NO_SUCH_FILE, NOT_PERMITTED,
    };
}
