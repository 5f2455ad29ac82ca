//! The search for call frame information of objects without a search table.
//!
//! An object's file locates its sections. It is the file that /proc/self/maps names, if it begins
//! like the object's memory and is the mapped file or has the same build ID. `.eh_frame` is copied
//! from memory, because the loader may have relocated it; `.debug_frame` from the file. Compressed
//! sections and separate debug files are not read. No file is opened for objects with a table.

use crate::{
    format::Mapping,
    sample::{
        engine::Engine,
        unwind::{
            frame_index::{self, ObjectFrames, SectionCopy, SectionKind},
            objects::{self, UnindexedObject},
        },
    },
    sync::{AtomicBool, AtomicUsize, Ordering},
    sys::{
        file::{self, FileIdentity},
        signal::AllBlocked,
    },
};
use object::{
    NativeEndian as Native, ReadCache, ReadRef, elf,
    read::elf::{FileHeader, ProgramHeader, SectionHeader},
};
use std::{fs, os::unix::fs::FileExt, sync::Arc};

#[cfg(target_pointer_width = "64")]
type Header = elf::FileHeader64<Native>;
#[cfg(target_pointer_width = "32")]
type Header = elf::FileHeader32<Native>;

type FileBytes<'f> = &'f ReadCache<fs::File>;

/// Unfinished calls of [`renew`].
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Updates the index to the loaded objects. For ordinary context, without locks. A second caller
/// leaves this to the first, which repeats it once; later changes wait for the next update.
pub(crate) fn renew() {
    const ROUNDS: u32 = 2;
    // At the fork a thread of the parent may have held the loader's lock, which glibc leaves
    // locked. The child keeps the parent's index, and unwinds its new objects by their own tables.
    if IS_CHILD.load(Ordering::SeqCst) {
        return;
    }
    if REQUESTS.fetch_add(1, Ordering::SeqCst) > 0 {
        return;
    }
    for _ in 0..ROUNDS {
        let seen = REQUESTS.load(Ordering::SeqCst);
        renew_once();
        if REQUESTS.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return;
        }
    }
    REQUESTS.store(0, Ordering::SeqCst);
}

pub(super) fn reset_after_fork() {
    REQUESTS.store(0, Ordering::SeqCst);
    IS_CHILD.store(true, Ordering::SeqCst);
}

fn renew_once() {
    let objects = objects::unindexed();
    let before = frame_index::present();
    if objects.is_empty() && before.is_empty() {
        return;
    }
    // Thread cancellation must not interrupt this.
    let _undisturbed = AllBlocked::new();
    // The kernel copies, without faults. Some sandboxes kill the process for similar system calls.
    let Ok(memory) = fs::File::open("/proc/self/mem") else { return };
    let mut new = Vec::new();
    let mut all = Vec::with_capacity(objects.len());
    for object in objects {
        let mut lead = vec![0; object.lead_length];
        if memory.read_exact_at(&mut lead, object.range.start as u64).is_err() {
            continue;
        }
        let known = before.iter().find(|known| known.is_of(object.range.start, &lead));
        all.push(known.cloned().unwrap_or_else(|| {
            new.push(object.range.clone());
            Arc::new(look_into(&object, lead, &memory))
        }));
    }
    if new.is_empty() && all.len() == before.len() {
        return;
    }
    frame_index::publish(all);
    if new.is_empty() {
        return;
    }
    // Removes rules that were found without this information, while no handler adds one. Nothing is
    // unloaded. If handlers do not leave in time, the old rules stay.
    if let Some(engine) = Engine::get() {
        let is_old = |pc| !new.iter().any(|range| range.contains(&pc));
        objects::while_unloading(|| (), || engine.rules().retain(&is_old));
    }
}

/// Reads the object's sections; none if its file is not found or not trusted.
fn look_into(object: &UnindexedObject, lead: Vec<u8>, memory: &fs::File) -> ObjectFrames {
    let range = object.range.clone();
    if !object.segments.is_empty() {
        return ObjectFrames::with_table(range, lead.into_boxed_slice(), object.segments.clone());
    }
    let file = open_file(object, &lead);
    let sections = file.map(|file| sections(&file, object, memory)).unwrap_or_default();
    ObjectFrames::new(range, lead.into_boxed_slice(), sections)
}

fn open_file(object: &UnindexedObject, lead: &[u8]) -> Option<ReadCache<fs::File>> {
    let maps = fs::read("/proc/self/maps").ok()?;
    let mapping = maps
        .split(|&byte| byte == b'\n')
        .filter_map(Mapping::parse_line)
        .find(|mapping| mapping.contains(object.range.start as u64))?;
    let (major, minor) = (u64::from(mapping.device.major), u64::from(mapping.device.minor));
    let mapped = FileIdentity { major, minor, inode: mapping.inode };
    // The second is for a program's file that was renamed or removed.
    [&mapping.path, &b"/proc/self/exe"[..]].into_iter().find_map(|path| {
        let (file, identity) = file::open_ordinary(path)?;
        let file = ReadCache::new(file);
        is_mapped_file(&file, lead, identity == mapped).then_some(file)
    })
}

/// The identity may differ for the mapped file: some file systems report another device or inode in
/// the kernel's list. The same beginning then suffices if it contains the build ID.
fn is_mapped_file(file: FileBytes<'_>, lead: &[u8], same_identity: bool) -> bool {
    let begins_alike = file.read_bytes_at(0, lead.len() as u64).is_ok_and(|bytes| bytes == lead);
    begins_alike && (same_identity || has_build_id_within(file, lead.len() as u64).unwrap_or(false))
}

fn has_build_id_within(file: FileBytes<'_>, length: u64) -> object::Result<bool> {
    let header = Header::parse(file)?;
    for segment in header.program_headers(Native, file)? {
        let (start, size) = segment.file_range(Native);
        if start.checked_add(size).is_none_or(|end| end > length) {
            continue;
        }
        let Some(mut notes) = segment.notes(Native, file)? else { continue };
        while let Some(note) = notes.next()? {
            if note.n_type(Native) == elf::NT_GNU_BUILD_ID && note.name() == elf::ELF_NOTE_GNU {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Copies `.eh_frame` and `.debug_frame`, if they exist.
fn sections(file: FileBytes<'_>, object: &UnindexedObject, memory: &fs::File) -> Vec<SectionCopy> {
    let Ok(header) = Header::parse(file) else { return Vec::new() };
    let Ok(table) = header.sections(Native, file) else { return Vec::new() };
    let mut mapped = None;
    let mut unmapped = None;
    for section in table.iter() {
        match table.section_name(Native, section) {
            Ok(b".eh_frame") if mapped.is_none() => mapped = eh_frame(section, object, memory),
            Ok(b".debug_frame") if unmapped.is_none() => unmapped = debug_frame(section, file, object),
            _ => {}
        }
    }
    // First the mapped section, which the program itself is unwound by.
    mapped.into_iter().chain(unmapped).collect()
}

fn eh_frame(
    section: &impl SectionHeader<Endian = Native>,
    object: &UnindexedObject,
    memory: &fs::File,
) -> Option<SectionCopy> {
    let is_loaded = section.sh_flags(Native).into() & u64::from(elf::SHF_ALLOC) != 0;
    let address = object.bias.wrapping_add(usize::try_from(section.sh_addr(Native).into()).ok()?);
    let size = usize::try_from(section.sh_size(Native).into()).ok()?;
    if !is_loaded || !object.range.contains(&address) || size > object.range.end - address {
        return None;
    }
    let mut bytes = vec![0; size];
    memory.read_exact_at(&mut bytes, address as u64).ok()?;
    Some(SectionCopy { kind: SectionKind::EhFrame, bytes: bytes.into_boxed_slice(), address, bias: 0 })
}

fn debug_frame(
    section: &impl SectionHeader<Elf = Header, Endian = Native>,
    file: FileBytes<'_>,
    object: &UnindexedObject,
) -> Option<SectionCopy> {
    if section.sh_flags(Native).into() & u64::from(elf::SHF_COMPRESSED) != 0 {
        return None;
    }
    let bytes = section.data(Native, file).ok()?.into();
    Some(SectionCopy { kind: SectionKind::DebugFrame, bytes, address: 0, bias: object.bias })
}

/// Reads any file as the file of `mapped`, for tests and fuzzing.
#[cfg(all(any(test, fuzzing), not(loom)))]
pub(crate) fn trial(file: fs::File, mapped: &[u8]) {
    let memory = fs::File::open("/proc/self/mem").expect("this process's memory");
    let range = mapped.as_ptr_range();
    let range = range.start as usize..range.end as usize;
    let object =
        UnindexedObject { bias: range.start, range, lead_length: mapped.len(), segments: Vec::new() };
    let file = ReadCache::new(file);
    assert!(is_mapped_file(&file, mapped, true));
    is_mapped_file(&file, mapped, false);
    for section in sections(&file, &object, &memory) {
        assert!(section.bytes.len() <= mapped.len(), "more than there is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory;

    fn own_memory() -> fs::File {
        fs::File::open("/proc/self/mem").unwrap()
    }

    fn this_program() -> UnindexedObject {
        objects::prepare();
        let here = this_program as *const () as usize;
        let (_, start, end) =
            objects::named_ranges().into_iter().find(|o| (o.1..o.2).contains(&here)).unwrap();
        // Position-independent programs start at their file's start.
        UnindexedObject { range: start..end, bias: start, lead_length: memory::PAGE, segments: Vec::new() }
    }

    fn lead_of(object: &UnindexedObject) -> Vec<u8> {
        let mut lead = vec![0; object.lead_length];
        own_memory().read_exact_at(&mut lead, object.range.start as u64).unwrap();
        lead
    }

    #[test]
    fn finds_no_unindexed_object_in_an_ordinary_program() {
        memory::choose_probe().unwrap();
        assert_eq!(objects::unindexed(), []);
        assert!(objects::named_ranges().len() > 2);
    }

    #[test]
    fn recognises_the_mapped_file() {
        let object = this_program();
        let lead = lead_of(&object);
        let file = open_file(&object, &lead).expect("the program's own file");
        assert!(is_mapped_file(&file, &lead, true));
        assert!(is_mapped_file(&file, &lead, false), "it has a build id");
        let (other, _) = file::open_ordinary(b"/bin/sh").unwrap();
        assert!(!is_mapped_file(&ReadCache::new(other), &lead, true));
        assert!(open_file(&object, &[b"\x7fELF", &lead[4..64], b"other"].concat()).is_none());
        assert!(file::open_ordinary(b"/dev/null").is_none());
    }

    #[test]
    fn requires_a_build_id_if_the_file_identity_differs() {
        let object = this_program();
        let file = open_file(&object, &lead_of(&object)).unwrap();
        assert!(is_mapped_file(&file, &lead_of(&object)[..64], true));
        assert!(!is_mapped_file(&file, &lead_of(&object)[..64], false));
    }

    #[test]
    fn copies_all_of_eh_frame() {
        let object = this_program();
        let file = open_file(&object, &lead_of(&object)).unwrap();
        let [frames] = &sections(&file, &object, &own_memory())[..] else { panic!("not one section") };
        assert_eq!(frames.kind, SectionKind::EhFrame);
        assert!(object.range.contains(&frames.address));
        let header = Header::parse(&file).unwrap();
        let table = header.sections(Native, &file).unwrap();
        let (_, section) = table.section_by_name(Native, b".eh_frame").unwrap();
        assert_eq!(*frames.bytes, *section.data(Native, &file).unwrap());
    }
}
