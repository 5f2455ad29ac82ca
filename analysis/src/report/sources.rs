//! Lookup of source files by their names in debug information.

use crate::source_file::{self, MAX_BYTES};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Search paths of source files.
#[derive(Clone, Debug, Default)]
pub struct SourcePaths {
    /// Directories with sources, searched first.
    pub directories: Vec<PathBuf>,
    /// Prefixes of names on the build machine, which are removed.
    pub prefixes: Vec<PathBuf>,
}

#[derive(Debug)]
pub(super) struct SourceFiles {
    paths: SourcePaths,
    files: HashMap<String, Source>,
}

#[derive(Debug)]
pub(super) enum Source {
    Found(Vec<String>),
    /// The paths that do not exist.
    Missing(Vec<PathBuf>),
}

impl SourceFiles {
    pub(super) fn new(paths: SourcePaths) -> Self {
        Self { paths, files: HashMap::new() }
    }

    /// Returns the file with this name in debug information.
    pub(super) fn get(&mut self, name: &str) -> &Source {
        let paths = &self.paths;
        self.files.entry(name.to_owned()).or_insert_with(|| {
            let candidates = paths.candidates(Path::new(name));
            let text = candidates.iter().find_map(|path| source_file::read(path, MAX_BYTES));
            match text {
                Some(text) => {
                    Source::Found(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
                }
                None => Source::Missing(candidates),
            }
        })
    }
}

impl SourcePaths {
    /// Returns possible paths: in each directory ever shorter ends of the name; then the name.
    pub(crate) fn candidates(&self, name: &Path) -> Vec<PathBuf> {
        let trimmed = self.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix).ok()).unwrap_or(name);
        let parts: Vec<_> =
            trimmed.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
        let mut candidates = Vec::new();
        for directory in &self.directories {
            for skipped in 0..parts.len() {
                candidates.push(directory.join(parts[skipped..].iter().collect::<PathBuf>()));
            }
        }
        candidates.push(trimmed.to_path_buf());
        if trimmed != name {
            candidates.push(name.to_path_buf());
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_files_by_ever_shorter_ends_of_their_names() {
        let paths = SourcePaths { directories: vec!["/here".into()], prefixes: vec!["/build".into()] };
        let shown = |name: &str| {
            let candidates = paths.candidates(Path::new(name));
            candidates.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(shown("/build/a/b.c"), ["/here/a/b.c", "/here/b.c", "a/b.c", "/build/a/b.c"]);
        assert_eq!(shown("/usr/b.c"), ["/here/usr/b.c", "/here/b.c", "/usr/b.c"]);
        assert_eq!(shown("b.c"), ["/here/b.c", "b.c"]);
    }
}
