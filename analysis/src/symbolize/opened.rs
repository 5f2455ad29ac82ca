//! Finds the file of a mapping, and tells whether it is the one that ran.

use super::{
    KeptObject, Options, debug_files::Places, debuginfod::Wish, image::Image, object_file::ObjectFile,
    stand_in, vdso,
};
use crate::profile::Mapping;
use std::{os::unix::ffi::OsStrExt as _, path::Path, path::PathBuf, sync::Arc};

/// What identifies the object of a mapping.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectKey {
    file: PathBuf,
    build_id: Arc<str>,
    is_deleted: bool,
    /// It is the program itself, and the user has said which file that is.
    is_given: bool,
}

/// A mapping's object, or why there is none.
pub(super) enum Opened {
    Object(Box<ObjectFile>),
    /// The reason, and what to do; None where nobody expects names.
    Missing(Option<String>),
}

impl ObjectKey {
    /// That of a mapping. `program` is the file of the profile's first mapping.
    pub(super) fn new(mapping: &Mapping, program: Option<&Path>, options: &Options) -> Self {
        Self {
            file: mapping.file.clone(),
            // Go has ids of its own that no linker wrote.
            build_id: if is_hexadecimal(&mapping.build_id) { mapping.build_id.clone() } else { "".into() },
            is_deleted: mapping.is_deleted,
            is_given: options.binary.is_some() && program == Some(&mapping.file),
        }
    }

    /// True where it is certain which file ran: by its build id, or by the user's word.
    pub(super) fn is_certain(&self) -> bool {
        !self.build_id.is_empty() || self.is_given
    }

    /// What reports call it.
    pub(super) fn short_name(&self) -> String {
        stand_in::object(&self.file)
    }

    /// Opens the object. Names of a file that is not the one that ran are worse than none, so whatever tells of another is
    /// heeded: the build id, and the kernel's word that the file was deleted. A file without an id is believed.
    pub(super) fn open(&self, options: &Options) -> Opened {
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
        for (wish, is_debug_file) in [(Wish::Binary, false), (Wish::DebugFile, true)] {
            if let Some(image) = places.on_servers(wish, &self.build_id) {
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

/// True for paths that name a file of code: not for names such as `[stack]` and `//anon`, and memory that has the name of a file.
pub(super) fn is_file(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path.starts_with(b"/")
        && !path.starts_with(b"/dev/")
        && !sigprof::format::Mapping::is_anonymous_path(path)
}

/// Each path below the sysroot, and then, since a sysroot may hold but a part, as it is.
fn below_sysroot(paths: &[PathBuf], sysroot: Option<&Path>) -> Vec<PathBuf> {
    let below = |path: &PathBuf| sysroot.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
    paths.iter().filter_map(below).chain(paths.iter().cloned()).collect()
}
