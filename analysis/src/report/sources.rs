//! Source files, found by the names that debug information has for them.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// Where source files are looked for.
#[derive(Clone, Debug, Default)]
pub struct SourcePaths {
    /// Directories that hold the sources, looked in first.
    pub directories: Vec<PathBuf>,
    /// Beginnings of the files' names, as on the machine that built the program, to take off.
    pub prefixes: Vec<PathBuf>,
}

/// The lines of files that were read, or where they were looked for.
#[derive(Debug)]
pub(super) struct SourceFiles {
    paths: SourcePaths,
    files: HashMap<String, Source>,
}

/// A source file.
#[derive(Debug)]
pub(super) enum Source {
    /// Its lines.
    Found(Vec<String>),
    /// Where it is not.
    Missing(Vec<PathBuf>),
}

/// More than the largest sources that people write; what is larger was generated, or is no source.
const MAX_BYTES: u64 = 64 << 20;

impl SourceFiles {
    pub(super) fn new(paths: SourcePaths) -> Self {
        Self { paths, files: HashMap::new() }
    }

    /// The file that debug information calls `name`.
    pub(super) fn get(&mut self, name: &str) -> &Source {
        let paths = &self.paths;
        self.files.entry(name.to_owned()).or_insert_with(|| {
            let candidates = paths.candidates(Path::new(name));
            candidates.iter().find_map(|path| read(path)).unwrap_or(Source::Missing(candidates))
        })
    }
}

impl SourcePaths {
    /// Where a file may be: below each directory by its whole name, then by ever shorter ends of it; at last, where the name
    /// itself says.
    pub(super) fn candidates(&self, name: &Path) -> Vec<PathBuf> {
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

/// The lines of a regular file; others could make us wait.
fn read(path: &Path) -> Option<Source> {
    let status = fs::metadata(path).ok()?;
    if !status.is_file() || status.len() > MAX_BYTES {
        return None;
    }
    let text = fs::read(path).ok()?;
    Some(Source::Found(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_by_ever_shorter_ends_of_their_names() {
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
