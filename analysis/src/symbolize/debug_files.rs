//! Separate debug files, found by build ID or `.gnu_debuglink` (GDB's manual, "Debugging
//! Information in Separate Files"), supplementary files of `dwz`, and split DWARF.

use super::{
    debuginfod::{FileKind, Servers},
    image::{Image, hexadecimal},
};
use object::Object as _;
use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Search paths of debug files: directories such as `/usr/lib/debug`, those in a sysroot first.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) directories: Vec<PathBuf>,
    /// Used for files that are not found elsewhere.
    pub(super) servers: Option<Servers>,
}

/// Search paths of an object's split DWARF.
#[derive(Debug)]
pub(super) struct SplitPlaces {
    /// `.dwp` files, in the order of preference.
    pub(super) packages: Vec<PathBuf>,
    /// Directories of `.dwo` files that were moved after compilation.
    folders: Vec<PathBuf>,
}

impl SplitPlaces {
    /// Returns possible paths of the `.dwo` file that a compiler called `name` in `directory`.
    pub(super) fn files(&self, directory: &Path, name: &Path) -> Vec<PathBuf> {
        let mut files = vec![directory.join(name)];
        for folder in &self.folders {
            files.push(folder.join(name.strip_prefix("/").unwrap_or(name)));
            files.extend(name.file_name().map(|name| folder.join(name)));
        }
        files.dedup();
        files
    }
}

impl Places {
    /// Returns the debug file of a build ID in hexadecimal digits, if it contains that ID.
    pub(super) fn by_build_id(&self, build_id: &str) -> Option<Image> {
        let name = build_id_file(build_id, "debug")?;
        let mut images = self.directories.iter().filter_map(|place| Image::open(&place.join(&name)).ok());
        images.find(|image| image.build_id() == build_id)
    }

    pub(super) fn debug_file(&self, image: &Image) -> Option<Image> {
        let build_id = image.build_id();
        self.by_build_id(&build_id)
            .or_else(|| self.by_debug_link(image, &build_id))
            .or_else(|| self.on_servers(FileKind::DebugFile, &build_id))
    }

    pub(super) fn on_servers(&self, kind: FileKind, build_id: &str) -> Option<Image> {
        let path = self.servers.as_ref()?.find(kind, build_id)?;
        Image::open(&path).ok().filter(|image| image.build_id() == build_id)
    }

    fn by_debug_link(&self, image: &Image, build_id: &str) -> Option<Image> {
        let elf = image.elf()?;
        let (name, checksum) = elf.gnu_debuglink().ok().flatten()?;
        let name = Path::new(OsStr::from_bytes(name));
        // Only a file name: a path could refer to any file.
        if name.components().count() != 1 || name.file_name().is_none() {
            return None;
        }
        // Libraries are often mapped by a path with symbolic links; debug files use the real path.
        let real = std::fs::canonicalize(image.path()).ok();
        let folders = [image.path().parent(), real.as_deref().and_then(Path::parent)];
        for folder in folders.into_iter().flatten() {
            let below = folder.strip_prefix("/").unwrap_or(folder);
            let global = self.directories.iter().map(|place| place.join(below));
            for candidate in [folder.to_owned(), folder.join(".debug")].into_iter().chain(global) {
                let candidate = candidate.join(name);
                if candidate == image.path() {
                    continue;
                }
                let Ok(debug) = Image::open(&candidate) else { continue };
                let debug_id = debug.build_id();
                let belongs = if build_id.is_empty() || debug_id.is_empty() {
                    crc32(debug.bytes()) == checksum
                } else {
                    build_id == debug_id
                };
                if belongs {
                    return Some(debug);
                }
            }
        }
        None
    }

    /// Returns the search paths of split DWARF for `debug`, which is `program` or its debug file:
    /// the names of `dwp` and debuggers (GDB's manual, "Debugging Information in Separate Files"
    /// and `set debug-file-directory`; LLDB's `target.debug-file-search-paths`).
    pub(super) fn split_places(&self, debug: &Image, program: &Image) -> SplitPlaces {
        let real = std::fs::canonicalize(program.path()).ok();
        let files: Vec<&Path> =
            [Some(program.path()), real.as_deref(), Some(debug.path())].into_iter().flatten().collect();
        let package = |file: PathBuf| {
            let mut name = file.into_os_string();
            name.push(".dwp");
            PathBuf::from(name)
        };
        let mut packages: Vec<PathBuf> = files.iter().map(|file| package(file.to_path_buf())).collect();
        let below = |file: &Path| file.strip_prefix("/").unwrap_or(file).to_owned();
        for place in &self.directories {
            packages.extend(files.iter().map(|file| package(place.join(below(file)))));
            packages.extend(build_id_file(&program.build_id(), "dwp").map(|file| place.join(file)));
        }
        let mut folders: Vec<PathBuf> =
            files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
        folders.extend(self.directories.iter().cloned());
        for paths in [&mut packages, &mut folders] {
            let mut seen = HashSet::new();
            paths.retain(|path| seen.insert(path.clone()));
        }
        SplitPlaces { packages, folders }
    }

    /// Returns the supplementary file of `debug`, in which `dwz` put parts common to several files.
    pub(super) fn common_file(&self, debug: &Image) -> Option<Image> {
        let elf = debug.elf()?;
        let (name, build_id) = elf.gnu_debugaltlink().ok().flatten()?;
        let build_id = hexadecimal(build_id);
        let name = Path::new(OsStr::from_bytes(name));
        let folder = debug.path().parent().unwrap_or(Path::new("/"));
        let below = name.strip_prefix("/usr/lib/debug").ok();
        let moved =
            below.into_iter().flat_map(|below| self.directories.iter().map(move |place| place.join(below)));
        let mut candidates = std::iter::once(folder.join(name)).chain(moved);
        let found =
            candidates.find_map(|path| Image::open(&path).ok().filter(|image| image.build_id() == build_id));
        found
            .or_else(|| self.by_build_id(&build_id))
            .or_else(|| self.on_servers(FileKind::DebugFile, &build_id))
    }
}

/// Returns the path of a build ID's file in a directory of debug files.
fn build_id_file(build_id: &str, extension: &str) -> Option<String> {
    // Build IDs come from untrusted profiles and files.
    if build_id.len() < 4 || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (first, rest) = build_id.split_at(2);
    Some(format!(".build-id/{first}/{rest}.{extension}"))
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_the_standard_crc32() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn refuses_invalid_build_ids() {
        let places = Places { directories: vec!["/nowhere".into()], servers: None };
        for id in ["", "ab", "../../etc/passwd", "Go/build-id"] {
            assert!(places.by_build_id(id).is_none(), "{id}");
        }
    }
}
