//! Reader of folded stacks.

use crate::{
    error::{Error, ErrorKind},
    profile::{Function, FunctionId, LabelSetId, Line, Location, LocationId, Profile, ValueType},
};
use foldhash::fast::RandomState;
use std::{collections::HashMap, sync::Arc};

/// True if the first non-empty line is text that ends with a space and a whole number.
pub(in crate::formats) fn may_be_folded(bytes: &[u8]) -> bool {
    let first = lines(bytes).next();
    first.is_some_and(|(_, line)| {
        split(line).is_some_and(|(_, value)| !value.is_empty() && value.iter().all(u8::is_ascii_digit))
            && line.iter().all(|&byte| byte >= b' ' || byte == b'\t')
    })
}

/// Reads folded stacks. The values are samples, because the format has no unit.
///
/// # Errors
/// If a line does not end with a whole number.
pub fn read(bytes: &[u8]) -> Result<Profile, Error> {
    let mut profile = Profile::new(vec![ValueType::new("samples", "count")]);
    let empty: Arc<str> = "".into();
    // Functions by name, a slice of the file.
    let mut known: HashMap<&[u8], u32, RandomState> = HashMap::default();
    let mut chain = Vec::new();
    for (number, line) in lines(bytes) {
        let fails = |reason: String| Error::new(ErrorKind::Format, format!("line {number}: {reason}"));
        let not_folded = || fails("folded stacks have a whole number at the end of each line".into());
        let (stack, value) = split(line).ok_or_else(not_folded)?;
        let text = std::str::from_utf8(value).map_err(|_| not_folded())?;
        let value: i64 = match text.parse::<i128>() {
            Ok(value) => {
                profile.is_clamped |= i64::try_from(value).is_err();
                value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
            }
            Err(_) => return Err(not_folded()),
        };
        chain.clear();
        for name in stack.split(|&byte| byte == b';').rev() {
            let id = *known.entry(name).or_insert_with(|| {
                let id = FunctionId::at(profile.functions.len()).0;
                let name: Arc<str> = String::from_utf8_lossy(name).into();
                let system_name = name.clone();
                profile.functions.push(Function { name, system_name, file: empty.clone(), start_line: 0 });
                let lines = vec![Line { function: FunctionId(id), line: 0, column: 0 }];
                profile.locations.push(Location { lines, ..Location::default() });
                id
            });
            chain.push(LocationId(id));
        }
        profile.samples.push(&chain, &[value], LabelSetId(0));
    }
    profile.is_clamped |= profile.samples.add_up_equal();
    Ok(profile)
}

/// Iterates over lines that are neither empty nor comments, with their numbers from 1.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).enumerate();
    lines.map(|(place, line)| (place + 1, line)).filter(|(_, line)| !line.is_empty() && line[0] != b'#')
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let place = line.iter().rposition(|&byte| byte == b' ' || byte == b'\t')?;
    Some((line[..place].trim_ascii_end(), &line[place + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::folded::write;

    fn again(profile: &Profile) -> String {
        let mut text = Vec::new();
        write(profile, 0, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn writes_what_was_read() {
        let text = "main 1\nmain;a b;c 3\nmain;d 2\nmain;d;main 4\n";
        assert!(may_be_folded(text.as_bytes()));
        let profile = read(text.as_bytes()).unwrap();
        assert_eq!(profile.check(), Ok(()));
        assert_eq!(again(&profile), text);
        assert_eq!(profile.functions.len(), 4);
        // The innermost frame is the first in the model.
        let leaf = profile.samples.get(1).chain[0];
        assert_eq!(&*profile.function(profile.location(leaf).lines[0].function).name, "c");
    }

    #[test]
    fn adds_equal_stacks_up_and_skips_comments() {
        let profile = read(b"# a comment\r\n\na;b 1\r\na;b 2\n").unwrap();
        assert_eq!((profile.samples.len(), profile.total(0)), (1, 3));
        assert!(read(b"a 9223372036854775808\n").unwrap().is_clamped);
        assert!(read(b"a 9223372036854775807\na 1\n").unwrap().is_clamped);
        assert!(read(b"\xff\xfe 1\n").is_ok());
    }

    #[test]
    fn error_has_the_line_number() {
        for (text, line) in [("a 1\nb\n", 2), ("a 1\n\nb x\n", 3), ("a 1.5\n", 1)] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
    }

    #[test]
    fn refuses_other_text() {
        for text in ["", "\n\n", "{\"a\": 1}", "a b c", "a 1x", " ", "a\0b 1", "a 1.5"] {
            assert!(!may_be_folded(text.as_bytes()), "{text}");
        }
    }
}
