//! Split DWARF: functions in `.dwo` files, or in a `.dwp` package of them.

use super::{Dwarf, Sections, Slice};
use crate::symbolize::{debug_files::SplitPlaces, image::Image};
use gimli::{DwarfPackage, DwoId, Reader as _, RunTimeEndian, SectionId, Unit, UnitRef};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

pub(super) struct SplitFiles {
    places: SplitPlaces,
    packages: OnceLock<Vec<Sections>>,
}

impl SplitFiles {
    pub(super) fn new(places: SplitPlaces) -> Self {
        Self { places, packages: OnceLock::new() }
    }

    /// Calls `with` for the split unit of `skeleton`; None without one, or if it is missing.
    pub(super) fn with_unit<T>(
        &self,
        skeleton: UnitRef<'_, Slice<'_>>,
        with: impl FnOnce(&Dwarf<'_>, &Unit<Slice<'_>>) -> T,
    ) -> Option<T> {
        let name = skeleton.dwo_name().ok().flatten()?;
        let id = skeleton.dwo_id?;
        let open_all = || self.places.packages.iter().filter_map(|path| open(path)).collect();
        for sections in self.packages.get_or_init(open_all) {
            let empty = Slice::new(&[], RunTimeEndian::Little);
            let load = |id: SectionId| Ok::<_, gimli::Error>(sections.section(id));
            let Ok(package) = DwarfPackage::load(load, empty) else { continue };
            let Some(dwo) = package.find_cu(id, skeleton.dwarf).ok().flatten() else { continue };
            if let Some(unit) = find(&dwo, id, skeleton.unit) {
                return Some(with(&dwo, &unit));
            }
        }
        let path = |text: Slice<'_>| {
            text.to_slice().ok().map(|path| PathBuf::from(OsString::from_vec(path.into_owned())))
        };
        let name = path(skeleton.attr_string(name).ok()?)?;
        let directory = skeleton.comp_dir.and_then(path).unwrap_or_default();
        for sections in self.places.files(&directory, &name).iter().filter_map(|path| open(path)) {
            let mut dwo = sections.dwarf();
            dwo.make_dwo(skeleton.dwarf);
            if let Some(unit) = find(&dwo, id, skeleton.unit) {
                return Some(with(&dwo, &unit));
            }
        }
        None
    }
}

fn open(path: &Path) -> Option<Sections> {
    Sections::read(Arc::new(Image::open(path).ok()?), true, &mut Vec::new())
}

/// Finds the unit with this ID: a rebuilt file has another.
fn find<'data>(dwo: &Dwarf<'data>, id: DwoId, skeleton: &Unit<Slice<'data>>) -> Option<Unit<Slice<'data>>> {
    let mut headers = dwo.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(mut unit) = dwo.unit(header) else { continue };
        if unit.dwo_id == Some(id) {
            unit.copy_relocated_attributes(skeleton);
            return Some(unit);
        }
    }
    None
}
