//! Symbolization of addresses: functions, files, lines and inlined calls.
//!
//! | file | purpose |
//! | --- | --- |
//! | `kept`, `memory_image` | objects kept open, or read from process memory |
//! | `opened` | the file of a mapping, or why there is none |
//! | `object_file` | an object with all files of its names |
//! | `debug_files` | separate debug files |
//! | `debuginfod` | files from servers |
//! | `dwarf/` | functions, lines, inlined calls |
//! | `symbol_table`, `frame_bounds` | `.symtab`, `.dynsym`; `.eh_frame` for functions without one |
//! | `perf_map`, `vdso` | code without a file |
//! | `texts` | names and paths of an object, stored once, with a limit |
//! | `source_lines` | lines of a file's addresses, without a profile |
//! | `naming` | conversion of results to the profile's functions |
//!
//! Objects are untrusted. Reading one uses at most 256 bytes of memory for each of its bytes,
//! decompressed (at most 50 times the file plus 16 MiB), 16 KiB for each address, and 32 MiB
//! (`tests/gate/hostile.rs`). The factor is high because of declarations and file tables with
//! entries of one or two bytes, which compilers do not write.

mod debug_files;
mod debuginfod;
mod demangle;
mod dwarf;
mod frame_bounds;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod image;
mod kept;
mod memory_image;
mod naming;
mod object_file;
mod opened;
mod parallel;
pub mod perf_map;
mod section;
mod source_lines;
mod stand_in;
mod symbol_table;
mod texts;
mod vdso;
mod wanted;

pub use debuginfod::Servers;
pub(crate) use demangle::demangle_keeping_clones;
pub use kept::KeptObject;
pub use memory_image::Memory;
pub use source_lines::SourceLine;
pub(crate) use source_lines::{Position, SourceLines};

use crate::profile::{Mapping, Profile};
use naming::Naming;
use object_file::{Named, ObjectFile, Plan};
use opened::{ObjectKey, Opened};
use std::{
    collections::HashMap,
    fmt, iter,
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use wanted::{Wanted, WantedAddress};

/// Search paths and display options.
#[derive(Clone, Debug)]
pub struct SymbolizerOptions {
    /// The root directory of the profiled machine, in which the profile's paths are searched first.
    pub sysroot: Option<PathBuf>,
    /// A file to use instead of the program, which is the first mapping.
    pub binary: Option<PathBuf>,
    /// Show demangled names instead of linker names.
    pub demangle: bool,
    /// Directories of debug files, searched in the sysroot first, then as given.
    pub debug_directories: Vec<PathBuf>,
    /// Servers for files that are not found.
    pub servers: Option<Servers>,
    /// Executed objects that were kept open, used first.
    pub kept: Vec<KeptObject>,
    /// Directory in which JIT compilers write `perf-PID.map`.
    pub perf_map_directory: PathBuf,
    /// Ancestors of forked processes, the nearest first: code that they had compiled is inherited.
    pub ancestors: HashMap<u32, Vec<u32>>,
}

impl Default for SymbolizerOptions {
    fn default() -> Self {
        Self {
            sysroot: None,
            binary: None,
            demangle: true,
            debug_directories: vec!["/usr/lib/debug".into()],
            servers: None,
            kept: Vec::new(),
            perf_map_directory: "/tmp".into(),
            ancestors: HashMap::new(),
        }
    }
}

/// Looks up names, and keeps opened objects for the next profile.
pub struct Symbolizer {
    options: SymbolizerOptions,
    /// The file of the first mapping of the last symbolized profile.
    program: Option<PathBuf>,
    objects: Mutex<HashMap<ObjectKey, Arc<OnceLock<Opened>>>>,
}

impl fmt::Debug for Symbolizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbolizer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Progress of a symbolization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Addresses that were looked up.
    pub done: usize,
    /// Addresses to look up.
    pub all: usize,
    /// A request to a server is pending.
    pub is_asking: bool,
}

struct Work {
    object: Arc<OnceLock<Opened>>,
    /// For each address of the group its index in the plan; None if the file does not contain it.
    at: Vec<Option<usize>>,
    plan: Plan,
}

impl Symbolizer {
    /// Creates a symbolizer without opened objects.
    pub fn new(options: SymbolizerOptions) -> Self {
        Self { options, program: None, objects: Mutex::new(HashMap::new()) }
    }

    /// Names sampled locations without names. Returns a warning for each object without symbols.
    pub fn symbolize(&mut self, profile: &mut Profile, progress: &mut dyn FnMut(Progress)) -> Vec<String> {
        self.program = profile.mappings.first().map(|mapping| mapping.file.clone());
        self.settle_moved(profile);
        let wanted = Wanted::of(profile, |mapping| self.key(mapping));
        let all = wanted.count();
        let mut done = 0;
        let mut report = |more: usize| {
            done += more;
            let is_asking = self.options.servers.as_ref().is_some_and(Servers::is_asked);
            progress(Progress { done, all, is_asking });
        };
        report(0);
        let work = parallel::map(&wanted.objects, |(key, places)| self.prepare(key, places), |_| report(0));
        let units: Vec<(usize, usize)> = (0..work.len())
            .flat_map(|group| (0..work[group].plan.units.len()).map(move |unit| (group, unit)))
            .collect();
        let look_up = |&(group, unit): &(usize, usize)| {
            let Work { object, plan, .. } = &work[group];
            object_of(object).map_or_else(Vec::new, |object| object.look_up_unit(plan, &plan.units[unit]))
        };
        let mut found = parallel::map(&units, look_up, |item| {
            report(item.map_or(0, |&(group, unit)| work[group].plan.units[unit].places.len()));
        })
        .into_iter();
        let mut naming = Naming::new(profile, self.options.demangle);
        let mut warnings = Vec::new();
        for ((key, places), work) in wanted.objects.iter().zip(&work) {
            let found: Vec<_> = found.by_ref().take(work.plan.units.len()).collect();
            // When stand-ins are looked up again, the recorder has already given the warning.
            let is_first = places.iter().any(|place| !place.has_stand_in);
            let Some(object) = object_of(&work.object) else {
                if let Some(Opened::Missing(Some(reason))) = work.object.get() {
                    warnings.extend(is_first.then(|| reason.clone()));
                }
                continue;
            };
            let name = key.short_name();
            let named = object.finish(&work.plan, found, &name);
            for (place, at) in places.iter().zip(&work.at) {
                if let Some(at) = *at {
                    naming.give(place.location, &named[at]);
                }
            }
            warnings.extend(warning(object, &named).filter(|_| is_first));
        }
        self.name_generated_code(&wanted, &mut naming, &mut warnings);
        warnings.extend(self.options.servers.as_ref().and_then(Servers::warning));
        progress(Progress { done: all, all, is_asking: false });
        warnings
    }

    /// Converts the offsets of moved code. What is not code of the file becomes anonymous memory.
    pub fn settle_moved(&self, profile: &mut Profile) {
        for mapping in profile.mappings.iter_mut().filter(|mapping| mapping.is_moved) {
            mapping.is_moved = false;
            let object = self.key(mapping).map(|key| self.open(&key));
            let offset = object
                .as_deref()
                .and_then(object_of)
                .map(|object| object.offset_of_code(mapping.file_offset));
            match offset {
                Some(Some(offset)) => mapping.file_offset = offset,
                Some(None) => {
                    (mapping.file, mapping.file_offset) = (PathBuf::new(), 0);
                    (mapping.build_id, mapping.is_deleted) = ("".into(), false);
                }
                // Most linkers use the same distances in files and in memory.
                None => {}
            }
        }
    }

    /// Sets missing build IDs from the current files, except deleted ones, for a new profile.
    pub fn note_build_ids(&self, profile: &mut Profile) {
        for mapping in profile.mappings.iter_mut().filter(|mapping| mapping.build_id.is_empty()) {
            let Some(key) = self.key(mapping).filter(|_| !mapping.is_deleted) else { continue };
            if let Some(object) = object_of(&self.open(&key)) {
                mapping.build_id = object.build_id().into();
            }
        }
    }

    /// Returns the file of a mapping; None without one, or if it is not the executed file. A
    /// mapping is recognised as the program's after its profile was symbolized.
    pub fn file_of(&self, mapping: &Mapping) -> Option<PathBuf> {
        let object = self.open(&self.key(mapping)?);
        object_of(&object)?.path().map(Into::into)
    }

    /// Converts `address` to one of [`file_of`](Self::file_of)'s file, as `objdump` prints it.
    pub fn file_address(&self, mapping: &Mapping, address: u64) -> Option<u64> {
        let object = self.open(&self.key(mapping)?);
        object_of(&object)?.address(mapping.file_offset, distance(mapping, address)?)
    }

    /// Returns the process addresses of the function around `address`; of a split one, the part.
    pub fn function_range(&self, mapping: &Mapping, address: u64) -> Option<Range<u64>> {
        let object = self.open(&self.key(mapping)?);
        let object = object_of(&object)?;
        let inside = object.address(mapping.file_offset, distance(mapping, address)?)?;
        let range = object.function_range(inside)?;
        let start = address.checked_sub(inside.checked_sub(range.start)?)?;
        Some(start..start.checked_add(range.end.checked_sub(range.start)?)?)
    }

    /// Returns the key of a mapping's object; None if it can have none.
    fn key(&self, mapping: &Mapping) -> Option<ObjectKey> {
        let is_object = opened::is_file(&mapping.file) || mapping.file.as_os_str() == "[vdso]";
        let is_given = self.options.binary.is_some() && self.program.as_ref() == Some(&mapping.file);
        (is_object || is_given).then(|| ObjectKey::new(mapping, self.program.as_deref(), &self.options))
    }

    fn open(&self, key: &ObjectKey) -> Arc<OnceLock<Opened>> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let object = objects.entry(key.clone()).or_default().clone();
        // Other threads can open other objects.
        drop(objects);
        object.get_or_init(|| key.open(&self.options));
        object
    }

    fn prepare(&self, key: &ObjectKey, places: &[WantedAddress]) -> Work {
        let object = self.open(key);
        let address = |place: &WantedAddress| object_of(&object)?.address(place.file_offset, place.distance);
        let inside: Vec<Option<u64>> = places.iter().map(address).collect();
        let mut addresses: Vec<u64> = inside.iter().flatten().copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let at = inside.iter().map(|address| addresses.binary_search(&(*address)?).ok()).collect();
        let plan = match object_of(&object) {
            Some(object) => object.plan(addresses),
            None => Plan { addresses: Vec::new(), units: Vec::new() },
        };
        Work { object, at, plan }
    }

    /// Names code of JIT compilers from their perf maps.
    fn name_generated_code(&self, wanted: &Wanted, naming: &mut Naming<'_>, warnings: &mut Vec<String>) {
        let given = &self.options.perf_map_directory;
        let below =
            self.options.sysroot.as_ref().map(|root| root.join(given.strip_prefix("/").unwrap_or(given)));
        let name = |process: &u32| format!("perf-{process}.map");
        for (process, places) in &wanted.generated {
            let mut has_map = false;
            let mut places: Vec<&WantedAddress> = places.iter().collect();
            places.sort_unstable_by_key(|place| place.address);
            // A child's own map first: it may have replaced code at addresses of its parent's.
            for process in
                iter::once(process).chain(self.options.ancestors.get(process).into_iter().flatten())
            {
                let addresses: Vec<u64> = places.iter().map(|place| place.address).collect();
                if addresses.is_empty() {
                    break;
                }
                let candidates = below.iter().chain([given]).map(|directory| directory.join(name(process)));
                let found = candidates.map(|path| perf_map::find_in_file(&path, &addresses));
                match found.filter_map(Result::transpose).next() {
                    Some(Ok(found)) => {
                        has_map = true;
                        let mut found = found.into_iter();
                        places.retain(|place| {
                            let code = found.next().flatten();
                            code.iter().for_each(|code| naming.give(place.location, &Named::of_code(code)));
                            code.is_none()
                        });
                    }
                    Some(Err(error)) => {
                        has_map = true;
                        warnings.push(error.to_string());
                    }
                    None => {}
                }
            }
            // Unmapped addresses are more often from damaged stacks than code.
            if !has_map && places.iter().any(|place| place.is_mapped) {
                warnings.push(format!(
                    "{}: is not there, so code that process {process} generated has no names; have its compiler write the map \
                     (node --perf-basic-prof, python3.12 -X perf) when you record",
                    given.join(name(process)).display()
                ));
            }
        }
    }
}

fn distance(mapping: &Mapping, address: u64) -> Option<u64> {
    (mapping.start..mapping.end).contains(&address).then(|| address - mapping.start)
}

fn object_of(object: &OnceLock<Opened>) -> Option<&ObjectFile> {
    match object.get()? {
        Opened::Object(object) => Some(object),
        Opened::Missing(_) => None,
    }
}

fn warning(object: &ObjectFile, named: &[Named]) -> Option<String> {
    let path = object.path().filter(|path| path.as_os_str() != "[vdso]")?.display();
    if !object.notes().is_empty() {
        return Some(format!(
            "{path}: its debug information is damaged or not all there: {}",
            object.notes().join("; ")
        ));
    }
    let has_none = !named.is_empty() && named.iter().all(|named| named.is_nameless || named.calls.is_empty());
    has_none.then(|| {
        format!(
            "{path}: has no symbols for what was sampled, and no debug file was found; install its debug package (as NAME-dbgsym), set \
             DEBUGINFOD_URLS, or build it with -g and do not strip it"
        )
    })
}
