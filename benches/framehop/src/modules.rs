//! The loaded objects for framehop: their unwind sections as mapped by the loader.

use core::ffi::{CStr, c_int, c_void};
use framehop::{ExplicitModuleSectionInfo, Module};

pub(crate) fn loaded() -> Vec<Module<&'static [u8]>> {
    let mut modules = Vec::new();
    // SAFETY: the callback has the right type, and the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut modules).cast()) };
    modules
}

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, modules: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record.
    let info = unsafe { &*info };
    // SAFETY: `loaded` passes its vector.
    let modules = unsafe { &mut *modules.cast::<Vec<Module<&'static [u8]>>>() };
    // SAFETY: the loader's program headers of a loaded object.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let Some(table) = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME) else { return 0 };
    let start = loads().map(|header| header.p_vaddr).min().unwrap_or(0);
    let end = loads().map(|header| header.p_vaddr + header.p_memsz).max().unwrap_or(0);
    let Some(segment) =
        loads().find(|load| (load.p_vaddr..load.p_vaddr + load.p_filesz).contains(&table.p_vaddr))
    else {
        return 0;
    };
    let segment_end = segment.p_vaddr + segment.p_filesz;
    // The table begins with four bytes of encodings and, as linkers write it, the distance from
    // this field to `.eh_frame`.
    let field = info.dlpi_addr + table.p_vaddr + 4;
    // SAFETY: the section is mapped.
    let distance = unsafe { (field as *const i32).read_unaligned() };
    let frames = (table.p_vaddr + 4).wrapping_add_signed(i64::from(distance));
    let bytes = |from: u64, to: u64| {
        // SAFETY: a part of a mapped segment; objects loaded at the start stay loaded.
        unsafe { core::slice::from_raw_parts((info.dlpi_addr + from) as *const u8, (to - from) as usize) }
    };
    // `.eh_frame` may lie before its table or in another segment; a terminator ends it.
    let Some(holding) = loads().find(|load| (load.p_vaddr..load.p_vaddr + load.p_filesz).contains(&frames))
    else {
        return 0;
    };
    let frames_end = holding.p_vaddr + holding.p_filesz;
    // SAFETY: the loader's string is NUL-terminated.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned();
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        eh_frame_hdr_svma: Some(table.p_vaddr..segment_end),
        eh_frame_hdr: Some(bytes(table.p_vaddr, segment_end)),
        eh_frame_svma: Some(frames..frames_end),
        eh_frame: Some(bytes(frames, frames_end)),
        ..ExplicitModuleSectionInfo::default()
    };
    let range = info.dlpi_addr + start..info.dlpi_addr + end;
    modules.push(Module::new(name, range, info.dlpi_addr, sections));
    0
}
