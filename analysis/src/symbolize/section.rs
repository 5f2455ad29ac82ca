//! Sections that are compressed, and how much memory they may ask for.

use object::{CompressionFormat, ObjectSection};
use std::{borrow::Cow, io::Read};

/// A section of up to 64 MiB may be compressed by any factor, a larger one by 100: real ones are by 3 to 20.
const SMALL: u64 = 64 << 20;
const FACTOR: u64 = 100;

/// The bytes of a section, decompressed.
///
/// # Errors
/// Where it is damaged, or its contents would take more than any real section; the text says which.
pub(super) fn contents<'data>(section: &impl ObjectSection<'data>) -> Result<Cow<'data, [u8]>, String> {
    let name = || String::from_utf8_lossy(section.name_bytes().unwrap_or_default()).into_owned();
    let compressed = section.compressed_data().map_err(|error| format!("{}: {error}", name()))?;
    let size = compressed.uncompressed_size;
    let decoded = match compressed.format {
        CompressionFormat::None => return Ok(Cow::Borrowed(compressed.data)),
        CompressionFormat::Zlib => {
            bounded(&mut flate2::read::ZlibDecoder::new(compressed.data), compressed.data.len(), size)
        }
        CompressionFormat::Zstandard => match ruzstd::decoding::StreamingDecoder::new(compressed.data) {
            Ok(mut decoder) => bounded(&mut decoder, compressed.data.len(), size),
            Err(error) => Err(error.to_string()),
        },
        _ => Err("its compression is not known".into()),
    };
    let bytes = decoded.map_err(|reason| format!("{}: {reason}", name()))?;
    if bytes.len() as u64 == size {
        Ok(Cow::Owned(bytes))
    } else {
        Err(format!("{}: has {} bytes in the place of {size}", name(), bytes.len()))
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
    let most = most_bytes(compressed.len());
    bounded(&mut reader, compressed.len(), most).map_err(|reason| format!(".gnu_debugdata: {reason}"))
}

fn most_bytes(compressed: usize) -> u64 {
    SMALL.max((compressed as u64).saturating_mul(FACTOR))
}

/// Reads at most `size` bytes, and one more to show that there are too many.
fn bounded(reader: &mut dyn Read, compressed: usize, size: u64) -> Result<Vec<u8>, String> {
    let most = most_bytes(compressed);
    if size > most {
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
        assert!(bounded(&mut nothing, 10, 1 << 40).is_err_and(|reason| reason.contains("not believed")));
        assert_eq!(bounded(&mut nothing, 10, 1 << 20).map(|bytes| bytes.capacity()), Ok(0));
    }

    #[test]
    fn what_goes_on_beyond_its_size_is_refused() {
        assert!(
            bounded(&mut std::io::repeat(1), 10, 100).is_err_and(|reason| reason.contains("more than 100"))
        );
    }

    #[test]
    fn damaged_xz_is_an_error() {
        assert!(mini_debug_info(b"\xfd7zXZ\0garbage and more of it").is_err());
        assert!(mini_debug_info(&[]).is_err());
    }
}
