//! The place that a row of a report represents, and its name.

use crate::text::{object_name, visible};
use std::{fmt, path::Path, sync::Arc};

/// A function, line, file, instruction or object; unknown and unwanted parts are empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The function.
    pub name: Arc<str>,
    /// The source file, without `.`, `..` and doubled slashes.
    pub file: Arc<str>,
    /// The line in `file`.
    pub line: i64,
    /// The address in the process.
    pub address: u64,
    /// The path of the object, if there is no other name, or addresses identify rows.
    pub object: Arc<str>,
}

impl fmt::Display for Place {
    /// Writes the known parts, escaped: address, name, file, line; or else `[object]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if self.address != 0 {
            write!(f, "{:016x}", self.address)?;
            gap = " ";
        }
        if !self.name.is_empty() {
            write!(f, "{gap}{}", visible(&self.name))?;
            gap = " ";
        }
        if self.line != 0 {
            write!(f, "{gap}{}:{}", visible(&self.file), self.line)
        } else if !self.file.is_empty() {
            write!(f, "{gap}{}", visible(&self.file))
        } else if !self.name.is_empty() {
            Ok(())
        } else if !self.object.is_empty() {
            let name = object_name(Path::new(&*self.object)).to_str().filter(|name| !name.is_empty());
            write!(f, "{gap}[{}]", visible(name.unwrap_or(&self.object)))
        } else {
            write!(f, "{gap}<unknown>")
        }
    }
}

/// Normalises a path: removes `.`, `..` after a name, and double slashes.
pub(crate) fn clean_path(path: &Arc<str>) -> Arc<str> {
    let is_clean = !path.is_empty() && !path.ends_with('/') && {
        let parts = path.strip_prefix('/').unwrap_or(path);
        parts.split('/').all(|part| !matches!(part, "" | "." | ".."))
    };
    if is_clean || path.is_empty() {
        return path.clone();
    }
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => _ = parts.pop(),
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    match (is_absolute, path.is_empty()) {
        (true, _) => format!("/{path}").into(),
        (false, true) => ".".into(),
        (false, false) => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_known_parts_of_a_place() {
        let of = |name: &str, file: &str, line, address, object: &str| {
            Place { name: name.into(), file: file.into(), line, address, object: object.into() }.to_string()
        };
        assert_eq!(of("main", "", 0, 0, "/bin/a"), "main");
        assert_eq!(of("main", "a.c", 7, 0, ""), "main a.c:7");
        assert_eq!(of("main", "a.c", 0, 0, ""), "main a.c");
        assert_eq!(of("main", "a.c", 7, 0x401000, ""), "0000000000401000 main a.c:7");
        assert_eq!(of("", "a.c", 0, 0, "/bin/a"), "a.c");
        assert_eq!(of("", "", 0, 0x10, "/usr/bin/perl"), "0000000000000010 [perl]");
        assert_eq!(of("", "", 0, 0, "[vdso]"), "[vdso]");
        assert_eq!(of("", "", 0, 0, ""), "<unknown>");
        // Text of an untrusted file, on a terminal.
        assert_eq!(of("\x1b[2J", "\ta\u{202e}.c", 0, 0, ""), "\u{fffd}[2J \u{fffd}a\u{fffd}.c");
    }

    #[test]
    fn normalises_paths() {
        for (path, clean) in [
            ("", ""),
            ("a/b.c", "a/b.c"),
            ("/a/b.c", "/a/b.c"),
            ("./a//b.c", "a/b.c"),
            ("/a/x/../b.c", "/a/b.c"),
            ("/../b.c", "/b.c"),
            ("../../b.c", "../../b.c"),
            ("a/..", "."),
            ("/", "/"),
            ("a/", "a"),
        ] {
            assert_eq!(&*clean_path(&path.into()), clean, "{path}");
        }
    }
}
