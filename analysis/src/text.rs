//! Sanitizing of untrusted text from profiles and object files.

use std::{borrow::Cow, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

/// Replaces characters that move the cursor, are invalid in XML, or change the text direction.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_foreign = |character: char| {
        let is_turn = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        character.is_control() || is_turn || matches!(character, '\u{fffe}' | '\u{ffff}')
    };
    if text.contains(is_foreign) { text.replace(is_foreign, "\u{fffd}").into() } else { text.into() }
}

/// Converts a name or path of an object file: without control characters, at most 64 KiB.
pub(crate) fn printable(text: &[u8]) -> String {
    const MOST: usize = 1 << 16;
    let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
    if text.contains(char::is_control) {
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    } else {
        text.into_owned()
    }
}

/// Returns the file name in an object's path: `a.so` for `/lib/a.so`, `vdso` for `[vdso]`.
pub(crate) fn object_name(path: &Path) -> &OsStr {
    let name = path.file_name().unwrap_or(OsStr::new("")).as_bytes();
    OsStr::from_bytes(name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name))
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_control_characters_in_names() {
        assert_eq!(printable(b"a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(printable(&[b'x'; 1 << 17]).len(), 1 << 16);
    }

    #[test]
    fn escapes_markup() {
        assert_eq!(escaped("a<b>&amp;\"'"), "a&lt;b&gt;&amp;amp;\"'");
    }
}
