//! The dynamic loader's information about loaded objects.
//!
//! # Safety
//! Calls `_dl_find_object` through the address from `dlsym`, and reads the loader's data.
#![allow(unsafe_code)]

use super::arch::PAGE;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use core::{ffi::CStr, mem, ops::Range, ptr};

#[cfg(target_pointer_width = "32")]
use libc::{Elf32_Ehdr as FileHeader, Elf32_Phdr as ProgramHeader};
#[cfg(target_pointer_width = "64")]
use libc::{Elf64_Ehdr as FileHeader, Elf64_Phdr as ProgramHeader};

/// Words of `dlfo_eh_dbase` and padding: only i386 sets `DLFO_STRUCT_HAS_EH_DBASE`.
const DATA_BASE: usize = if cfg!(target_arch = "x86") { 2 } else { 0 };

/// `struct dl_find_object` of glibc's `<dlfcn.h>`.
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: *mut u8,
    map_end: *mut u8,
    link_map: *mut LinkMap,
    eh_frame: *mut u8,
    data_base: [usize; DATA_BASE],
    reserved: [u64; 7],
}

/// The public start of `struct link_map` (`<link.h>`).
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const libc::c_char,
}

type FindFunction = unsafe extern "C" fn(*mut libc::c_void, *mut DlFindObject) -> libc::c_int;

static FIND_OBJECT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

static LOADER_ADDRESS: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The main program's link map, stored after its range.
static MAIN_MAP: AtomicPtr<LinkMap> = AtomicPtr::new(ptr::null_mut());
static MAIN_START: AtomicUsize = AtomicUsize::new(0);
static MAIN_END: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadedObject {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The `.eh_frame_hdr` section (segment `PT_GNU_EH_FRAME`), or 0.
    pub(crate) eh_frame_hdr: usize,
    name: usize,
}

impl LoadedObject {
    /// Returns the loader's string of the path, or null; valid while the object is loaded.
    pub(crate) fn name(&self) -> *const libc::c_char {
        self.name as *const libc::c_char
    }

    /// True unless it is the main program, which has no path. The object must be loaded.
    pub(crate) fn has_name(&self) -> bool {
        // SAFETY: the loader's NUL-terminated string.
        self.name != 0 && unsafe { *self.name() } != 0
    }

    /// Copies the path into `buffer`, truncated to fit; empty for the main program.
    ///
    /// # Safety
    /// * The object must still be loaded: the caller holds the gate against unloading.
    pub(crate) unsafe fn copy_name(&self, buffer: &mut [u8]) -> usize {
        let mut copied = 0;
        if self.name == 0 {
            return 0;
        }
        for place in buffer {
            // SAFETY: the loader's NUL-terminated string, read up to its NUL.
            let byte = unsafe { *((self.name + copied) as *const u8) };
            if byte == 0 {
                break;
            }
            *place = byte;
            copied += 1;
        }
        copied
    }
}

impl LoadedObject {
    /// Reads the program headers of the object in `start..end`. Signal-safe: reads memory.
    ///
    /// # Safety
    /// * The loader must have returned this range, and it must stay mapped during the call.
    pub(crate) unsafe fn from_headers(start: usize, end: usize) -> Self {
        // SAFETY: the loader mapped an object there, which the caller keeps loaded.
        let headers = unsafe { program_headers(start) };
        let eh_frame_hdr = headers.and_then(|headers| headers.unwind_table()).unwrap_or(0);
        Self { start, end, eh_frame_hdr, name: 0 }
    }
}

/// Looks up `_dl_find_object` (glibc 2.35), which is signal-safe. For ordinary context.
pub(crate) fn resolve() {
    // SAFETY: reads the auxiliary vector.
    let base = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    // AT_BASE is 0 if the loader was run as a command. Sanitizers, too, define `__tls_get_addr`.
    let own = if base == 0 { symbol(c"__tls_get_addr").cast() } else { ptr::without_provenance_mut(base) };
    LOADER_ADDRESS.store(own, Ordering::Release);
    let found = symbol(c"_dl_find_object");
    FIND_OBJECT.store(found.cast(), Ordering::Release);
}

/// Sets the main program's range. For ordinary context, after [`resolve`]. If unused pages separate
/// its segments (lld may leave one), the loader returns only the address's range (glibc 2.36,
/// `_dlfo_process_initial`); only the first has program headers. A library is always one range.
pub(crate) fn set_main_program_range(range: Range<usize>) {
    // SAFETY: reads the auxiliary vector.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    let Some(found) = dl_find_object(entry).filter(|_| range.contains(&entry)) else { return };
    // Relaxed: published by the release of the link map below.
    MAIN_START.store(range.start, Ordering::Relaxed);
    MAIN_END.store(range.end, Ordering::Relaxed);
    // Release: pairs with the acquire in `find`, which then reads the range.
    MAIN_MAP.store(found.link_map, Ordering::Release);
}

/// Whether [`find`] works: glibc has `_dl_find_object`.
pub(crate) fn can_find() -> bool {
    !FIND_OBJECT.load(Ordering::Acquire).is_null()
}

/// Whether `address` is in the loader. Signal-safe, as [`find`].
pub(crate) fn is_in_loader(address: usize) -> bool {
    let function = LOADER_ADDRESS.load(Ordering::Acquire);
    find(function as usize).is_some_and(|loader| (loader.start..loader.end).contains(&address))
}

/// Whether `address` is in the main program. Signal-safe, as [`find`].
pub(crate) fn is_in_program(address: usize) -> bool {
    find(address).is_some_and(|object| !object.has_name())
}

/// Returns the object of `address`. Signal-safe: glibc's manual ("Dynamic Linker Introspection")
/// calls `_dl_find_object` async-signal-safe, and `resolve` looked it up before.
pub(crate) fn find(address: usize) -> Option<LoadedObject> {
    let found = dl_find_object(address)?;
    let name = if found.link_map.is_null() {
        0
    } else {
        // SAFETY: the loader's link map of a loaded object.
        unsafe { (*found.link_map).name as usize }
    };
    // Acquire: pairs with the release in `set_main_program_range`.
    let is_main = !found.link_map.is_null() && MAIN_MAP.load(Ordering::Acquire) == found.link_map;
    let (start, end) = if is_main {
        // Relaxed: stored before the link map.
        (MAIN_START.load(Ordering::Relaxed), MAIN_END.load(Ordering::Relaxed))
    } else {
        (found.map_start as usize, found.map_end as usize)
    };
    Some(LoadedObject { start, end, eh_frame_hdr: found.eh_frame as usize, name })
}

fn dl_find_object(address: usize) -> Option<DlFindObject> {
    let function = FIND_OBJECT.load(Ordering::Acquire);
    if function.is_null() {
        return None;
    }
    // SAFETY: `resolve` stored the address of `_dl_find_object`, which has this type.
    let function = unsafe { mem::transmute::<*mut (), FindFunction>(function) };
    let mut result = DlFindObject {
        flags: 0,
        map_start: ptr::null_mut(),
        map_end: ptr::null_mut(),
        link_map: ptr::null_mut(),
        eh_frame: ptr::null_mut(),
        data_base: [0; DATA_BASE],
        reserved: [0; 7],
    };
    // SAFETY: any address is allowed; the result is a local.
    (unsafe { function(address as *mut libc::c_void, &mut result) } == 0).then_some(result)
}

/// Calls `dlsym(3)` with `RTLD_NEXT`, for interposed functions. Ordinary context.
pub(crate) fn next_symbol(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Calls `dlsym(3)` with `RTLD_DEFAULT`; null if there is none. Ordinary context.
pub(crate) fn symbol(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Whether libc reports a single thread (glibc 2.32). Ordinary context.
pub(crate) fn is_single_threaded() -> bool {
    let flag = symbol(c"__libc_single_threaded").cast::<u8>();
    // SAFETY: a `char` of libc (`<sys/single_threaded.h>`).
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// Calls `dladdr(3)`. For ordinary context: it takes the loader's lock.
pub(crate) fn dladdr(address: usize) -> Option<libc::Dl_info> {
    // SAFETY: all fields are pointers, for which null is a value.
    let mut info: libc::Dl_info = unsafe { mem::zeroed() };
    // SAFETY: any address is allowed; the structure is a local.
    let found = unsafe { libc::dladdr(address as *const libc::c_void, &mut info) };
    (found != 0).then_some(info)
}

/// Returns the nearest exported symbol at or below `address`. For ordinary context, as [`dladdr`].
pub(crate) fn exported_name(address: usize) -> Option<String> {
    let name = dladdr(address).map(|info| info.dli_sname).filter(|name| !name.is_null())?;
    // SAFETY: the loader's string of a loaded object.
    Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// Returns the object's path; the program's is `argv[0]`. For ordinary context, as [`dladdr`].
pub(crate) fn file_of(address: usize) -> Option<Vec<u8>> {
    let name = dladdr(address).map(|info| info.dli_fname).filter(|name| !name.is_null())?;
    // SAFETY: the loader's string of a loaded object.
    Some(unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Rounded down to a page, as the kernel maps it.
    pub(crate) start: usize,
    /// The end of the bytes that the file backs.
    pub(crate) file_end: usize,
    /// Rounded up to a page.
    pub(crate) end: usize,
    /// Offset of `start` in the file.
    pub(crate) offset: usize,
    pub(crate) readable: bool,
    pub(crate) executable: bool,
}

pub(crate) struct ProgramHeaders {
    next: usize,
    left: usize,
    /// Difference of addresses in memory and in the file.
    bias: usize,
}

/// Reads the ELF header, if the first segment has one. Signal-safe: reads mapped memory.
///
/// # Safety
/// * `start` must be the first byte of an object that stays mapped while the headers are used.
pub(crate) unsafe fn program_headers(start: usize) -> Option<ProgramHeaders> {
    if start % PAGE != 0 {
        // A later range of an object has no ELF header.
        return None;
    }
    // SAFETY: a page is mapped at the page-aligned `start`; an ELF header is smaller.
    let header = unsafe { &*(start as *const FileHeader) };
    let is_elf = header.e_ident.starts_with(b"\x7fELF");
    let offset = usize::try_from(header.e_phoff).ok()?;
    let count = usize::from(header.e_phnum);
    let bytes = count * size_of::<ProgramHeader>();
    if !is_elf || offset.checked_add(bytes)? > PAGE || offset % align_of::<ProgramHeader>() != 0 {
        return None;
    }
    let mut headers = ProgramHeaders { next: start + offset, left: count, bias: 0 };
    // SAFETY: the headers are in the first page. The lowest segment is at `start`.
    let lowest = unsafe { headers.segments() }.map(|segment| segment.start).min()?;
    headers.bias = start.wrapping_sub(lowest);
    Some(headers)
}

impl ProgramHeaders {
    fn unwind_table(&self) -> Option<usize> {
        (0..self.left).find_map(|i| {
            let place = self.next + i * size_of::<ProgramHeader>();
            // SAFETY: `program_headers` checked that the headers are in the object's first page.
            let header = unsafe { &*(place as *const ProgramHeader) };
            (header.p_type == libc::PT_GNU_EH_FRAME).then(|| self.bias.wrapping_add(header.p_vaddr as usize))
        })
    }

    /// # Safety
    /// * The object must stay mapped while the iterator is used.
    pub(crate) unsafe fn segments(&self) -> impl Iterator<Item = Segment> {
        let (start, count, bias) = (self.next, self.left, self.bias);
        (0..count).filter_map(move |i| {
            let place = start + i * size_of::<ProgramHeader>();
            // SAFETY: `program_headers` checked that the headers are in the object's first page.
            let header = unsafe { &*(place as *const ProgramHeader) };
            if header.p_type != libc::PT_LOAD {
                return None;
            }
            let address = bias.wrapping_add(header.p_vaddr as usize);
            let into_page = address % PAGE;
            Some(Segment {
                start: address - into_page,
                file_end: address.wrapping_add(header.p_filesz as usize),
                end: address.wrapping_add(header.p_memsz as usize).checked_next_multiple_of(PAGE)?,
                offset: (header.p_offset as usize).wrapping_sub(into_page),
                readable: header.p_flags & libc::PF_R != 0,
                executable: header.p_flags & libc::PF_X != 0,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_the_loaders_code() {
        resolve();
        if !can_find() {
            return;
        }
        // SAFETY: reads the auxiliary vector.
        let entry = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
        assert!(is_in_loader(entry) && is_in_loader(entry + 0x4000));
        assert!(!is_in_loader(symbol(c"getpid") as usize));
        assert!(!is_in_loader(distinguishes_the_loaders_code as *const () as usize));
        assert!(!is_in_loader(0));
    }

    #[test]
    fn the_object_of_an_address_is_found_with_its_segments() {
        resolve();
        if !can_find() {
            return;
        }
        let here = the_object_of_an_address_is_found_with_its_segments as *const () as usize;
        // SAFETY: reads the auxiliary vector. The test's program is the main program.
        let first = unsafe { libc::getauxval(libc::AT_PHDR) } as usize / PAGE * PAGE;
        // SAFETY: this program stays mapped.
        let main = unsafe { program_headers(first) }.unwrap();
        // SAFETY: this program stays mapped.
        let last = unsafe { main.segments() }.map(|segment| segment.end).max().unwrap();
        set_main_program_range(first..last);
        let object = find(here).unwrap();
        assert!((object.start..object.end).contains(&here));
        assert_ne!(object.eh_frame_hdr, 0);
        // SAFETY: this program stays mapped.
        let headers = unsafe { program_headers(object.start) }.unwrap();
        // SAFETY: this program stays mapped.
        let holding = unsafe { headers.segments() }.find(|s| (s.start..s.end).contains(&here)).unwrap();
        assert!(holding.executable);
        assert!(find(&raw const here as usize).is_none(), "the stack belongs to no object");
    }
}
