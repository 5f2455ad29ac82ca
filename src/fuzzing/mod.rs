//! What the fuzz targets (`fuzz/`) need of the crate's inside; there in no other build.

/// Looks code up in call frame information made of `bytes`, and takes the steps that it says.
pub fn call_frame_information(bytes: &[u8]) {
    crate::sample::unwind::trial::any_bytes(bytes);
}

/// Recovers a spool that is made of `bytes`.
pub fn spool(bytes: &[u8]) {
    crate::recover::trial::any_bytes(bytes);
}
