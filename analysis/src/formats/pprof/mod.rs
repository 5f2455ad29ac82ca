//! pprof's protobuf format, defined by `profile.proto` of google/pprof.
//!
//! | field of a profile | | field of a profile | |
//! | --- | --- | --- | --- |
//! | 1 | sample types | 9 | start time, ns since 1970 |
//! | 2 | samples | 10 | duration, ns |
//! | 3 | mappings | 11, 12 | type of the period, period |
//! | 4 | locations | 13 | comments |
//! | 5 | functions | 14 | default sample type |
//! | 6 | strings, the first is empty | 15 | URL of documentation |
//! | 7, 8 | regular expressions: frames to drop, to keep | | |
//!
//! Strings are referred to by index in field 6, the others by arbitrary IDs; 0 is none.

mod read;
#[cfg(test)]
mod tests;
mod wire;
mod write;

pub use read::read;
pub use write::{write, write_unpacked};

use wire::Message;

mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const DROP_FRAMES: u32 = 7;
    pub(super) const KEEP_FRAMES: u32 = 8;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
    pub(super) const DOC_URL: u32 = 15;
}

/// Whether bytes may be a profile: the fields up to the first message are valid, and so is that
/// message. Most writers begin with a message, Go's runtime with the time.
pub(super) fn may_be_profile(bytes: &[u8]) -> bool {
    let mut profile = Message::new(bytes);
    while let Ok(Some(part)) = profile.next() {
        match part.number {
            field::STRING => return part.message().is_ok(),
            field::SAMPLE_TYPE..=field::FUNCTION | field::PERIOD_TYPE => {
                return part.message().is_ok_and(is_message);
            }
            field::COMMENT if part.numbers(|_| ()).is_ok() => {}
            field::DROP_FRAMES..=field::DOC_URL if part.number_value().is_ok() => {}
            _ => return false,
        }
    }
    false
}

/// Returns the length of the first profile in `bytes`. If another follows, as in a file made by
/// `cat`, there is a second string table, which begins with an empty string.
///
/// Writers put the table at the end, possibly followed by single fields such as the time, or at the
/// beginning. So the next profile begins at the first field after the table that is repeated or not
/// such a single field; if the table came first, at the second table.
pub(super) fn length(bytes: &[u8]) -> usize {
    let mut profile = Message::new(bytes);
    // Bit set of field numbers before the next profile.
    let mut known = 0_u32;
    let (mut has_table, mut is_in_table, mut next) = (false, false, None);
    let mut are_strings_first = false;
    while let Ok(Some(part)) = profile.next() {
        let bit = 1_u32.checked_shl(part.number).unwrap_or(0);
        if part.number != field::STRING {
            let is_part = (field::SAMPLE_TYPE..=field::FUNCTION).contains(&part.number);
            let is_twice = part.number != field::COMMENT && known & bit != 0;
            if has_table && !are_strings_first && next.is_none() && (is_part || is_twice) {
                next = Some(part.offset);
            }
            if next.is_none() {
                known |= bit;
            }
        } else if !is_in_table {
            let is_first = part.message().is_ok_and(|text| text.bytes().is_empty());
            match (is_first, has_table) {
                (true, true) => {
                    let next = next.unwrap_or(part.offset);
                    return if is_profile(&bytes[next..]) { next } else { bytes.len() };
                }
                (true, false) => {
                    has_table = true;
                    are_strings_first = known & 1 << field::SAMPLE_TYPE == 0;
                }
                // The same table continues: the fields between belong to the same profile.
                (false, _) => next = None,
            }
        }
        is_in_table = part.number == field::STRING;
    }
    bytes.len()
}

/// Whether bytes begin with a profile that has a sample type.
fn is_profile(bytes: &[u8]) -> bool {
    let mut profile = Message::new(bytes);
    let mut parts = std::iter::from_fn(|| profile.next().ok().flatten());
    may_be_profile(bytes) && parts.any(|part| part.number == field::SAMPLE_TYPE)
}

fn is_message(mut message: Message<'_>) -> bool {
    loop {
        match message.next() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
