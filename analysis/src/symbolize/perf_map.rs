//! Symbols that JIT compilers write to `/tmp/perf-PID.map`: lines `START SIZE NAME` with
//! hexadecimal numbers (tools/perf/Documentation/jit-interface.txt in the kernel's sources).

use super::image::map_file;
use crate::error::{Error, ErrorKind};
use crate::text::printable;
use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
};

/// A piece of JIT code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its name, shared by all addresses.
    pub name: Arc<str>,
    /// Its addresses in the process.
    pub range: Range<u64>,
}

/// Looks up sorted `addresses` in the text of a map. If ranges overlap, the later line counts,
/// because compilers reuse memory. Invalid lines are skipped, as the last one may be incomplete.
pub fn find(text: &[u8], addresses: &[u64]) -> Vec<Option<Code>> {
    let mut found: Vec<Option<Code>> = vec![None; addresses.len()];
    // Lines are read backwards. `open` leads from each index to the next unnamed address or the end
    // (union-find), so that lines with huge ranges do not take longer.
    let mut open: Vec<usize> = (0..=addresses.len()).collect();
    for line in text.rsplit(|&byte| byte == b'\n') {
        let Some((range, name)) = parse_line(line) else { continue };
        let first = addresses.partition_point(|&address| address < range.start);
        let mut place = next_open(&mut open, first);
        let mut shared: Option<Arc<str>> = None;
        while addresses.get(place).is_some_and(|&address| address < range.end) {
            let name = shared.get_or_insert_with(|| printable(name).into()).clone();
            found[place] = Some(Code { name, range: range.clone() });
            open[place] = place + 1;
            place = next_open(&mut open, place);
        }
    }
    found
}

/// Returns the first unnamed index from `place` on, with path compression.
fn next_open(open: &mut [usize], mut place: usize) -> usize {
    while open[place] != place {
        open[place] = open[open[place]];
        place = open[place];
    }
    place
}

fn parse_line(line: &[u8]) -> Option<(Range<u64>, &[u8])> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let word = std::str::from_utf8(words.next()?).ok()?;
        let word = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(word, 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim_ascii();
    let end = start.checked_add(size)?;
    (!name.is_empty()).then_some((start..end, name))
}

/// Looks up `addresses` in a file, as [`find`] does; None if it does not exist.
///
/// # Errors
/// If it is not a regular file of this user or root: any user can write to /tmp.
pub(super) fn find_in_file(path: &Path, addresses: &[u64]) -> Result<Option<Vec<Option<Code>>>, Error> {
    let fails = |error| Error::io(path, "read the names of generated code", error);
    // Symbolic links are not followed, and pipes not opened.
    let Ok(status) = fs::symlink_metadata(path) else { return Ok(None) };
    let user = fs::metadata("/proc/self").map_err(fails)?.uid();
    let refused =
        |reason: &str| Error::new(ErrorKind::Io, format!("{reason}, so its names are not taken")).at(path);
    if !status.is_file() {
        return Err(refused("is not a regular file"));
    }
    if status.uid() != user && status.uid() != 0 {
        return Err(refused("belongs to another user"));
    }
    let file = File::open(path).map_err(fails)?;
    let opened = file.metadata().map_err(fails)?;
    if (opened.dev(), opened.ino()) != (status.dev(), status.ino()) {
        return Err(refused("was replaced while it was opened"));
    }
    if opened.len() == 0 {
        return Ok(Some(vec![None; addresses.len()]));
    }
    Ok(Some(find(&map_file(&file).map_err(fails)?, addresses)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, addresses: &[u64]) -> Vec<Option<String>> {
        find(text.as_bytes(), addresses)
            .into_iter()
            .map(|code| code.map(|code| code.name.to_string()))
            .collect()
    }

    #[test]
    fn finds_the_line_that_contains_an_address() {
        let text = "1000 10 first\n0x2000 0x8 a name with spaces\n";
        let found = names(text, &[0xfff, 0x1000, 0x100f, 0x1010, 0x2007, 0x2008]);
        let expected = [None, Some("first"), Some("first"), None, Some("a name with spaces"), None];
        assert_eq!(found, expected.map(|name| name.map(str::to_owned)));
    }

    #[test]
    fn prefers_the_later_of_two_lines() {
        let text = "1000 100 old\n1080 10 new\n";
        let expected = ["old", "new", "old"].map(|name| Some(name.to_owned()));
        assert_eq!(names(text, &[0x1000, 0x1080, 0x1090]), expected);
    }

    /// Compared with a linear search.
    #[test]
    fn finds_the_last_of_many_lines() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let lines: Vec<(u64, u64)> = (0..random(12)).map(|_| (random(40), random(20))).collect();
            let text: String =
                (0..).zip(&lines).map(|(i, (at, size))| format!("{at:x} {size:x} f{i}\n")).collect();
            let addresses: Vec<u64> = (0..64).filter(|_| random(3) > 0).collect();
            let expected = addresses.iter().map(|&address| {
                let around = |&(at, size): &(u64, u64)| (at..at + size).contains(&address);
                lines.iter().rposition(around).map(|i| format!("f{i}"))
            });
            assert_eq!(names(&text, &addresses), expected.collect::<Vec<_>>(), "{text}{addresses:x?}");
        }
    }

    #[test]
    fn skips_invalid_lines() {
        let text =
            "\n1000\n1000 10\n1000 10 \nxyz 10 a\nffffffffffffffff 10 wraps\n1000 zz b\n1000 10 good\n1000 1";
        assert_eq!(names(text, &[0x1000, u64::MAX]), [Some("good".to_owned()), None]);
    }

    #[test]
    fn refuses_a_map_of_another_user() {
        let directory = tempfile::tempdir().expect("a directory");
        let real = directory.path().join("real");
        fs::write(&real, "1000 10 f\n").expect("written");
        let link = directory.path().join("perf-1.map");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        assert!(
            find_in_file(&link, &[0x1000])
                .is_err_and(|error| error.to_string().contains("not a regular file"))
        );
        let found = find_in_file(&real, &[0x1000]).expect("is ours").expect("is there");
        assert_eq!(found[0].as_ref().map(|code| &*code.name), Some("f"));
        assert!(matches!(find_in_file(&directory.path().join("none"), &[1]), Ok(None)));
    }
}
