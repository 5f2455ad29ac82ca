//! Profiles from lines of text.

use sigprof_analysis::profile::{
    Builder, Function, Known, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId, Profile,
    compare, label,
};
use std::{collections::HashMap, path::Path};

/// Milliseconds of a sample.
pub(crate) const PERIOD: i64 = 10;

/// A profile of lines like `thread|main;work@src/a.rs:12;[leaf]@:0 5`: an optional thread; frames,
/// outermost first, with an optional file and line; and the number of samples.
pub(crate) fn profile(lines: &str) -> Profile {
    let mut builder = Builder::new(Profile::cpu_types());
    builder.profile.period = PERIOD * 1_000_000;
    builder.profile.time_nanos = 1_790_000_000_000_000_000;
    builder.profile.duration_nanos = 2_000_000_000;
    builder.profile.comments.push("2 ticks were lost".into());
    builder.mapping(Mapping {
        start: 0x1000,
        end: 0x9000,
        file_offset: 0,
        file: "/usr/bin/program".into(),
        build_id: "".into(),
        is_deleted: false,
        is_moved: false,
        process: None,
        has: Known { functions: true, files: true, lines: true, inlines: true },
    });
    let mut known: HashMap<String, LocationId> = HashMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        let (thread, stack) = stack.split_once('|').unwrap_or(("", stack));
        let mut chain: Vec<LocationId> = Vec::new();
        for frame in stack.split(';').filter(|frame| !frame.is_empty()) {
            let id = *known.entry(frame.into()).or_insert_with(|| {
                let (name, place) = frame.split_once('@').unwrap_or((frame, ":0"));
                let (file, line) = place.rsplit_once(':').expect("a line");
                let name: std::sync::Arc<str> = name.replace("\\s", ";").into();
                let function = Function { system_name: name.clone(), name, file: file.into(), start_line: 0 };
                let line = Line {
                    function: builder.function(function),
                    line: line.parse().expect("a number"),
                    column: 0,
                };
                builder.profile.locations.push(Location {
                    mapping: Some(MappingId(0)),
                    lines: vec![line],
                    ..Location::default()
                });
                LocationId::at(builder.profile.locations.len() - 1)
            });
            chain.insert(0, id);
        }
        let labels = match thread {
            "" => Vec::new(),
            name => vec![Label { key: label::THREAD.into(), value: LabelValue::Text(name.into()) }],
        };
        let labels = builder.label_set(&labels);
        let count: i64 = count.parse().expect("a number");
        builder.profile.samples.push(&chain, &[count, count * PERIOD * 1_000_000], labels);
    }
    let profile = builder.finish();
    assert_eq!(profile.check(), Ok(()));
    profile
}

pub(crate) fn compared(new: &Profile, old: &Profile) -> Profile {
    compare((Path::new("new"), new.clone()), (Path::new("old"), old.clone())).expect("they go together")
}
