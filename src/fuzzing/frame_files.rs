//! Call frame information of arbitrary ELF files.

use super::Room;
use crate::control::frame_file_trial;
use std::fs;

/// The bytes are both the file and its mapping.
pub(super) fn any_bytes(bytes: &[u8]) {
    let room = Room::new();
    let path = room.0.join("object");
    fs::write(&path, bytes).expect("a file of our own");
    frame_file_trial(fs::File::open(&path).expect("it was just written"), bytes);
}
