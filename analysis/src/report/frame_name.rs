//! What a frame is called in a picture.

use crate::profile::{Location, Mapping, Profile};
use std::{borrow::Cow, path::Path};

/// The names at a location, innermost first, one for each of its lines; a single one for a location without any.
pub(crate) fn names<'a>(profile: &'a Profile, location: &'a Location) -> impl Iterator<Item = Cow<'a, str>> {
    let named = location.lines.iter().map(|line| match &*profile.function(line.function).name {
        "" => unnamed(profile, location),
        name => name.into(),
    });
    named.chain(location.lines.is_empty().then(|| unnamed(profile, location)))
}

/// The last part of the path of a mapping's file; empty where it has none.
pub(crate) fn object(mapping: Option<&Mapping>) -> Cow<'_, str> {
    let file = mapping.map_or(Path::new(""), |mapping| &mapping.file);
    file.file_name().unwrap_or_default().to_string_lossy()
}

/// The object in brackets, as in pprof, or the address where no object is known.
fn unnamed(profile: &Profile, location: &Location) -> Cow<'static, str> {
    let object = object(profile.mapping_of(location));
    match (&*object, location.address) {
        ("", 0) => "[unknown]".into(),
        ("", address) => format!("{address:#x}").into(),
        (object, _) if object.starts_with('[') => object.to_owned().into(),
        (object, _) => format!("[{object}]").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Builder, Function, Known, Line, MappingId};

    #[test]
    fn a_frame_without_a_name_has_its_objects_or_its_address() {
        let mut builder = Builder::new(Profile::cpu_types());
        for file in ["/lib/libc.so.6", "[vdso]"] {
            builder.mapping(Mapping {
                start: 0,
                end: 0,
                file_offset: 0,
                file: file.into(),
                build_id: "".into(),
                is_deleted: false,
                process: None,
                has: Known::default(),
            });
        }
        let [nameless, named] = ["", "memcpy"].map(|name| {
            let (name, file): (std::sync::Arc<str>, _) = (name.into(), "".into());
            let system_name = name.clone();
            let function = builder.function(Function { name, system_name, file, start_line: 0 });
            Line { function, line: 0, column: 0 }
        });
        let profile = builder.finish();
        let cases = [
            (Some(0), 16, vec![], vec!["[libc.so.6]"]),
            (Some(1), 16, vec![], vec!["[vdso]"]),
            (None, 16, vec![], vec!["0x10"]),
            (None, 0, vec![], vec!["[unknown]"]),
            (Some(0), 16, vec![named, nameless], vec!["memcpy", "[libc.so.6]"]),
        ];
        for (mapping, address, lines, expected) in cases {
            let location = Location { mapping: mapping.map(MappingId), address, lines, is_folded: false };
            assert_eq!(names(&profile, &location).collect::<Vec<_>>(), expected);
        }
    }
}
