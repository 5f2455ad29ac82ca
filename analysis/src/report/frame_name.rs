//! Function names of the page, which has no line or address granularity.

use crate::{
    graph::Place,
    profile::{Function, Location, Mapping, Profile},
};
use std::{borrow::Cow, path::Path, sync::Arc};

/// Iterates over the names at a location, innermost first, one for each line; one for a location
/// without lines. They equal those of text reports by function.
pub(crate) fn names<'a>(profile: &'a Profile, location: &'a Location) -> impl Iterator<Item = Cow<'a, str>> {
    let named = location.lines.iter().map(|line| {
        let function = profile.function(line.function);
        if function.name.is_empty() {
            nameless(profile, location, Some(function))
        } else {
            (&*function.name).into()
        }
    });
    named.chain(location.lines.is_empty().then(|| nameless(profile, location, None)))
}

pub(crate) fn object(mapping: Option<&Mapping>) -> Cow<'_, str> {
    let file = mapping.map_or(Path::new(""), |mapping| &mapping.file);
    file.file_name().unwrap_or_default().to_string_lossy()
}

fn nameless(profile: &Profile, location: &Location, function: Option<&Function>) -> Cow<'static, str> {
    let object =
        profile.mapping_of(location).map_or(Cow::Borrowed(""), |mapping| mapping.file.to_string_lossy());
    let file = function.map_or_else(|| Arc::from(""), |function| function.file.clone());
    Place { file, object: object.into(), ..Place::default() }.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Builder, Known, Line, MappingId};

    #[test]
    fn names_a_function_without_a_name_by_its_object() {
        let mut builder = Builder::new(Profile::cpu_types());
        for file in ["/lib/libc.so.6", "[vdso]"] {
            builder.mapping(Mapping {
                start: 0,
                end: 0,
                file_offset: 0,
                file: file.into(),
                build_id: "".into(),
                is_deleted: false,
                is_moved: false,
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
            (None, 16, vec![], vec!["<unknown>"]),
            (Some(0), 16, vec![named, nameless], vec!["memcpy", "[libc.so.6]"]),
        ];
        for (mapping, address, lines, expected) in cases {
            let location = Location { mapping: mapping.map(MappingId), address, lines, is_folded: false };
            assert_eq!(names(&profile, &location).collect::<Vec<_>>(), expected);
        }
    }
}
