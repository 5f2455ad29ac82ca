//! Protobuf wire format: tagged fields, of which a reader skips unknown ones.
//!
//! Handwritten, because a generated reader needs two vectors per sample and a struct per empty
//! field. Memory for untrusted files must stay a small multiple of their size.
//!
//! ```text
//! field:  tag = number << 3 | type | value
//! type 0: a number, 7 bits a byte, least first, all but the last with bit 7
//!      1: 8 bytes      2: length, then as many bytes      5: 4 bytes
//! ```

use crate::error::{Error, ErrorKind};

/// A message or string within a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    /// Offset from the start of the outermost message.
    offset: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(Message<'a>),
    /// 4 or 8 bytes; no field of a profile has this type.
    Fixed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Value<'a>,
    /// Offset of its tag.
    pub(super) offset: usize,
}

/// A violation of the wire format, with its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) offset: usize,
    pub(super) reason: &'static str,
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(ErrorKind::Format, malformed.reason).at_offset(malformed.offset as u64).advise(
            "the file is truncated, damaged, or not a pprof profile; offsets are those of the uncompressed bytes",
        )
    }
}

const CUT: &str = "a field extends beyond the end of its message";
const WRONG_TYPE: &str = "a field of the profile has the wrong type";

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the next field; None at the end.
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Malformed> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let offset = self.offset;
        let fails = |reason| Malformed { offset, reason };
        let tag = self.number()?;
        let number = u32::try_from(tag >> 3).map_err(|_| fails("a field's number has more than 29 bits"))?;
        if number == 0 {
            return Err(fails("a field's number is 0"));
        }
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.number()?;
                Value::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(fails("a field has an invalid type")),
        };
        Ok(Some(Field { number, value, offset }))
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        if let Some((&byte, rest)) = self.bytes.split_first() {
            if byte < 0x80 {
                self.bytes = rest;
                self.offset += 1;
                return Ok(u64::from(byte));
            }
        }
        let mut value = 0;
        for (place, &byte) in self.bytes.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                if place == 9 && byte > 1 {
                    break;
                }
                self.bytes = self.bytes.get(place + 1..).unwrap_or_default();
                self.offset += place + 1;
                return Ok(value);
            }
        }
        let reason = if self.bytes.len() < 10 { CUT } else { "a number has more than 64 bits" };
        Err(Malformed { offset: self.offset, reason })
    }

    fn take(&mut self, length: usize) -> Result<Message<'a>, Malformed> {
        let Some((bytes, rest)) = self.bytes.split_at_checked(length) else {
            return Err(Malformed { offset: self.offset, reason: CUT });
        };
        let taken = Self { bytes, offset: self.offset };
        self.bytes = rest;
        self.offset += length;
        Ok(taken)
    }
}

impl<'a> Field<'a> {
    pub(super) fn number_value(&self) -> Result<u64, Malformed> {
        match self.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.wrong_type()),
        }
    }

    pub(super) fn message(&self) -> Result<Message<'a>, Malformed> {
        match self.value {
            Value::Bytes(message) => Ok(message),
            _ => Err(self.wrong_type()),
        }
    }

    /// Calls `visit` with its number, or with each of its packed numbers.
    pub(super) fn numbers(&self, mut visit: impl FnMut(u64)) -> Result<(), Malformed> {
        match self.value {
            Value::Number(number) => visit(number),
            Value::Bytes(mut packed) => {
                while !packed.bytes.is_empty() {
                    visit(packed.number()?);
                }
            }
            Value::Fixed => return Err(self.wrong_type()),
        }
        Ok(())
    }

    fn wrong_type(&self) -> Malformed {
        Malformed { offset: self.offset, reason: WRONG_TYPE }
    }
}

/// Encoder of a message. The number 0 is omitted, as the format requires.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) bytes: Vec<u8>,
}

impl Fields {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.varint(u64::from(field) << 3);
            self.varint(value);
        }
    }

    /// Writes a signed number in two's complement, as for `int64`.
    pub(super) fn signed(&mut self, field: u32, value: i64) {
        self.number(field, value as u64);
    }

    /// Writes a message or string, even if it is empty.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.prefix(field, bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes tag and length of a message or string.
    pub(super) fn prefix(&mut self, field: u32, length: usize) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(length as u64);
    }

    /// Writes packed numbers, including 0; `scratch` is overwritten.
    pub(super) fn packed(&mut self, field: u32, values: impl Iterator<Item = u64>, scratch: &mut Fields) {
        scratch.clear();
        values.for_each(|value| scratch.varint(value));
        if !scratch.bytes.is_empty() {
            self.bytes(field, &scratch.bytes);
        }
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u32, Option<u64>)>, Malformed> {
        let mut message = Message::new(bytes);
        let mut fields = Vec::new();
        while let Some(field) = message.next()? {
            fields.push((field.number, field.number_value().ok()));
        }
        Ok(fields)
    }

    #[test]
    fn returns_numbers_of_all_sizes_as_written() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut fields = Fields::default();
                fields.number(536_870_911, value);
                let expected = if value == 0 { vec![] } else { vec![(536_870_911, Some(value))] };
                assert_eq!(all(&fields.bytes), Ok(expected));
            }
        }
    }

    #[test]
    fn skips_fields_of_all_types() {
        let bytes = [0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x12, 2, 9, 9, 0x1d, 1, 2, 3, 4, 0x20, 0x96, 1];
        assert_eq!(all(&bytes), Ok(vec![(1, None), (2, None), (3, None), (4, Some(150))]));
    }

    #[test]
    fn reads_packed_and_single_numbers_alike() {
        let mut fields = Fields::default();
        fields.packed(3, [0, 1, 300, u64::MAX].into_iter(), &mut Fields::default());
        fields.signed(3, -2);
        let (mut message, mut numbers) = (Message::new(&fields.bytes), Vec::new());
        while let Some(field) = message.next().unwrap() {
            field.numbers(|number| numbers.push(number)).unwrap();
        }
        assert_eq!(numbers, [0, 1, 300, u64::MAX, u64::MAX - 1]);
    }

    #[test]
    fn reports_violations_with_their_offset() {
        let cases: [(&[u8], usize, &str); 7] = [
            (&[0x08], 1, CUT),
            (&[0x08, 1, 0x12, 5, 1], 4, CUT),
            (&[0x08, 0x80, 0x80], 1, CUT),
            (&[0x08, 1, 0x02], 2, "a field's number is 0"),
            (&[0x0f, 1], 0, "a field has an invalid type"),
            (
                &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
                1,
                "a number has more than 64 bits",
            ),
            (
                &[0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1],
                0,
                "a field's number has more than 29 bits",
            ),
        ];
        for (bytes, offset, reason) in cases {
            assert_eq!(all(bytes), Err(Malformed { offset, reason }), "{bytes:x?}");
        }
    }
}
