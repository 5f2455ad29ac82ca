//! Lookup of a mapping's file, with a check that it is the executed one.

use super::{
    KeptObject, SymbolizerOptions, debug_files::Places, debuginfod::FileKind, image::Image,
    object_file::ObjectFile, stand_in, vdso,
};
use crate::profile::Mapping;
use std::{os::unix::ffi::OsStrExt as _, path::Path, path::PathBuf, sync::Arc};

/// Identity of a mapping's object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectKey {
    file: PathBuf,
    build_id: Arc<str>,
    is_deleted: bool,
    /// It is the program, and the user specified its file.
    is_given: bool,
}

/// A mapping's object, or why there is none.
pub(super) enum Opened {
    Object(Box<ObjectFile>),
    /// The reason and advice; None if no names are expected.
    Missing(Option<String>),
}

impl ObjectKey {
    /// Returns the key of a mapping. `program` is the file of the profile's first mapping.
    pub(super) fn new(mapping: &Mapping, program: Option<&Path>, options: &SymbolizerOptions) -> Self {
        Self {
            file: mapping.file.clone(),
            // Go's IDs were not written by a linker.
            build_id: if is_hexadecimal(&mapping.build_id) { mapping.build_id.clone() } else { "".into() },
            is_deleted: mapping.is_deleted,
            is_given: options.binary.is_some() && program == Some(&mapping.file),
        }
    }

    /// True if the executed file is certain, by its build ID or the user's option.
    pub(super) fn is_certain(&self) -> bool {
        !self.build_id.is_empty() || self.is_given
    }

    pub(super) fn short_name(&self) -> String {
        stand_in::object(&self.file)
    }

    /// Opens the object. Wrong names are worse than none: a file with another build ID is refused.
    /// If the profile has no ID, a file is refused only if the kernel reported it as deleted.
    pub(super) fn open(&self, options: &SymbolizerOptions) -> Opened {
        let places = Places {
            directories: below_sysroot(&options.debug_directories, options.sysroot.as_deref()),
            servers: options.servers.clone(),
        };
        let file = self.file.display();
        if self.file == Path::new("[vdso]") {
            let image =
                vdso::own().filter(|image| !self.build_id.is_empty() && image.build_id() == *self.build_id);
            return image.map_or(Opened::Missing(None), |image| object(image, false, &places));
        }
        let candidates = match &options.binary {
            Some(binary) if self.is_given => vec![binary.clone()],
            _ if is_file(&self.file) => {
                below_sysroot(std::slice::from_ref(&self.file), options.sysroot.as_deref())
            }
            _ => return Opened::Missing(None),
        };
        let kept = |is_whole| {
            let is_wanted =
                |kept: &&KeptObject| kept.is_whole() == is_whole && kept.is_at(&self.file, &self.build_id);
            options.kept.iter().filter(is_wanted).find_map(KeptObject::image)
        };
        if let Some(image) = kept(true) {
            return object(image, false, &places);
        }
        let mut reason = None;
        for path in candidates {
            let image = match Image::open(&path) {
                Ok(image) => image,
                Err(error) => {
                    reason.get_or_insert_with(|| {
                        format!("{error}; say where it is by --sysroot or --binary, or look at the profile where it was recorded")
                    });
                    continue;
                }
            };
            let build_id = image.build_id();
            if self.build_id.is_empty() && self.is_deleted && !self.is_given {
                reason = Some(format!(
                    "{file}: was deleted or replaced while it ran, and the profile has no build id to tell whether the file that is \
                     there now is the same; give the one that ran by --binary or --sysroot, or record again"
                ));
            } else if self.build_id.is_empty() || build_id == *self.build_id {
                return object(image, false, &places);
            } else {
                let id = if build_id.is_empty() { "none" } else { &build_id };
                reason = Some(format!(
                    "{}: is not the file that ran: its build id is {id}, that of the profile {}; give the one that ran by --binary or \
                     --sysroot, or record again",
                    path.display(),
                    self.build_id
                ));
            }
        }
        if let Some(image) = kept(false) {
            return object(image, false, &places);
        }
        if let Some(image) = places.by_build_id(&self.build_id) {
            return object(image, true, &places);
        }
        for (kind, is_debug_file) in [(FileKind::Binary, false), (FileKind::DebugFile, true)] {
            if let Some(image) = places.on_servers(kind, &self.build_id) {
                return object(image, is_debug_file, &places);
            }
        }
        Opened::Missing(reason)
    }
}

fn object(image: Image, is_debug_file: bool, places: &Places) -> Opened {
    Opened::Object(Box::new(ObjectFile::new(image, is_debug_file, places.clone())))
}

fn is_hexadecimal(id: &str) -> bool {
    id.len() >= 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// True for paths of files with code, unlike `[stack]`, `//anon`, and memory with a file name.
pub(super) fn is_file(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path.starts_with(b"/")
        && !path.starts_with(b"/dev/")
        && !sigprof::format::Mapping::is_anonymous_path(path)
}

/// Returns each path in the sysroot, and then as it is, because a sysroot may be incomplete.
fn below_sysroot(paths: &[PathBuf], sysroot: Option<&Path>) -> Vec<PathBuf> {
    let below = |path: &PathBuf| sysroot.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
    paths.iter().filter_map(below).chain(paths.iter().cloned()).collect()
}
