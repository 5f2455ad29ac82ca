//! Text of profiles and object files, which may hold anything, made fit to be shown.

use std::{borrow::Cow, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

/// Text with marks instead of characters that move a terminal's cursor, that XML does not know, or that turn the text around
/// them from right to left.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_foreign = |character: char| {
        let is_turn = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        character.is_control() || is_turn || matches!(character, '\u{fffe}' | '\u{ffff}')
    };
    if text.contains(is_foreign) { text.replace(is_foreign, "\u{fffd}").into() } else { text.into() }
}

/// A name or a path of an object file, with marks instead of control characters, and at most 64 KiB long.
pub(crate) fn printable(text: &[u8]) -> String {
    const MOST: usize = 1 << 16;
    let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
    if text.contains(char::is_control) {
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    } else {
        text.into_owned()
    }
}

/// The last part of an object's path, without brackets: `a.so` for `/lib/a.so`, `vdso` for `[vdso]`.
pub(crate) fn object_name(path: &Path) -> &OsStr {
    let name = path.file_name().unwrap_or(OsStr::new("")).as_bytes();
    OsStr::from_bytes(name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name))
}

/// Text between the tags of HTML or XML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(printable(b"a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(printable(&[b'x'; 1 << 17]).len(), 1 << 16);
    }

    #[test]
    fn a_title_is_no_markup() {
        assert_eq!(escaped("a<b>&amp;\"'"), "a&lt;b&gt;&amp;amp;\"'");
    }
}
