//! Split DWARF: functions in `.dwo` files, or in the `.dwp` that was made of them.

use super::{Dwarf, Sections, Slice};
use crate::symbolize::image::Image;
use gimli::{DwarfPackage, DwoId, Reader as _, RunTimeEndian, SectionId, Unit, UnitRef};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Calls `with` for the unit that `skeleton`, a unit of `main`, stands for; None where it stands for none, or for one that is not
/// there: in BINARY.dwp, in the file that the unit names, or in one of that name beside the binary.
pub(super) fn with_unit<T>(
    main: &Sections,
    skeleton: UnitRef<'_, Slice<'_>>,
    with: impl FnOnce(&Dwarf<'_>, &Unit<Slice<'_>>) -> T,
) -> Option<T> {
    let name = skeleton.dwo_name().ok().flatten()?;
    let id = skeleton.dwo_id?;
    let path = |text: Slice<'_>| {
        text.to_slice().ok().map(|path| PathBuf::from(OsString::from_vec(path.into_owned())))
    };
    let name = path(skeleton.attr_string(name).ok()?)?;
    let written = skeleton.comp_dir.and_then(path).unwrap_or_default().join(name);
    let binary = main.image().path();
    let mut package = binary.as_os_str().to_owned();
    package.push(".dwp");
    if let Some(sections) = open(Path::new(&package)) {
        let empty = Slice::new(&[], RunTimeEndian::Little);
        let load = |id: SectionId| Ok::<_, gimli::Error>(sections.section(id));
        let package = DwarfPackage::load(load, empty).ok()?;
        let dwo = package.find_cu(id, skeleton.dwarf).ok().flatten()?;
        return enter(&dwo, id, skeleton.unit, with);
    }
    let beside = binary.parent().zip(written.file_name()).map(|(folder, name)| folder.join(name));
    let sections = std::iter::once(written).chain(beside).find_map(|path| open(&path))?;
    let mut dwo = sections.dwarf();
    dwo.make_dwo(skeleton.dwarf);
    enter(&dwo, id, skeleton.unit, with)
}

fn open(path: &Path) -> Option<Sections> {
    Sections::read(Arc::new(Image::open(path).ok()?), true, &mut Vec::new())
}

/// The unit of that id: a file that was built anew has another.
fn enter<'data, T>(
    dwo: &Dwarf<'data>,
    id: DwoId,
    skeleton: &Unit<Slice<'data>>,
    with: impl FnOnce(&Dwarf<'_>, &Unit<Slice<'_>>) -> T,
) -> Option<T> {
    let mut headers = dwo.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(mut unit) = dwo.unit(header) else { continue };
        if unit.dwo_id == Some(id) {
            unit.copy_relocated_attributes(skeleton);
            return Some(with(dwo, &unit));
        }
    }
    None
}
