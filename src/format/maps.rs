//! Lines of the "Text List of Mapped Objects", as bytes.
//!
//! The kernel's form is described in `proc_pid_maps(5)`:
//!
//! ```text
//! 40000000-40015000 r-xp 00000000 03:01 12845071   /lib/ld-2.3.2.so
//! start    end      perm offset   dev   inode      path, from a fixed column on
//! ```
//!
//! google/pprof also reads `start-end: path (@offset) buildid`; the last two parts are optional.

use std::borrow::Cow;
use std::io::{self, Write};

use super::word::SlotWidth;

/// A range of addresses of the profiled process, and the object that is mapped there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// First address after the range; above `start`.
    pub end: u64,
    /// Access to the memory.
    pub permissions: Permissions,
    /// Offset of the range in the file, in bytes.
    pub offset: u64,
    /// The device of the file; 0:0 without one.
    pub device: Device,
    /// The inode of the file; 0 without one.
    pub inode: u64,
    /// The path as in the line, also with ` (deleted)` or a name such as `[vdso]`; may be empty.
    pub path: Cow<'a, [u8]>,
    /// The linker's build ID in hexadecimal digits; empty except in google/pprof's form.
    pub build_id: Cow<'a, [u8]>,
}

impl<'a> Mapping<'a> {
    /// Reads one line without its newline; `None` if it is not a mapping.
    ///
    /// The line must begin with the first address. google/pprof's form must begin with `0x` or have
    /// a colon after the range; its default memory is private, readable and executable.
    pub fn parse_line(line: &'a [u8]) -> Option<Self> {
        parse_kernel_line(line).or_else(|| parse_brief_line(line))
    }

    /// True if the memory is executable.
    pub fn is_executable(&self) -> bool {
        self.permissions.execute
    }

    /// True for memory without a file on disk: unnamed or named by the application
    /// (`PR_SET_VMA_ANON_NAME`), shared, huge pages, `memfd_create(2)`; not `[heap]`, `[vdso]`.
    pub fn is_anonymous(&self) -> bool {
        Self::is_anonymous_path(&self.path)
    }

    /// Like [`is_anonymous`](Self::is_anonymous), for the path of a line.
    pub fn is_anonymous_path(path: &[u8]) -> bool {
        let names: [&[u8]; 7] =
            [b"//anon", b"/anon_hugepage", b"/dev/zero", b"/memfd:", b"/SYSV", b"[anon:", b"[anon_shmem:"];
        path.is_empty() || names.iter().any(|name| path.starts_with(name))
    }

    /// Returns the path without ` (deleted)`, and whether the file was deleted or replaced.
    pub fn file(&self) -> (&[u8], bool) {
        let path = self.path.strip_suffix(b" (deleted)");
        (path.unwrap_or(&self.path), path.is_some())
    }

    /// True if `address` is in the range.
    pub fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// True if the two ranges have an address in common.
    pub fn overlaps(&self, other: &Mapping<'_>) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Writes the line with its newline, as a kernel with pointers of this width does, without the
    /// build ID. The path begins in column 73 (counted from 0), in column 49 for 4-byte pointers,
    /// or after two spaces if the fields before it are longer. A newline in the path is written as
    /// `\012`. Allocates nothing.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write_line(&self, out: &mut impl Write, width: SlotWidth) -> io::Result<()> {
        let mut line = LineStart { bytes: [0; LINE_START], length: 0 };
        line.number(self.start, 16, 8);
        line.push(b"-");
        line.number(self.end, 16, 8);
        line.push(b" ");
        line.push(&self.permissions.letters());
        line.push(b" ");
        line.number(self.offset, 16, 8);
        line.push(b" ");
        line.number(u64::from(self.device.major), 16, 2);
        line.push(b":");
        line.number(u64::from(self.device.minor), 16, 2);
        line.push(b" ");
        line.number(self.inode, 10, 1);
        line.push(b" ");
        if !self.path.is_empty() {
            // As the kernel's `show_vma_header_prefix` (fs/proc/task_mmu.c) does.
            line.pad_to(24 + 6 * width.bytes());
            line.push(b" ");
        }
        out.write_all(line.as_bytes())?;
        let mut parts = self.path.split(|&byte| byte == b'\n');
        out.write_all(parts.next().unwrap_or_default())?;
        for part in parts {
            out.write_all(b"\\012")?;
            out.write_all(part)?;
        }
        out.write_all(b"\n")
    }

    /// Returns the mapping with its own copies of the path and the build ID.
    pub fn into_owned(self) -> Mapping<'static> {
        Mapping {
            path: Cow::Owned(self.path.into_owned()),
            build_id: Cow::Owned(self.build_id.into_owned()),
            ..self
        }
    }
}

/// Access to mapped memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Permissions {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
    /// Shared with other processes, not copied on write.
    pub shared: bool,
}

impl Permissions {
    /// Returns the four letters of a line, such as `r-xp`.
    pub const fn letters(self) -> [u8; 4] {
        [
            if self.read { b'r' } else { b'-' },
            if self.write { b'w' } else { b'-' },
            if self.execute { b'x' } else { b'-' },
            if self.shared { b's' } else { b'p' },
        ]
    }

    /// Reads four letters; gperftools writes `-` instead of the kernel's `s`.
    fn parse(letters: &[u8]) -> Option<Self> {
        let &[read, write, execute, shared] = letters else { return None };
        Some(Self {
            read: flag(read, b'r', b"-")?,
            write: flag(write, b'w', b"-")?,
            execute: flag(execute, b'x', b"-")?,
            shared: !flag(shared, b'p', b"s-")?,
        })
    }
}

/// Number of the device that has a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// The driver's number.
    pub major: u32,
    /// The unit's number.
    pub minor: u32,
}

fn parse_kernel_line(line: &[u8]) -> Option<Mapping<'_>> {
    let (start, line) = split_number(line, 16)?;
    let (end, line) = split_number(line.strip_prefix(b"-")?, 16)?;
    let (permissions, line) = line.strip_prefix(b" ")?.split_at_checked(4)?;
    let (offset, line) = split_number(strip_spaces(line)?, 16)?;
    let (major, line) = split_number(strip_spaces(line)?, 16)?;
    let (minor, line) = split_number(line.strip_prefix(b":")?, 16)?;
    let (inode, line) = split_number(strip_spaces(line)?, 10)?;
    let path = if line.is_empty() { line } else { strip_spaces(line)? };
    let device = Device { major: u32::try_from(major).ok()?, minor: u32::try_from(minor).ok()? };
    (start < end).then_some(Mapping {
        start,
        end,
        permissions: Permissions::parse(permissions)?,
        offset,
        device,
        inode,
        path: Cow::Borrowed(path),
        build_id: Cow::Borrowed(b""),
    })
}

fn parse_brief_line(line: &[u8]) -> Option<Mapping<'_>> {
    let prefixed = line.starts_with(b"0x");
    let (start, line) = split_number(line.strip_prefix(b"0x").unwrap_or(line), 16)?;
    let line = line.strip_prefix(b"-")?;
    let (end, line) = split_number(line.strip_prefix(b"0x").unwrap_or(line), 16)?;
    let line = match line.strip_prefix(b":") {
        Some(line) => line,
        None if prefixed => line,
        None => return None,
    };
    let line = strip_spaces(line)?;
    let (word, rest) = split_word(line);
    let (permissions, line) = match Permissions::parse(word) {
        Some(permissions) => (permissions, strip_spaces(rest).unwrap_or_default()),
        None => (Permissions { read: true, write: false, execute: true, shared: false }, line),
    };
    let (path, offset, rest) = split_offset(line).unwrap_or_else(|| {
        let (path, rest) = split_word(line);
        (path, 0, rest)
    });
    let (build_id, _) = split_word(strip_spaces(rest).unwrap_or_default());
    let is_build_id = build_id.iter().all(u8::is_ascii_hexdigit);
    (start < end && !path.is_empty() && is_build_id).then_some(Mapping {
        start,
        end,
        permissions,
        offset,
        device: Device::default(),
        inode: 0,
        path: Cow::Borrowed(path),
        build_id: Cow::Borrowed(build_id),
    })
}

/// Splits `path (@offset)rest`.
fn split_offset(line: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let at = line.windows(3).rposition(|bytes| bytes == b" (@")?;
    let (path, rest) = line.split_at_checked(at)?;
    let (offset, rest) = split_number(rest.strip_prefix(b" (@")?, 16)?;
    Some((path.trim_ascii_end(), offset, rest.strip_prefix(b")")?))
}

/// Reads the digits at the start of `text`; `None` without digits or above 64 bits.
fn split_number(text: &[u8], base: u32) -> Option<(u64, &[u8])> {
    let mut rest = text;
    let mut number: u64 = 0;
    while let Some((&byte, after)) = rest.split_first() {
        let Some(digit) = char::from(byte).to_digit(base) else { break };
        number = number.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
        rest = after;
    }
    (rest.len() < text.len()).then_some((number, rest))
}

fn strip_spaces(text: &[u8]) -> Option<&[u8]> {
    let stripped = text.trim_ascii_start();
    (stripped.len() < text.len()).then_some(stripped)
}

fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, b""))
}

fn flag(letter: u8, set: u8, clear: &[u8]) -> Option<bool> {
    if letter == set { Some(true) } else { clear.contains(&letter).then_some(false) }
}

/// Room for all fields before the path at their widest, 97 bytes, and for the padding.
const LINE_START: usize = 128;

struct LineStart {
    bytes: [u8; LINE_START],
    length: usize,
}

impl LineStart {
    fn push(&mut self, text: &[u8]) {
        let end = self.length.saturating_add(text.len());
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            // `copy_from_slice` would compile to a panic for different lengths.
            room.iter_mut().zip(text).for_each(|(place, &byte)| *place = byte);
            self.length = end;
        }
    }

    /// Appends at least `width` digits, with leading zeros.
    fn number(&mut self, number: u64, base: u64, width: usize) {
        let mut digits = [b'0'; 20];
        let mut rest = number;
        let mut used = 0;
        for place in digits.iter_mut().rev() {
            if rest == 0 && used >= width {
                break;
            }
            let digit = rest.checked_rem(base).unwrap_or(0) as u32;
            *place = char::from_digit(digit, 16).unwrap_or('0') as u8;
            rest = rest.checked_div(base).unwrap_or(0);
            used = used.saturating_add(1);
        }
        self.push(digits.get(digits.len().saturating_sub(used)..).unwrap_or_default());
    }

    fn pad_to(&mut self, column: usize) {
        while self.length < column.min(LINE_START) {
            self.push(b" ");
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &[u8] = b"40000000-40015000 r-xp 00000000 03:01 12845071   /lib/ld-2.3.2.so";

    fn formatted(mapping: &Mapping<'_>, width: SlotWidth) -> Vec<u8> {
        let mut line = Vec::new();
        mapping.write_line(&mut line, width).unwrap();
        assert_eq!(line.pop(), Some(b'\n'));
        line
    }

    #[test]
    fn reads_and_writes_the_line_of_the_document() {
        let mapping = Mapping::parse_line(DOCUMENT).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x4000_0000, 0x4001_5000));
        assert_eq!((mapping.device, mapping.inode), (Device { major: 3, minor: 1 }, 12_845_071));
        assert_eq!(*mapping.path, b"/lib/ld-2.3.2.so"[..]);
        assert!(mapping.is_executable() && !mapping.permissions.write && !mapping.permissions.shared);
        assert_eq!(formatted(&mapping, SlotWidth::Four), DOCUMENT);
    }

    #[test]
    fn writes_64_bit_lines_as_the_kernel_does() {
        let lines: [&[u8]; 5] = [
            b"7f1c3d600000-7f1c3d628000 r--p 00000000 fe:00 1234                       /usr/lib/libc.so.6",
            b"00400000-00452000 r-xp 00000000 08:02 173521                             /usr/bin/dbus daemon",
            b"7ffc1b2f1000-7ffc1b312000 rw-p 00000000 00:00 0                          [stack]",
            b"7f1c3d82b000-7f1c3d838000 rw-s 00000000 00:00 0 ",
            b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
        ];
        for line in lines {
            let mapping = Mapping::parse_line(line).unwrap();
            assert_eq!(
                formatted(&mapping, SlotWidth::Eight).escape_ascii().to_string(),
                line.escape_ascii().to_string()
            );
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn own_maps_come_back_byte_for_byte() {
        let maps = String::from_utf8(std::fs::read("/proc/self/maps").unwrap()).unwrap();
        // A 32-bit program on a 64-bit kernel reads the wider column.
        let copies = [SlotWidth::Four, SlotWidth::Eight].map(|width| {
            let mut copy = Vec::new();
            for line in maps.lines() {
                let mapping = Mapping::parse_line(line.as_bytes()).expect("a line of the kernel");
                mapping.write_line(&mut copy, width).unwrap();
            }
            String::from_utf8(copy).unwrap()
        });
        assert!(copies.contains(&maps), "{maps}\n{}", copies[1]);
    }

    #[test]
    fn keeps_the_widest_fields_and_a_newline_in_the_path() {
        let mapping = Mapping {
            start: u64::MAX - 1,
            end: u64::MAX,
            offset: u64::MAX,
            device: Device { major: u32::MAX, minor: u32::MAX },
            inode: u64::MAX,
            path: Cow::Borrowed(b"/a\nb"),
            ..Mapping::parse_line(DOCUMENT).unwrap()
        };
        let line = formatted(&mapping, SlotWidth::Eight);
        assert_eq!(
            String::from_utf8_lossy(&line),
            "fffffffffffffffe-ffffffffffffffff r-xp ffffffffffffffff ffffffff:ffffffff \
             18446744073709551615  /a\\012b"
        );
        let again = Mapping::parse_line(&line).unwrap();
        assert_eq!(*again.path, b"/a\\012b"[..]);
        assert_eq!(Mapping { path: mapping.path.clone(), ..again }, mapping);
    }

    #[test]
    fn reads_the_brief_form() {
        let line = b"7f00-7fff: /lib/with space.so (@1000) 0123abcd";
        let mapping = Mapping::parse_line(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00, 0x7fff, 0x1000));
        assert_eq!(
            (&mapping.path[..], &mapping.build_id[..]),
            (&b"/lib/with space.so"[..], &b"0123abcd"[..])
        );
        assert!(mapping.is_executable());
        let mapping =
            Mapping::parse_line(b"0x40000-0x80000 /path/to/binary      (@FF00)            abc123456")
                .unwrap();
        assert_eq!((&mapping.path[..], mapping.offset), (&b"/path/to/binary"[..], 0xff00));
        assert_eq!(*mapping.build_id, b"abc123456"[..]);
        let mapping = Mapping::parse_line(b"40000-80000: rw-p /heap").unwrap();
        assert!(!mapping.is_executable() && mapping.build_id.is_empty() && *mapping.path == b"/heap"[..]);
    }

    #[test]
    fn refuses_lines_that_are_not_mappings() {
        let lines: [&[u8]; 16] = [
            b"",
            b"build=/bin/true",
            b" 40000000-40015000 r-xp 00000000 03:01 1 /lib/a.so",
            b"40000000-40015000",
            b"40000000-40015000 r-xp",
            b"40000000-40015000 r-xp 00000000",
            b"40000000-40015000 r-xp 00000000 03:01",
            b"40000000-40015000 r-xp 00000000 03:01 x",
            b"40000000-40015000 r-xp 00000000 03:01 1x",
            b"40000000-40015000 rwxq 00000000 03:01 1 /a",
            b"40015000-40000000 r-xp 00000000 03:01 1 /a",
            b"40000000-40000000 r-xp 00000000 03:01 1 /a",
            b"10000000000000001-20000000000000002 r-xp 0 0:0 0",
            b"1000-2000 r-xp 0 100000000:0 0",
            b"1000-2000:",
            b"1000-2000: /path not-a-build-id",
        ];
        for line in lines {
            assert_eq!(Mapping::parse_line(line), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn adjacent_ranges_do_not_overlap() {
        let low = Mapping::parse_line(b"1000-2000: /a").unwrap();
        let high = Mapping::parse_line(b"2000-3000: /b").unwrap();
        let across = Mapping::parse_line(b"1fff-2001: /c").unwrap();
        assert!(!low.overlaps(&high) && !high.overlaps(&low));
        assert!(low.overlaps(&across) && across.overlaps(&high) && low.overlaps(&low));
        assert!(low.contains(0x1000) && !low.contains(0x2000));
    }

    #[test]
    fn distinguishes_existing_deleted_and_anonymous_files() {
        let of = |path: &str| {
            let line = format!("1000-2000 r-xp 00000000 00:00 0 {path}");
            let mapping = Mapping::parse_line(line.as_bytes()).unwrap().into_owned();
            (String::from_utf8(mapping.file().0.to_vec()).unwrap(), mapping.file().1, mapping.is_anonymous())
        };
        assert_eq!(of("/bin/x"), ("/bin/x".into(), false, false));
        assert_eq!(of("/bin/x (deleted)"), ("/bin/x".into(), true, false));
        assert_eq!(of("[heap]"), ("[heap]".into(), false, false));
        for anonymous in
            ["", "/memfd:jit (deleted)", "/SYSV00000000 (deleted)", "[anon:code]", "/dev/zero (deleted)"]
        {
            assert!(of(anonymous).2, "{anonymous}");
        }
    }
}
