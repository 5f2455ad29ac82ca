//! Debug information that stands in a file of its own: by build id, or by the name that the binary gives (GDB's manual, "Debugging
//! Information in Separate Files"), what several such files have in common (`dwz`), and split DWARF.

use super::{
    debuginfod::{Servers, Wish},
    image::{Image, hexadecimal},
};
use object::Object as _;
use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Where debug files are looked for: directories as `/usr/lib/debug`, those below a sysroot first.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// In the order of preference.
    pub(super) directories: Vec<PathBuf>,
    /// Asked for what is nowhere else.
    pub(super) servers: Option<Servers>,
}

/// Where split DWARF of an object is looked for.
#[derive(Debug)]
pub(super) struct SplitPlaces {
    /// `.dwp` files, in the order of preference.
    pub(super) packages: Vec<PathBuf>,
    /// Directories of `.dwo` files that are not at the path that the compiler wrote them to.
    folders: Vec<PathBuf>,
}

impl SplitPlaces {
    /// The `.dwo` files that may be the one that a compiler has called `name` in `directory`.
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
    /// The debug file of a build id, in hexadecimal digits; any that is found there has that id inside.
    pub(super) fn by_build_id(&self, build_id: &str) -> Option<Image> {
        let name = build_id_file(build_id, "debug")?;
        let mut images = self.directories.iter().filter_map(|place| Image::open(&place.join(&name)).ok());
        images.find(|image| image.build_id() == build_id)
    }

    /// The debug file that belongs to `image`, if it has one and it is there.
    pub(super) fn debug_file(&self, image: &Image) -> Option<Image> {
        let build_id = image.build_id();
        self.by_build_id(&build_id)
            .or_else(|| self.by_debug_link(image, &build_id))
            .or_else(|| self.on_servers(Wish::DebugFile, &build_id))
    }

    /// What a server has of a build id.
    pub(super) fn on_servers(&self, wish: Wish, build_id: &str) -> Option<Image> {
        let path = self.servers.as_ref()?.find(wish, build_id)?;
        Image::open(&path).ok().filter(|image| image.build_id() == build_id)
    }

    fn by_debug_link(&self, image: &Image, build_id: &str) -> Option<Image> {
        let elf = image.elf()?;
        let (name, checksum) = elf.gnu_debuglink().ok().flatten()?;
        let name = Path::new(OsStr::from_bytes(name));
        // A path in the place of a name could lead anywhere.
        if name.components().count() != 1 || name.file_name().is_none() {
            return None;
        }
        // Libraries are often mapped by a path with links in it, and debug files stand by the real one.
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

    /// Where split DWARF of `debug` is looked for, which is `program` or its debug file: by the names that `dwp` and debuggers
    /// give it (GDB's manual, "Debugging Information in Separate Files" and `set debug-file-directory`; LLDB's `target.debug-file-search-paths`).
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

    /// The file of what `debug` has in common with others, which `dwz` has taken out of all of them.
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
        found.or_else(|| self.by_build_id(&build_id)).or_else(|| self.on_servers(Wish::DebugFile, &build_id))
    }
}

/// The file of a build id, in hexadecimal digits, below a directory of debug files.
fn build_id_file(build_id: &str, extension: &str) -> Option<String> {
    // An id comes from a profile, or a file, that may hold anything.
    if build_id.len() < 4 || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (first, rest) = build_id.split_at(2);
    Some(format!(".build-id/{first}/{rest}.{extension}"))
}

/// The checksum of `.gnu_debuglink`.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_build_id_leads_to_no_other_place() {
        let places = Places { directories: vec!["/nowhere".into()], servers: None };
        for id in ["", "ab", "../../etc/passwd", "Go/build-id"] {
            assert!(places.by_build_id(id).is_none(), "{id}");
        }
    }
}
