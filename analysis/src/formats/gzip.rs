//! Gzip decompression with a limit.

use crate::error::{Error, ErrorKind};
use flate2::read::MultiGzDecoder;
use std::io::Read as _;

const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Highest compression ratio: deflate reaches about 1030 for zeros, and 3 to 10 for profiles.
const MAX_GROWTH: u64 = 50;
/// Decompressed size that is always allowed.
const ALWAYS_ALLOWED: u64 = 4 << 20;

pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Decompresses all members of a gzip file.
///
/// # Errors
/// If it is truncated or damaged, or exceeds the limit.
pub(super) fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let most = (bytes.len() as u64).saturating_mul(MAX_GROWTH).saturating_add(ALWAYS_ALLOWED);
    let mut unpacked = Vec::new();
    // One byte more than allowed shows that the file is too large.
    MultiGzDecoder::new(bytes).take(most + 1).read_to_end(&mut unpacked).map_err(|error| {
        Error::new(ErrorKind::Format, format!("cannot unpack the gzip data: {error}"))
            .advise("the file is truncated or damaged; check it by `gzip -t`")
            .caused_by(error)
    })?;
    if unpacked.len() as u64 > most {
        let reason = format!("{} bytes of gzip data expand to more than {most} bytes", bytes.len());
        return Err(
            Error::new(ErrorKind::Format, reason).advise("if it is a profile, unpack it by `gzip -d` first")
        );
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn unpacks_all_members() {
        let both = [packed(b"one, "), packed(b"two")].concat();
        assert!(is_gzip(&both));
        assert_eq!(unpack(&both).unwrap(), b"one, two");
    }

    #[test]
    fn reports_a_truncated_or_damaged_file() {
        let whole = packed(&[b'x'; 5000]);
        for length in 2..whole.len() {
            assert!(unpack(&whole[..length]).is_err(), "{length} of {}", whole.len());
        }
        let mut spoilt = whole.clone();
        // The checksum.
        spoilt[whole.len() - 6] ^= 1;
        let error = unpack(&spoilt).unwrap_err().to_string();
        assert!(error.starts_with("cannot unpack the gzip data: "), "{error}");
    }

    #[test]
    fn refuses_a_decompression_bomb() {
        // Members of zeros, compressed a thousandfold.
        let member = packed(&vec![0; 1 << 20]);
        let bomb = member.repeat(8);
        let error = unpack(&bomb).unwrap_err().to_string();
        assert!(error.contains("expand to more than"), "{error}");
        // Data within the limit is decompressed, whatever its ratio.
        assert_eq!(unpack(&member.repeat(4)).unwrap().len(), 4 << 20);
    }
}
