//! Gzip, with a bound on what it becomes.

use crate::error::{Error, ErrorKind};
use flate2::read::MultiGzDecoder;
use std::io::Read as _;

/// The first bytes of every gzip file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What a file may grow to: deflate packs zeros at about 1030 to 1, profiles at 3 to 10. A file of a few kilobytes
/// that claims to be gigabytes is no profile.
const MAX_GROWTH: u64 = 50;
/// What a small file may become in any case.
const ALWAYS_ALLOWED: u64 = 4 << 20;

/// True when the bytes are gzip.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Unpacks all members of a gzip file.
///
/// # Errors
/// Where it is cut or damaged, or becomes more than it may.
pub(super) fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let most = (bytes.len() as u64).saturating_mul(MAX_GROWTH).saturating_add(ALWAYS_ALLOWED);
    let mut unpacked = Vec::new();
    // One byte more tells a file that is too large from one that just fits.
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
    fn all_members_are_unpacked() {
        let both = [packed(b"one, "), packed(b"two")].concat();
        assert!(is_gzip(&both));
        assert_eq!(unpack(&both).unwrap(), b"one, two");
    }

    #[test]
    fn a_cut_or_spoilt_file_is_an_error() {
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
    fn a_small_file_does_not_become_an_immense_one() {
        // Members of zeros, each packed at a thousand to one.
        let member = packed(&vec![0; 1 << 20]);
        let bomb = member.repeat(8);
        let error = unpack(&bomb).unwrap_err().to_string();
        assert!(error.contains("expand to more than"), "{error}");
        // What stays within the bound is unpacked, however well it was packed.
        assert_eq!(unpack(&member.repeat(4)).unwrap().len(), 4 << 20);
    }
}
