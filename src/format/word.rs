//! One slot of the binary part: a pointer's width and byte order in the profiled program ("CPU
//! Profile Data File Structure").

/// Width of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotWidth {
    /// 4 bytes, in profiles of 32-bit programs.
    Four,
    /// 8 bytes, in profiles of 64-bit programs.
    Eight,
}

impl SlotWidth {
    /// The width of this program's pointers.
    pub const NATIVE: Self = if size_of::<usize>() == 4 { Self::Four } else { Self::Eight };

    /// Returns the width in bytes: 4 or 8.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// Returns the largest value of a slot of this width.
    pub const fn max_value(self) -> u64 {
        match self {
            Self::Four => u32::MAX as u64,
            Self::Eight => u64::MAX,
        }
    }
}

/// Order of the bytes in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The byte order of this program.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// Layout of all slots of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotLayout {
    /// Width of every slot.
    pub width: SlotWidth,
    /// Byte order of every slot.
    pub order: ByteOrder,
}

impl SlotLayout {
    /// The layout of this program's own profile.
    pub const NATIVE: Self = Self { width: SlotWidth::NATIVE, order: ByteOrder::NATIVE };

    /// All layouts that a file can have.
    pub const ALL: [Self; 4] = [
        Self { width: SlotWidth::Eight, order: ByteOrder::Little },
        Self { width: SlotWidth::Eight, order: ByteOrder::Big },
        Self { width: SlotWidth::Four, order: ByteOrder::Little },
        Self { width: SlotWidth::Four, order: ByteOrder::Big },
    ];

    /// Puts `value` at the start of `buffer` and returns the 4 or 8 bytes of the slot; `None`, with
    /// the buffer unchanged, if the value is above [`SlotWidth::max_value`].
    pub fn encode(self, value: u64, buffer: &mut [u8; 8]) -> Option<&[u8]> {
        match self.width {
            SlotWidth::Four => {
                let value = u32::try_from(value).ok()?;
                let slot = buffer.first_chunk_mut::<4>()?;
                *slot = match self.order {
                    ByteOrder::Little => value.to_le_bytes(),
                    ByteOrder::Big => value.to_be_bytes(),
                };
                Some(slot)
            }
            SlotWidth::Eight => {
                *buffer = match self.order {
                    ByteOrder::Little => value.to_le_bytes(),
                    ByteOrder::Big => value.to_be_bytes(),
                };
                Some(buffer)
            }
        }
    }

    /// Reads the first slot of `bytes`; `None` if there are fewer bytes than a slot has.
    pub fn decode(self, bytes: &[u8]) -> Option<u64> {
        match self.width {
            SlotWidth::Four => {
                let slot = *bytes.first_chunk::<4>()?;
                Some(u64::from(match self.order {
                    ByteOrder::Little => u32::from_le_bytes(slot),
                    ByteOrder::Big => u32::from_be_bytes(slot),
                }))
            }
            SlotWidth::Eight => {
                let slot = *bytes.first_chunk::<8>()?;
                Some(match self.order {
                    ByteOrder::Little => u64::from_le_bytes(slot),
                    ByteOrder::Big => u64::from_be_bytes(slot),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteOrder, SlotLayout, SlotWidth};

    #[test]
    fn encodes_each_layout_in_its_byte_order() {
        let expected: [&[u8]; 4] = [
            &[0x10, 0x27, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0x27, 0x10],
            &[0x10, 0x27, 0, 0],
            &[0, 0, 0x27, 0x10],
        ];
        for (layout, bytes) in SlotLayout::ALL.into_iter().zip(expected) {
            let mut buffer = [0xff; 8];
            assert_eq!(layout.encode(10_000, &mut buffer), Some(bytes), "{layout:?}");
            assert_eq!(layout.decode(bytes), Some(10_000), "{layout:?}");
        }
    }

    #[test]
    fn encodes_the_largest_value_and_refuses_the_next() {
        for layout in SlotLayout::ALL {
            let max = layout.width.max_value();
            let mut buffer = [0; 8];
            let bytes = layout.encode(max, &mut buffer).map(<[u8]>::to_vec);
            assert_eq!(bytes.as_deref().and_then(|bytes| layout.decode(bytes)), Some(max));
            assert_eq!(bytes.map(|bytes| bytes.len()), Some(layout.width.bytes()));
            if let Some(too_large) = max.checked_add(1) {
                let mut buffer = [7; 8];
                assert_eq!(layout.encode(too_large, &mut buffer), None);
                assert_eq!(buffer, [7; 8]);
            }
        }
    }

    #[test]
    fn refuses_a_short_slice() {
        for layout in SlotLayout::ALL {
            for length in 0..layout.width.bytes() {
                assert_eq!(layout.decode(&[1; 8][..length]), None);
            }
        }
    }

    #[test]
    fn native_layout_equals_usize() {
        let mut buffer = [0; 8];
        assert_eq!(SlotLayout::NATIVE.encode(0x1234, &mut buffer), Some(&0x1234_usize.to_ne_bytes()[..]));
        assert_eq!(SlotWidth::NATIVE.bytes(), size_of::<usize>());
        assert_eq!(ByteOrder::NATIVE == ByteOrder::Big, cfg!(target_endian = "big"));
    }
}
