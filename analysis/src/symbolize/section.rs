//! Sections that are compressed, and how much memory they may ask for.

use super::image::Elf;
use object::{CompressionFormat, Object as _, ObjectSection};
use std::{borrow::Cow, io::Read};

/// What the compressed sections of a file become together may be 16 MiB in any case, and 50 times the file: real ones are by 3 to
/// 20 times as large.
const ALWAYS: u64 = 16 << 20;
const FACTOR: u64 = 50;

/// What the compressed parts of a file may still take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    left: u64,
}

impl Room {
    /// That of a file, or a section, of so many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        Self { left: (bytes as u64).saturating_mul(FACTOR).saturating_add(ALWAYS) }
    }
}

/// The section of a name, or that of the older way to compress, by which `.debug_info` becomes `.zdebug_info`.
pub(super) fn find<'data, 'file>(
    elf: &'file Elf<'data>,
    name: &str,
) -> Option<object::Section<'data, 'file, &'data [u8]>> {
    let older = || elf.section_by_name(&format!(".z{}", name.strip_prefix('.')?));
    elf.section_by_name(name).or_else(older)
}

/// The bytes of a section, decompressed.
///
/// # Errors
/// Where it is damaged, or its contents would take more than any real section; the text says which.
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

/// The ELF file in a section `.gnu_debugdata`, which xz has compressed.
///
/// # Errors
/// Where it is damaged, or would take more than any real one.
pub(super) fn mini_debug_info(compressed: &[u8]) -> Result<Vec<u8>, String> {
    // Dictionaries of xz's highest preset have 64 MiB; a header may ask for 4 GiB.
    let decoder = xz4rust::XzDecoder::in_heap_with_alloc_dict_size(0, 64 << 20);
    let buffer = std::num::NonZeroUsize::new(8192).expect("not 0");
    // The reader wants bytes of its own.
    let bytes = std::io::Cursor::new(compressed.to_vec());
    let mut reader = xz4rust::XzReader::new_with_buffer_size_and_decoder(bytes, buffer, decoder);
    let room = Room::of(compressed.len());
    bounded(&mut reader, compressed.len(), room.left, room)
        .map_err(|reason| format!(".gnu_debugdata: {reason}"))
}

/// Reads at most `size` bytes, and one more to show that there are too many.
fn bounded(reader: &mut dyn Read, compressed: usize, size: u64, room: Room) -> Result<Vec<u8>, String> {
    if size > room.left {
        return Err(format!("{compressed} bytes claim to be {size}, which is not believed"));
    }
    // What is claimed is not allocated before it is there.
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
    fn what_is_claimed_and_not_there_takes_no_memory() {
        let mut nothing: &[u8] = &[];
        assert!(
            bounded(&mut nothing, 10, 1 << 40, Room::of(10))
                .is_err_and(|reason| reason.contains("not believed"))
        );
        assert_eq!(bounded(&mut nothing, 10, 1 << 20, Room::of(10)).map(|bytes| bytes.capacity()), Ok(0));
    }

    #[test]
    fn what_goes_on_beyond_its_size_is_refused() {
        assert!(
            bounded(&mut std::io::repeat(1), 10, 100, Room::of(10))
                .is_err_and(|reason| reason.contains("more than 100"))
        );
    }

    #[test]
    fn damaged_xz_is_an_error() {
        assert!(mini_debug_info(b"\xfd7zXZ\0garbage and more of it").is_err());
        assert!(mini_debug_info(&[]).is_err());
    }
}
