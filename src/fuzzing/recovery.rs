//! Recovery of arbitrary spool files.

use super::Room;
use crate::{
    format::{
        CpuProfile,
        spool::{PATHS, field},
    },
    recover::{self, Owner, trial::Sparse},
    sys::process,
};
use std::{
    fs::{self, File},
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
};

const EARLIER: &[u8] = b"another profile";

/// Recovers the spool of [`Sparse`] after a byte of settings; replaces the path of its target.
pub(super) fn any_bytes(bytes: &[u8]) {
    let Some((&settings, rest)) = bytes.split_first() else { return };
    let Some(sparse) = Sparse::new(rest) else { return };
    let room = Room::new();
    let target = room.0.join("profile");
    let spool = room.0.join("1-2-3.spool");
    write_spool(&sparse, &spool, &target);
    if settings & 4 == 0 {
        // Otherwise the process may be in another container, and a recovery needs a path.
        let namespace = process::namespace().expect("/proc tells").to_ne_bytes();
        let file = File::options().write(true).open(&spool).expect("a file of our own");
        file.write_all_at(&namespace, field::NAMESPACE as u64).expect("room for a spool");
    }
    let is_taken = settings & 1 != 0;
    if is_taken {
        fs::write(&target, EARLIER).expect("a file of our own");
    }
    let found = recover::spools(&room.0).expect("a directory of our own");
    let [spool_found] = &found.spools[..] else {
        assert_eq!((found.spools.len(), found.unusable.len()), (0, 1));
        assert!(!found.unusable[0].to_string().contains('\n'));
        return;
    };
    assert_eq!(spool_found.target(), target);
    let _ =
        (spool_found.program(), spool_found.started(), spool_found.is_complete(), spool_found.is_truncated());
    let read = spool_found.samples();
    assert!(read.is_err() || spool_found.owner() != Owner::Running);
    let elsewhere = room.0.join("elsewhere");
    let recovered =
        if settings & 2 == 0 { spool_found.recover() } else { spool_found.recover_to(&elsewhere) };
    match &recovered {
        Err(error) => {
            assert!(spool.exists(), "samples are lost: {error}");
            assert!(!elsewhere.exists());
            // Discarding is refused only if the process runs.
            assert_eq!(spool_found.discard().is_ok(), spool_found.owner() != Owner::Running);
        }
        Ok(recovered) => {
            assert_ne!(spool_found.owner(), Owner::Running);
            assert!(!spool.exists());
            if let Some(path) = &recovered.path {
                let written = fs::read(path).expect("the profile is there");
                let profile = CpuProfile::parse(&written).expect("what was written can be read");
                let read: u128 =
                    read.expect("it can be read").iter().map(|sample| u128::from(sample.count)).sum();
                assert_eq!(read, profile.total_samples(), "what is read is what is recovered");
                let samples = u64::try_from(read).unwrap_or(u64::MAX);
                assert!(samples == recovered.samples && samples > 0);
                let is_beside = path != &target && path != &elsewhere;
                assert_eq!(is_beside, is_taken && settings & 2 == 0, "{}", path.display());
            }
        }
    }
    assert_eq!(
        fs::read(&target).is_ok_and(|bytes| bytes == EARLIER),
        is_taken,
        "another's profile is replaced"
    );
    let is_ours = |name: &[u8]| [&b"profile"[..], b"elsewhere", b"1-2-3.spool"].contains(&name);
    for entry in fs::read_dir(&room.0).expect("a directory of our own") {
        let name = entry.expect("it can be read").file_name();
        let name = name.as_bytes();
        assert!(is_ours(name) || name.starts_with(b"profile.recovered-"), "{name:?} is left behind");
    }
}

fn write_spool(sparse: &Sparse<'_>, path: &Path, target: &Path) {
    let target = target.as_os_str().as_bytes();
    let file = File::create(path).expect("a file of our own");
    let write = |bytes: &[u8], offset: usize| {
        file.write_all_at(bytes, offset as u64).expect("room for a spool");
    };
    for (offset, bytes) in sparse.parts {
        write(bytes, offset);
    }
    write(&(target.len() as u64).to_ne_bytes(), field::TARGET_BYTES);
    write(target, PATHS);
    file.set_len(sparse.length() as u64).expect("room for a spool");
}
