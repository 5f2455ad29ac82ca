//! ELF files of any bytes, in which call frame information is looked for.

use super::Room;
use crate::control::frame_file_trial;
use std::fs;

/// The bytes stand for the file, and for what is mapped of it.
pub(super) fn any_bytes(bytes: &[u8]) {
    let room = Room::new();
    let path = room.0.join("object");
    fs::write(&path, bytes).expect("a file of our own");
    frame_file_trial(fs::File::open(&path).expect("it was just written"), bytes);
}
