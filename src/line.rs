//! One line of text for users, built without allocating, in any context.

use core::fmt;

/// Bytes of the longest line, with its newline.
const MOST: usize = 1024;

/// A line that is being built. Text that does not fit is truncated.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; MOST],
    used: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Line {
    /// Returns an empty line.
    pub const fn new() -> Self {
        Self { bytes: [0; MOST], used: 0 }
    }

    /// Appends text; line breaks, terminal escapes and other control characters become spaces.
    pub fn bytes(&mut self, text: &[u8]) {
        // Leave a byte for the newline.
        let room = self.bytes.get_mut(self.used..MOST - 1).unwrap_or_default();
        for (place, byte) in room.iter_mut().zip(text) {
            *place = if byte.is_ascii_control() { b' ' } else { *byte };
            self.used += 1;
        }
    }

    /// Appends a path; a long one is truncated, so that the text after it has room.
    pub fn path(&mut self, path: &[u8]) {
        const LONGEST: usize = 700;
        self.bytes(path.get(..LONGEST).unwrap_or(path));
        if path.len() > LONGEST {
            self.bytes(b"...");
        }
    }

    /// Returns the line with its newline.
    pub fn finished(&mut self) -> &[u8] {
        if let Some(end) = self.bytes.get_mut(self.used) {
            *end = b'\n';
        }
        self.bytes.get(..=self.used).unwrap_or_default()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write as _;

    #[test]
    fn appends_any_text_as_one_line() {
        let mut line = Line::new();
        write!(line, "a\nb\r").unwrap();
        line.bytes(b"\0\x1b[31m\xff\x7f");
        assert_eq!(line.finished(), b"a b   [31m\xff \n");
        line.bytes(&[b'x'; 2 * MOST]);
        let finished = line.finished();
        assert_eq!((finished.len(), finished.last()), (MOST, Some(&b'\n')));
        assert_eq!(finished.iter().filter(|byte| **byte == b'\n').count(), 1);
    }

    #[test]
    fn leaves_room_after_a_long_path() {
        let mut line = Line::new();
        line.path(&[b'p'; 5000]);
        line.bytes(b": the reason");
        assert!(line.finished().ends_with(b"p...: the reason\n"));
    }
}
