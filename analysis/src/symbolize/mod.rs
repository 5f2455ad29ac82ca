//! Names for addresses: functions, files, lines and inlined calls.
//!
//! | file | what it does |
//! | --- | --- |
//! | `kept`, `memory_image` | objects that are held open, and what processes have of them in memory |
//! | `opened` | from a mapping to the file that ran, or the reason why there is none |
//! | `object_file` | an object with all the files of its names |
//! | `debug_files` | debug information in a file of its own |
//! | `debuginfod` | files from servers |
//! | `dwarf/` | functions, lines, inlined calls |
//! | `symbol_table`, `frame_bounds` | `.symtab` and `.dynsym`; `.eh_frame` for functions without a name |
//! | `perf_map`, `vdso` | code that no file has |
//! | `texts` | names and paths of an object, each once and not without end |
//! | `naming` | from what was found to the profile's functions |
//!
//! An object is bytes that anybody may have written. What it makes this take is at most 256 bytes for each of its own, decompressed
//! (which is at most 50 times the file and 16 MiB), 16 KiB for each address that is looked up, and 32 MiB besides (`tests/gate/hostile.rs`).
//! The many for each byte are for declarations and tables of files that have one or two bytes an entry, as no compiler writes them.

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
mod stand_in;
mod symbol_table;
mod texts;
mod vdso;
mod wanted;

pub use debuginfod::Servers;
pub use kept::KeptObject;
pub use memory_image::Memory;

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

/// Where names are looked for, and how they are shown.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory that the profile's paths are looked for in first, as the root of the machine that was profiled.
    pub sysroot: Option<PathBuf>,
    /// A file to take in the place of the program's own, the first mapping's.
    pub binary: Option<PathBuf>,
    /// Show names as a person writes them, not as the linker has them.
    pub demangle: bool,
    /// Where debug files are looked for: below the sysroot first, and then as it is said here.
    pub debug_directories: Vec<PathBuf>,
    /// Servers that are asked for files that are not there.
    pub servers: Option<Servers>,
    /// Objects that ran, which are taken first.
    pub kept: Vec<KeptObject>,
    /// Where just-in-time compilers leave `perf-PID.map`.
    pub perf_map_directory: PathBuf,
    /// For processes that were forked from others: these, the nearest first. What they had compiled until then is there, too.
    pub ancestors: HashMap<u32, Vec<u32>>,
}

impl Default for Options {
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

/// Looks up names, and keeps what it has opened for the next profile.
pub struct Symbolizer {
    options: Options,
    /// The file of the first mapping of the profile that was symbolized last.
    program: Option<PathBuf>,
    objects: Mutex<HashMap<ObjectKey, Arc<OnceLock<Opened>>>>,
}

impl fmt::Debug for Symbolizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbolizer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Addresses that were looked up.
    pub done: usize,
    /// Addresses to look up.
    pub all: usize,
    /// Servers are asked for files at this moment.
    pub is_asking: bool,
}

/// The addresses of one object, ready to be looked up.
struct Work {
    object: Arc<OnceLock<Opened>>,
    /// For each place of the group, where its address is in the plan; None where the file does not have it.
    at: Vec<Option<usize>>,
    plan: Plan,
}

impl Symbolizer {
    /// One that has opened nothing.
    pub fn new(options: Options) -> Self {
        Self { options, program: None, objects: Mutex::new(HashMap::new()) }
    }

    /// Gives names to the locations that have none, as far as they are used by a sample. Gives a line of text for each object
    /// whose names could not be had, and why.
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
            // Where stand-ins are looked up again, the recorder has given the warning.
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

    /// Finds where in its file code is that the program has moved to memory without one. What is not code of the file was not
    /// moved from there: it is memory without a file.
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
                // Most linkers leave the same distances in files as in memory.
                None => {}
            }
        }
    }

    /// Gives the build ids of the files that are there now to mappings that have none: for a profile that has just been
    /// recorded, whose files are those that ran. Mappings of a file that was deleted get none.
    pub fn note_build_ids(&self, profile: &mut Profile) {
        for mapping in profile.mappings.iter_mut().filter(|mapping| mapping.build_id.is_empty()) {
            let Some(key) = self.key(mapping).filter(|_| !mapping.is_deleted) else { continue };
            if let Some(object) = object_of(&self.open(&key)) {
                mapping.build_id = object.build_id().into();
            }
        }
    }

    /// The file to read for a mapping; None where there is none, or it is not the one that ran. A mapping of the program is known
    /// as such once its profile was symbolized.
    pub fn file_of(&self, mapping: &Mapping) -> Option<PathBuf> {
        let object = self.open(&self.key(mapping)?);
        object_of(&object)?.path().map(Into::into)
    }

    /// The address that [`file_of`](Self::file_of)'s file itself gives to what is at `address` in the process, as `objdump`
    /// prints it.
    pub fn file_address(&self, mapping: &Mapping, address: u64) -> Option<u64> {
        let object = self.open(&self.key(mapping)?);
        object_of(&object)?.address(mapping.file_offset, distance(mapping, address)?)
    }

    /// The code of the function around `address`, in addresses of the process: of one that was split, the piece that it is in.
    pub fn function_range(&self, mapping: &Mapping, address: u64) -> Option<Range<u64>> {
        let object = self.open(&self.key(mapping)?);
        let object = object_of(&object)?;
        let inside = object.address(mapping.file_offset, distance(mapping, address)?)?;
        let range = object.function_range(inside)?;
        let start = address.checked_sub(inside.checked_sub(range.start)?)?;
        Some(start..start.checked_add(range.end.checked_sub(range.start)?)?)
    }

    /// What identifies a mapping's object; None where it can have none.
    fn key(&self, mapping: &Mapping) -> Option<ObjectKey> {
        let is_object = opened::is_file(&mapping.file) || mapping.file.as_os_str() == "[vdso]";
        let is_given = self.options.binary.is_some() && self.program.as_ref() == Some(&mapping.file);
        (is_object || is_given).then(|| ObjectKey::new(mapping, self.program.as_deref(), &self.options))
    }

    /// Opens an object, unless it has been opened.
    fn open(&self, key: &ObjectKey) -> Arc<OnceLock<Opened>> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let object = objects.entry(key.clone()).or_default().clone();
        // Others are opened meanwhile.
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

    /// Names what just-in-time compilers have made, by the maps that they leave.
    fn name_generated_code(&self, wanted: &Wanted, naming: &mut Naming<'_>, warnings: &mut Vec<String>) {
        let given = &self.options.perf_map_directory;
        let below =
            self.options.sysroot.as_ref().map(|root| root.join(given.strip_prefix("/").unwrap_or(given)));
        let name = |process: &u32| format!("perf-{process}.map");
        for (process, places) in &wanted.generated {
            let mut has_map = false;
            let mut places: Vec<&WantedAddress> = places.iter().collect();
            places.sort_unstable_by_key(|place| place.address);
            // A child's own map comes first: it may have compiled other code at addresses of its parent's.
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
            // Addresses in no mapping are those of damaged stacks, more often than code.
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

/// Where in its mapping an address is.
fn distance(mapping: &Mapping, address: u64) -> Option<u64> {
    (mapping.start..mapping.end).contains(&address).then(|| address - mapping.start)
}

fn object_of(object: &OnceLock<Opened>) -> Option<&ObjectFile> {
    match object.get()? {
        Opened::Object(object) => Some(object),
        Opened::Missing(_) => None,
    }
}

/// What to say of an object's names.
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
