//! Objects that are kept open, because their files may be deleted or replaced.

use super::{image::Image, memory_image};
use crate::error::Error;
use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An executed object, even if its path has another file by now.
#[derive(Clone, Debug)]
pub struct KeptObject {
    path: PathBuf,
    build_id: Arc<str>,
    object: Arc<File>,
    is_whole: bool,
}

impl KeptObject {
    /// Keeps the file that was opened at `path`.
    ///
    /// # Errors
    /// If it is not an ELF file, or cannot be read.
    pub fn of_file(path: &Path, object: File) -> Result<Self, Error> {
        Self::new(path, object, true)
    }

    /// Reads the dynamic linker's symbols of the object at `path` from process memory at `base`.
    ///
    /// # Errors
    /// If it is not an ELF object with such symbols, or cannot be read.
    pub fn of_memory(path: &Path, memory: &impl memory_image::Memory, base: u64) -> Result<Self, Error> {
        let fails = |error| Error::io(path, "read the object in memory", error);
        let bytes = memory_image::read(memory, base).map_err(fails)?;
        let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
        let file =
            nix::sys::memfd::memfd_create(c"sigprof-object", flags).map_err(|errno| fails(errno.into()))?;
        let mut object = File::from(file);
        object.write_all(&bytes).map_err(fails)?;
        Self::new(path, object, false)
    }

    fn new(path: &Path, object: File, is_whole: bool) -> Result<Self, Error> {
        let build_id = Image::of_file(path, &object)?.build_id().into();
        Ok(Self { path: path.into(), build_id, object: Arc::new(object), is_whole })
    }

    /// Returns the linker's build ID, in lower-case hexadecimal digits; empty without one.
    pub fn build_id(&self) -> &Arc<str> {
        &self.build_id
    }

    /// True if this is the object of a mapping with this path and build ID.
    pub(super) fn is_at(&self, path: &Path, build_id: &str) -> bool {
        *self.build_id == *build_id && (!build_id.is_empty() || self.path == path)
    }

    /// True for a file, false for an object read from memory.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Maps the object; None if it cannot be read any more.
    pub(super) fn image(&self) -> Option<Image> {
        Image::of_file(&self.path, &self.object).ok()
    }
}
