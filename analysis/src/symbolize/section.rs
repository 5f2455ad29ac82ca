//! Compressed sections, with a memory limit.

use super::image::Elf;
use object::{CompressionFormat, Object as _, ObjectSection};
use std::{borrow::Cow, io::Read};

/// Limit of decompressed sections of a file: 16 MiB plus 50 times the file. Usual ratios: 3 to 20.
const ALWAYS: u64 = 16 << 20;
const FACTOR: u64 = 50;

/// Remaining bytes for decompressed parts of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    left: u64,
}

impl Room {
    pub(super) fn of(bytes: usize) -> Self {
        Self { left: (bytes as u64).saturating_mul(FACTOR).saturating_add(ALWAYS) }
    }
}

/// Finds a section by name, also in the older compressed form (`.zdebug_info`).
pub(super) fn find<'data, 'file>(
    elf: &'file Elf<'data>,
    name: &str,
) -> Option<object::Section<'data, 'file, &'data [u8]>> {
    let older = || elf.section_by_name(&format!(".z{}", name.strip_prefix('.')?));
    elf.section_by_name(name).or_else(older)
}

/// Returns the bytes of a section, decompressed.
///
/// # Errors
/// If it is damaged or exceeds the limit.
pub(super) fn contents<'data>(
    section: &impl ObjectSection<'data>,
    room: &mut Room,
) -> Result<Cow<'data, [u8]>, String> {
    let name = || String::from_utf8_lossy(section.name_bytes().unwrap_or_default()).into_owned();
    let compressed = section.compressed_data().map_err(|error| format!("{}: {error}", name()))?;
    let (data, size) = (compressed.data, compressed.uncompressed_size);
    let decoded = match compressed.format {
        CompressionFormat::None => return Ok(Cow::Borrowed(data)),
        CompressionFormat::Zlib => {
            bounded(&mut flate2::read::ZlibDecoder::new(data), data.len(), size, *room)
        }
        CompressionFormat::Zstandard => match ruzstd::decoding::StreamingDecoder::new(data) {
            Ok(mut decoder) => bounded(&mut decoder, data.len(), size, *room),
            Err(error) => Err(error.to_string()),
        },
        _ => Err("its compression is unknown".into()),
    };
    let bytes = decoded.map_err(|reason| format!("{}: {reason}", name()))?;
    room.left = room.left.saturating_sub(bytes.len() as u64);
    if bytes.len() as u64 == size {
        Ok(Cow::Owned(bytes))
    } else {
        Err(format!("{}: has {} bytes instead of {size}", name(), bytes.len()))
    }
}

/// Decompresses the ELF file in `.gnu_debugdata`, which is compressed by xz.
///
/// # Errors
/// If it is damaged or exceeds the limit.
pub(super) fn mini_debug_info(compressed: &[u8]) -> Result<Vec<u8>, String> {
    // xz's highest preset has a dictionary of 64 MiB; a header may demand 4 GiB.
    let decoder = xz4rust::XzDecoder::in_heap_with_alloc_dict_size(0, 64 << 20);
    let buffer = std::num::NonZeroUsize::new(8192).expect("not 0");
    // The reader needs owned bytes.
    let bytes = std::io::Cursor::new(compressed.to_vec());
    let mut reader = xz4rust::XzReader::new_with_buffer_size_and_decoder(bytes, buffer, decoder);
    let room = Room::of(compressed.len());
    bounded(&mut reader, compressed.len(), room.left, room)
        .map_err(|reason| format!(".gnu_debugdata: {reason}"))
}

/// Reads at most `size` bytes, plus one to detect excess.
fn bounded(reader: &mut dyn Read, compressed: usize, size: u64, room: Room) -> Result<Vec<u8>, String> {
    if size > room.left {
        return Err(format!("{compressed} bytes claim to be {size}, which is not believed"));
    }
    // Memory is allocated as data arrives, not as claimed.
    let mut bytes = Vec::new();
    reader.take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > size {
        return Err(format!("{compressed} bytes are more than {size}, which is not believed"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocates_no_memory_for_claimed_sizes() {
        let mut nothing: &[u8] = &[];
        assert!(
            bounded(&mut nothing, 10, 1 << 40, Room::of(10))
                .is_err_and(|reason| reason.contains("not believed"))
        );
        assert_eq!(bounded(&mut nothing, 10, 1 << 20, Room::of(10)).map(|bytes| bytes.capacity()), Ok(0));
    }

    #[test]
    fn refuses_data_beyond_its_size() {
        assert!(
            bounded(&mut std::io::repeat(1), 10, 100, Room::of(10))
                .is_err_and(|reason| reason.contains("more than 100"))
        );
    }

    #[test]
    fn reports_damaged_xz() {
        assert!(mini_debug_info(b"\xfd7zXZ\0garbage and more of it").is_err());
        assert!(mini_debug_info(&[]).is_err());
    }
}
