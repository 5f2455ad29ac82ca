//! The vDSO, which has no file. With the same build ID, this process's copy is the same.

use super::image::Image;
use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
};

/// Returns this process's vDSO; None if there is none, or it cannot be read.
pub(super) fn own() -> Option<Image> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    // Two to four pages on all kernels.
    let size = usize::try_from(end.checked_sub(start)?).ok().filter(|&size| size <= 1 << 20)?;
    let mut bytes = vec![0; size];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Image::from_bytes(Path::new("[vdso]"), bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolize::{symbol_table, texts::Texts};
    use object::{Object as _, ObjectSymbol as _};

    #[test]
    fn finds_symbols_in_the_vdso() {
        let image = own().expect("every Linux process has one");
        assert!(!image.build_id().is_empty());
        let elf = image.elf().expect("is ELF");
        let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok("__vdso_clock_gettime"));
        let address = symbol.expect("is on all architectures that we run on").address();
        let found = symbol_table::find(&image, &Texts::of_files(0), &[address]);
        assert!(found[0].as_ref().is_some_and(|symbol| symbol.name.contains("clock_gettime")), "{found:?}");
    }
}
