//! Reader of whole profiles. Every input results in a profile or an error, never a panic. Memory is
//! at most a constant multiple of the input: PCs are allocated only if the input has them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::maps::Mapping;
use super::word::{SlotLayout, SlotWidth};

/// Contents of a profile file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuProfile {
    /// The layout of the slots, derived from the header.
    pub layout: SlotLayout,
    /// The time that a sample represents, in microseconds.
    pub period_micros: u64,
    /// The records, in the order of the file; several may have the same call stack.
    pub records: Vec<Record>,
    /// The mapped objects, in the order of the file, with `$build` replaced in their paths.
    pub mappings: Vec<Mapping<'static>>,
    /// Lines of text that are neither blank, nor a mapping, nor a build specifier.
    pub unknown_lines: Vec<Vec<u8>>,
}

impl CpuProfile {
    /// Reads a file of either slot width and either byte order. Slots after the fifth of a longer
    /// header are ignored. The trailer is required; the text and its last newline are optional.
    ///
    /// # Errors
    /// [`ReadError`]: the rule of the document that the file breaks, and the offset.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        let mut records = Records::new(bytes)?;
        let (layout, period_micros) = (records.layout(), records.period_micros());
        let owned = |record: RecordRef<'_>| Record { count: record.count, pcs: record.pcs().collect() };
        let all = records.by_ref().map(|record| record.map(owned)).collect::<Result<Vec<_>, _>>()?;
        let ProfileText { mappings, unknown_lines } = records.text()?;
        Ok(Self { layout, period_micros, records: all, mappings, unknown_lines })
    }

    /// Returns the number of samples in all records.
    pub fn total_samples(&self) -> u128 {
        self.records.iter().fold(0, |sum, record| sum.saturating_add(u128::from(record.count)))
    }

    /// Returns the time that all samples represent; at most [`Duration::MAX`].
    pub fn duration(&self) -> Duration {
        const MICROS_PER_SECOND: u128 = 1_000_000;
        let micros = self.total_samples().saturating_mul(u128::from(self.period_micros));
        match u64::try_from(micros / MICROS_PER_SECOND) {
            Ok(seconds) => {
                let rest = u64::try_from(micros % MICROS_PER_SECOND).unwrap_or_default();
                Duration::from_secs(seconds).saturating_add(Duration::from_micros(rest))
            }
            Err(_) => Duration::MAX,
        }
    }
}

/// Iterator over the records of a file, borrowed from its bytes: for large files. It ends at the
/// trailer or after the first error. [`text`](Self::text) returns what follows the trailer.
///
/// # Examples
/// ```
/// # use sigprof::format::{ProfileWriter, Records, SlotLayout};
/// # let mut bytes = Vec::new();
/// # let mut writer = ProfileWriter::new(&mut bytes, SlotLayout::NATIVE);
/// # writer.header(10_000)?;
/// # writer.record(5, &[0xa0000, 0xc0000])?;
/// # writer.trailer()?;
/// let mut records = Records::new(&bytes)?;
/// let mut samples = 0;
/// for record in records.by_ref() {
///     samples += record?.count;
/// }
/// assert_eq!((samples, records.period_micros()), (5, 10_000));
/// assert!(records.text()?.mappings.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
    period_micros: u64,
    end: Option<Result<(), ReadError>>,
}

impl<'a> Records<'a> {
    /// Reads the header of a file of either slot width and either byte order.
    ///
    /// # Errors
    /// If there is no header, or the file ends in it.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ReadError> {
        Self::of_version(bytes, 0)
    }

    /// Reads the header of a profile in the Java dialect: the version is 1, and the text has names
    /// of addresses ([`ProfileText::unknown_lines`]). The document does not describe it;
    /// google/pprof reads it (`profile/legacy_java_profile.go`).
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn java(bytes: &'a [u8]) -> Result<Self, ReadError> {
        Self::of_version(bytes, 1)
    }

    fn of_version(bytes: &'a [u8], version: u64) -> Result<Self, ReadError> {
        if bytes.is_empty() {
            return Err(ReadError::Empty);
        }
        let Some((layout, header_slots)) = find_header(bytes, version) else {
            return Err(ReadError::NotAProfile { length: bytes.len() });
        };
        let mut cursor = Cursor { bytes, offset: 0, layout };
        let truncated = ReadError::Truncated { offset: 0 };
        cursor.skip_slots(3).ok_or(truncated.clone())?;
        let period_micros = cursor.slot().ok_or(truncated.clone())?;
        cursor.skip_slots(header_slots.saturating_sub(2)).ok_or(truncated)?;
        Ok(Self { cursor, period_micros, end: None })
    }

    /// Returns the layout of the slots, derived from the header.
    pub fn layout(&self) -> SlotLayout {
        self.cursor.layout
    }

    /// Returns the time that a sample represents, in microseconds.
    pub fn period_micros(&self) -> u64 {
        self.period_micros
    }

    /// Reads the remaining records, and then the text after the trailer.
    ///
    /// # Errors
    /// Those of the records, including an earlier one, and those of the text.
    pub fn text(self) -> Result<ProfileText, ReadError> {
        ProfileText::read(&self.after_trailer()?)
    }

    /// Returns the bytes after the trailer: the text, and further profiles of the file, if any.
    ///
    /// # Errors
    /// Those of the records, including an earlier one.
    pub fn rest(self) -> Result<&'a [u8], ReadError> {
        self.after_trailer().map(|cursor| cursor.rest())
    }

    fn after_trailer(mut self) -> Result<Cursor<'a>, ReadError> {
        self.by_ref().for_each(drop);
        self.end.unwrap_or(Ok(()))?;
        Ok(self.cursor)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordRef<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let record = read_record(&mut self.cursor).transpose();
        match &record {
            None => self.end = Some(Ok(())),
            Some(Err(error)) => self.end = Some(Err(error.clone())),
            Some(Ok(_)) => {}
        }
        record
    }
}

/// A record, borrowed from its file.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Number of samples; at least 1.
    pub count: u64,
    slots: &'a [u8],
    layout: SlotLayout,
}

impl<'a> RecordRef<'a> {
    /// Returns the call stack, leaf first, at least one PC. All but the leaf are return addresses.
    pub fn pcs(self) -> impl Iterator<Item = u64> + Clone + use<'a> {
        let slots = self.slots.chunks_exact(self.layout.width.bytes());
        slots.filter_map(move |slot| self.layout.decode(slot))
    }

    /// Returns the number of PCs.
    pub fn depth(self) -> usize {
        self.slots.len() / self.layout.width.bytes()
    }
}

/// The text after the trailer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfileText {
    /// The mapped objects, in the order of the file, with `$build` replaced in their paths.
    pub mappings: Vec<Mapping<'static>>,
    /// Lines that are neither blank, nor a mapping, nor a build specifier.
    pub unknown_lines: Vec<Vec<u8>>,
}

impl ProfileText {
    fn read(cursor: &Cursor<'_>) -> Result<Self, ReadError> {
        let mut text = Self::default();
        let mut build: Option<&[u8]> = None;
        let mut offset = cursor.offset;
        for line in cursor.rest().split(|&byte| byte == b'\n') {
            if let Some(mut mapping) = Mapping::parse_line(line) {
                if let Some(build) = build {
                    mapping.path = replace_build(mapping.path, build)
                        .ok_or(ReadError::PathTooLong { offset, limit: MAX_PATH })?;
                }
                text.mappings.push(mapping.into_owned());
            } else if let Some(path) = parse_build_line(line) {
                build = Some(path);
            } else if !line.trim_ascii().is_empty() {
                text.unknown_lines.push(line.to_vec());
            }
            offset = offset.saturating_add(line.len()).saturating_add(1);
        }
        Ok(text)
    }
}

/// Samples with the same call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Number of samples; at least 1.
    pub count: u64,
    /// The call stack, leaf first, at least one PC. All except the leaf are return addresses.
    pub pcs: Vec<u64>,
}

/// Reason why bytes are not a readable profile. Offsets are in bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// There are no bytes, for example because the program was killed before it wrote the profile.
    Empty,
    /// There is no header, in either width or byte order.
    NotAProfile {
        /// Number of bytes.
        length: usize,
    },
    /// The file ends in the header or before the trailer.
    Truncated {
        /// Offset of the header, or of the missing record or trailer.
        offset: usize,
    },
    /// A record has a sample count of 0 and is not the trailer.
    ZeroCount {
        /// Offset of the record.
        offset: usize,
        /// The number of PCs according to the record.
        num_pcs: u64,
    },
    /// A record has no PCs.
    EmptyChain {
        /// Offset of the record.
        offset: usize,
        /// The sample count according to the record.
        count: u64,
    },
    /// A record has more PCs than the rest of the file.
    ChainTooLong {
        /// Offset of the record.
        offset: usize,
        /// The number of PCs according to the record.
        num_pcs: u64,
        /// The number of complete slots after the record's first two.
        available: usize,
    },
    /// A path is longer than Linux allows, after `$build` is replaced.
    PathTooLong {
        /// Offset of the path's line.
        offset: usize,
        /// The maximum length of a path, in bytes.
        limit: usize,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the profile is empty (0 bytes)"),
            Self::NotAProfile { length } => {
                write!(f, "no cpu profile header at offset 0 of {length} bytes")
            }
            Self::Truncated { offset: 0 } => f.write_str("the profile ends within the header at offset 0"),
            Self::Truncated { offset } => {
                write!(f, "the profile ends where a record or the trailer was expected, at offset {offset}")
            }
            Self::ZeroCount { offset, num_pcs } => {
                write!(f, "the record at offset {offset} has sample count 0 and {num_pcs} pcs")
            }
            Self::EmptyChain { offset, count } => {
                write!(f, "the record at offset {offset} has sample count {count} and no pcs")
            }
            Self::ChainTooLong { offset, num_pcs, available } => {
                write!(f, "the record at offset {offset} claims {num_pcs} pcs, but {available} slots follow")
            }
            Self::PathTooLong { offset, limit } => {
                write!(
                    f,
                    "the path on the line at offset {offset} has more than {limit} bytes with its $build"
                )
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// The most header slots that are accepted. A number up to here is above it in the wrong byte order
/// (3 becomes 0x0300_0000, 256 becomes 65 536), so at most one byte order matches.
const MAX_HEADER_SLOTS: u64 = 65_535;

/// The longest path after replacement: Linux's `PATH_MAX`.
const MAX_PATH: usize = 4096;

/// Returns the layout and the number of header slots after the second ("Binary Header"). At most
/// one width matches: an 8-byte slot 0 is 0 only if the 4-byte slot 1 is 0, too.
fn find_header(bytes: &[u8], expected: u64) -> Option<(SlotLayout, u64)> {
    SlotLayout::ALL.into_iter().find_map(|layout| {
        let mut cursor = Cursor { bytes, offset: 0, layout };
        let (header_count, header_slots, version) = (cursor.slot()?, cursor.slot()?, cursor.slot()?);
        let is_header =
            header_count == 0 && (3..=MAX_HEADER_SLOTS).contains(&header_slots) && version == expected;
        is_header.then_some((layout, header_slots))
    })
}

/// Returns `None` for the trailer ("Binary Profile Records", "Binary Trailer").
fn read_record<'a>(cursor: &mut Cursor<'a>) -> Result<Option<RecordRef<'a>>, ReadError> {
    let offset = cursor.offset;
    let (Some(count), Some(num_pcs)) = (cursor.slot(), cursor.slot()) else {
        return Err(ReadError::Truncated { offset });
    };
    if num_pcs == 0 {
        return Err(ReadError::EmptyChain { offset, count });
    }
    let available = cursor.slots_left();
    let taken = usize::try_from(num_pcs).ok().and_then(|depth| cursor.take_slots(depth));
    let Some(slots) = taken else {
        return Err(match count {
            0 if num_pcs == 1 => ReadError::Truncated { offset },
            _ => ReadError::ChainTooLong { offset, num_pcs, available },
        });
    };
    let record = RecordRef { count, slots, layout: cursor.layout };
    match count {
        0 if num_pcs == 1 && record.pcs().eq([0]) => Ok(None),
        0 => Err(ReadError::ZeroCount { offset, num_pcs }),
        _ => Ok(Some(record)),
    }
}

fn parse_build_line(line: &[u8]) -> Option<&[u8]> {
    let spaces = line.iter().take_while(|&&byte| byte == b' ').count();
    line.get(spaces..)?.strip_prefix(b"build=")
}

/// Replaces each `$build` that no word character follows; `None` above [`MAX_PATH`] bytes.
fn replace_build<'a>(path: Cow<'a, [u8]>, build: &[u8]) -> Option<Cow<'a, [u8]>> {
    const VARIABLE: &[u8] = b"$build";
    let mut replaced: Option<Vec<u8>> = None;
    let mut rest: &[u8] = &path;
    while let Some(at) = rest.windows(VARIABLE.len()).position(|bytes| bytes == VARIABLE) {
        let (before, after) = (rest.get(..at)?, rest.get(at.checked_add(VARIABLE.len())?..)?);
        let is_word = after.first().is_some_and(|&byte| byte == b'_' || byte.is_ascii_alphanumeric());
        let text = replaced.get_or_insert_default();
        text.extend_from_slice(before);
        text.extend_from_slice(if is_word { VARIABLE } else { build });
        if text.len() > MAX_PATH {
            return None;
        }
        rest = after;
    }
    match replaced {
        None => Some(path),
        Some(mut text) => {
            text.extend_from_slice(rest);
            (text.len() <= MAX_PATH).then_some(Cow::Owned(text))
        }
    }
}

#[derive(Clone, Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
    layout: SlotLayout,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.offset..).unwrap_or_default()
    }

    fn slots_left(&self) -> usize {
        match self.layout.width {
            SlotWidth::Four => self.rest().len() / 4,
            SlotWidth::Eight => self.rest().len() / 8,
        }
    }

    fn slot(&mut self) -> Option<u64> {
        let value = self.layout.decode(self.rest())?;
        self.offset = self.offset.saturating_add(self.layout.width.bytes());
        Some(value)
    }

    fn take_slots(&mut self, number: usize) -> Option<&'a [u8]> {
        let slots = self.rest().get(..number.checked_mul(self.layout.width.bytes())?)?;
        self.offset = self.offset.saturating_add(slots.len());
        Some(slots)
    }

    fn skip_slots(&mut self, number: u64) -> Option<()> {
        self.take_slots(usize::try_from(number).ok()?).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: [u32; 5] = [0, 3, 0, 10_000, 0];
    const END: [u32; 3] = [0, 1, 0];

    fn file(records: &[u32], text: &[u8]) -> Vec<u8> {
        let slots = BEGIN.iter().chain(records).chain(&END);
        slots.flat_map(|slot| slot.to_le_bytes()).chain(text.iter().copied()).collect()
    }

    fn paths(text: &[u8]) -> Vec<String> {
        let profile = CpuProfile::parse(&file(&[], text)).unwrap();
        profile.mappings.iter().map(|mapping| String::from_utf8_lossy(&mapping.path).into_owned()).collect()
    }

    #[test]
    fn reads_the_example_of_the_format_document() {
        let profile = CpuProfile::parse(&file(&[5, 3, 0xa0000, 0xc0000, 0xe0000], b"")).unwrap();
        assert_eq!(profile.records, [Record { count: 5, pcs: vec![0xa0000, 0xc0000, 0xe0000] }]);
        assert_eq!(profile.layout.width, SlotWidth::Four);
        assert_eq!((profile.total_samples(), profile.duration()), (5, Duration::from_millis(50)));
    }

    #[test]
    fn replaces_build_only_before_a_non_word_character() {
        let text = b"1-2: $build/a\n  build=/one\n1-2: $build/a$build\n1-2: $builder/$build_/$build.so\n\
            build=/two\n1-2 r-xp 0 0:0 0 $build";
        assert_eq!(paths(text), ["$build/a", "/one/a/one", "$builder/$build_//one.so", "/two"]);
    }

    #[test]
    fn refuses_a_path_that_becomes_too_long() {
        let mut text = b"build=".to_vec();
        text.extend([b'a'; 2000]);
        text.extend(b"\n1-2: ");
        text.extend(b"$build/".repeat(3));
        let error = CpuProfile::parse(&file(&[], &text)).unwrap_err();
        assert_eq!(error, ReadError::PathTooLong { offset: 32 + 6 + 2000 + 1, limit: 4096 });
    }

    #[test]
    fn keeps_unknown_lines_and_drops_blank_lines() {
        let profile = CpuProfile::parse(&file(&[], b"hello\n\n \nMAPPED_LIBRARIES:\n1-2: /a\n")).unwrap();
        assert_eq!(profile.unknown_lines, [&b"hello"[..], b"MAPPED_LIBRARIES:"]);
        assert_eq!(profile.mappings.len(), 1);
    }

    #[test]
    fn errors_name_the_offset_and_the_value() {
        let cases: [(&[u32], &str); 4] = [
            (&[0, 2, 7, 8], "the record at offset 20 has sample count 0 and 2 pcs"),
            (&[4, 0], "the record at offset 20 has sample count 4 and no pcs"),
            (&[4, 1, 9, 1, 77], "the record at offset 32 claims 77 pcs, but 3 slots follow"),
            (&[0, 1, 5], "the record at offset 20 has sample count 0 and 1 pcs"),
        ];
        for (records, message) in cases {
            assert_eq!(CpuProfile::parse(&file(records, b"")).unwrap_err().to_string(), message);
        }
        assert_eq!(CpuProfile::parse(b""), Err(ReadError::Empty));
        assert_eq!(CpuProfile::parse(b"garbage"), Err(ReadError::NotAProfile { length: 7 }));
        let whole = file(&[4, 1, 9], b"");
        assert_eq!(CpuProfile::parse(&whole[..32]), Err(ReadError::Truncated { offset: 32 }));
        assert_eq!(CpuProfile::parse(&whole[..40]), Err(ReadError::Truncated { offset: 32 }));
        assert_eq!(CpuProfile::parse(&whole[..16]), Err(ReadError::Truncated { offset: 0 }));
    }

    #[test]
    fn returns_records_one_at_a_time_and_then_the_text() {
        let bytes = file(&[5, 3, 10, 11, 12, 1, 1, 13], b"1-2: /a\nhello\n");
        let mut records = Records::new(&bytes).unwrap();
        let first = records.next().unwrap().unwrap();
        assert_eq!((first.count, first.depth(), first.pcs().collect()), (5, 3, vec![10, 11, 12]));
        let text = records.clone().text().unwrap();
        assert_eq!((text.mappings.len(), text.unknown_lines), (1, vec![b"hello".to_vec()]));
        assert_eq!(records.next().unwrap().unwrap().pcs().collect::<Vec<_>>(), [13]);
        assert!(records.next().is_none() && records.next().is_none());
        assert_eq!(records.text().unwrap().mappings.len(), 1);
    }

    #[test]
    fn returns_no_record_and_no_text_after_an_error() {
        let bytes = file(&[5, 1, 10, 4, 0, 1, 1, 13], b"1-2: /a\n");
        let mut records = Records::new(&bytes).unwrap();
        assert!(records.next().unwrap().is_ok());
        let error = ReadError::EmptyChain { offset: 32, count: 4 };
        assert_eq!(records.next().unwrap().unwrap_err(), error);
        assert!(records.next().is_none());
        assert_eq!(records.text().unwrap_err(), error);
    }

    #[test]
    fn saturates_a_duration_that_is_too_long() {
        let record = Record { count: u64::MAX, pcs: vec![1] };
        let mut profile = CpuProfile::parse(&file(&[], b"")).unwrap();
        profile.period_micros = u64::MAX;
        profile.records = vec![record; 3];
        assert_eq!(profile.total_samples(), 3 * u128::from(u64::MAX));
        assert_eq!(profile.duration(), Duration::MAX);
    }
}
