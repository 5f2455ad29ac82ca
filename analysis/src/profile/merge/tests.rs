//! Merging of processes with code in a file, in JIT memory and in the heap.

use super::*;
use crate::{
    filter::LabelFilter,
    profile::{Function, Label, LabelValue, compare, label, normalize, subtract},
};
use std::path::Path;

/// A process with its program at `base`, and a sample each in the program, JIT code and heap.
fn process(id: Option<u32>, base: u64) -> Profile {
    let mut builder = Builder::new(Profile::cpu_types());
    builder.profile.period_type = Some(ValueType::new("cpu", "nanoseconds"));
    builder.profile.period = 10;
    let mapping = |start, file: &str, build_id: &str| Mapping {
        start,
        end: start + 0x2000,
        file_offset: 0x1000,
        file: file.into(),
        build_id: build_id.into(),
        is_deleted: false,
        is_moved: false,
        process: id,
        has: Default::default(),
    };
    let program = builder.mapping(mapping(base, "/bin/x", "ab"));
    let jit = builder.mapping(mapping(0x10_0000, "", ""));
    let heap = builder.mapping(mapping(0x20_0000, "[heap]", ""));
    let places = [(program, base + 0x10), (jit, 0x10_0004), (heap, 0x20_0008)];
    for (mapping, address) in places {
        let id = builder.location(Some(mapping), address);
        builder.profile.samples.push(&[id], &[1, 10], LabelSetId(0));
    }
    builder.finish()
}

fn merged(profiles: Vec<Profile>) -> Result<Profile, Error> {
    let named = profiles.into_iter().enumerate();
    let merged = merge(named.map(|(number, profile)| Ok((format!("{number}.prof").into(), profile))))?;
    let merged = merged.expect("a profile");
    assert_eq!(merged.check(), Ok(()));
    Ok(merged)
}

fn values(profile: &Profile) -> Vec<i64> {
    profile.samples.iter().map(|sample| sample.values[0]).collect()
}

#[test]
fn merges_files_across_addresses_but_not_memory_of_processes() {
    let found = merged(vec![process(Some(1), 0x5000), process(Some(2), 0x7000)]).unwrap();
    assert_eq!(values(&found), [2, 1, 1, 1, 1]);
    assert_eq!((found.total(0), found.total(1)), (6, 60));
    let names: Vec<_> =
        found.mappings.iter().map(|mapping| (mapping.file.to_str().unwrap(), mapping.process)).collect();
    let expected = [("/bin/x", None), ("", Some(1)), ("[heap]", Some(1)), ("", Some(2)), ("[heap]", Some(2))];
    assert_eq!(names, expected);
    let address = found.location(found.samples.get(0).chain[0]).address;
    assert_eq!(address, 0x5010);

    // A process merged with itself.
    let found = merged(vec![process(Some(1), 0x5000), process(Some(1), 0x5000)]).unwrap();
    assert_eq!((values(&found), found.mappings.len()), (vec![2, 2, 2], 3));
    // Unknown processes are different.
    let found = merged(vec![process(None, 0x5000), process(None, 0x5000)]).unwrap();
    assert_eq!((values(&found), found.mappings.len()), (vec![2, 1, 1, 1, 1], 5));
}

#[test]
fn merges_named_locations_of_all_processes() {
    let named = |process_id, line| {
        let mut profile = process(Some(process_id), 0x5000);
        let name: Arc<str> = "f".into();
        let function = Function { name: name.clone(), system_name: name.clone(), file: name, start_line: 0 };
        // IDs differ between profiles.
        profile.functions = vec![function.clone(); process_id as usize];
        profile.functions.iter_mut().skip(1).for_each(|function| function.start_line = 7);
        let line = Line { function: FunctionId(0), line, column: 0 };
        profile.locations.iter_mut().for_each(|location| location.lines.push(line));
        profile
    };
    let found = merged(vec![named(1, 3), named(2, 3)]).unwrap();
    assert_eq!((values(&found), found.mappings.len(), found.functions.len()), (vec![2, 2, 2], 3, 2));
    assert_eq!(values(&merged(vec![named(1, 3), named(2, 4)]).unwrap()), [1; 6]);
}

#[test]
fn distinguishes_mappings_by_build_size_offset_and_deletion() {
    type Change = fn(&mut Mapping);
    let with = |change: Change| {
        let mut profile = process(Some(1), 0x5000);
        change(&mut profile.mappings[0]);
        profile
    };
    let alike: [(Change, Change); 2] = [
        // The same build at another path; a size in bytes.
        (|_| (), |mapping| mapping.file = "/tmp/y".into()),
        (|_| (), |mapping| mapping.end -= 0x123),
    ];
    for (one, other) in alike {
        assert_eq!(values(&merged(vec![with(one), with(other)]).unwrap()), [2, 2, 2]);
    }
    let different: [(Change, Change); 4] = [
        (|_| (), |mapping| mapping.build_id = "cd".into()),
        (|_| (), |mapping| mapping.end += 0x1000),
        (|_| (), |mapping| mapping.file_offset = 0),
        (
            |mapping| mapping.build_id = "".into(),
            |mapping| (mapping.build_id, mapping.is_deleted) = ("".into(), true),
        ),
    ];
    for (one, other) in different {
        assert_eq!(values(&merged(vec![with(one), with(other)]).unwrap()), [1, 2, 2, 1]);
    }
}

#[test]
fn keeps_samples_with_different_labels_apart() {
    let labelled = |text: &str| {
        let mut profile = process(Some(1), 0x5000);
        let label = Label { key: "thread".into(), value: LabelValue::Text(text.into()) };
        profile.label_sets.push(vec![label]);
        profile.samples.labels_mut()[0] = LabelSetId(1);
        profile
    };
    let found = merged(vec![labelled("a"), labelled("b"), labelled("a")]).unwrap();
    assert_eq!((values(&found), found.label_sets.len()), (vec![2, 3, 3, 1], 3));
}

#[test]
fn merges_time_duration_and_comments() {
    let with = |time, duration, comment: &str| {
        let mut profile = process(Some(1), 0x5000);
        (profile.time_nanos, profile.duration_nanos) = (time, duration);
        profile.comments = vec![comment.into()];
        profile
    };
    let found = merged(vec![with(0, 5, "a"), with(9, 6, "b"), with(4, 0, "a")]).unwrap();
    assert_eq!((found.time_nanos, found.duration_nanos), (4, 11));
    assert_eq!(found.comments, ["a".into(), "b".into()]);
    assert_eq!((found.period, found.default_type), (10, 1));
}

/// A profile with one sample of these types.
fn typed(types: &[(&str, &str)], values: &[i64]) -> Profile {
    let types = types.iter().map(|(kind, unit)| ValueType::new(kind, unit)).collect();
    let mut builder = Builder::new(types);
    let id = builder.location(None, 7);
    builder.profile.samples.push(&[id], values, LabelSetId(0));
    builder.finish()
}

fn kinds(types: &[ValueType]) -> Vec<String> {
    types.iter().map(ToString::to_string).collect()
}

#[test]
fn keeps_common_sample_types_in_the_first_order() {
    let mut go = typed(
        &[("alloc", "count"), ("alloc_space", "bytes"), ("inuse", "count"), ("inuse_space", "bytes")],
        &[1, 2, 3, 4],
    );
    go.default_type = 0;
    let other = typed(&[("inuse_space", "bytes"), ("inuse", "count"), ("age", "seconds")], &[40, 30, 9]);
    let found = merged(vec![go.clone(), other.clone()]).unwrap();
    assert_eq!(kinds(&found.sample_types), ["inuse/count", "inuse_space/bytes"]);
    assert_eq!(found.samples.get(0).values, [33, 44]);
    // The default type was removed.
    assert_eq!(found.default_type, 1);
    assert_eq!(kinds(&found.left_out), ["alloc/count", "alloc_space/bytes", "age/seconds"]);
    // A third profile has fewer types; one with all of them removes none.
    let found = merged(vec![go.clone(), other, typed(&[("inuse", "count")], &[300])]).unwrap();
    assert_eq!((kinds(&found.sample_types), values(&found)), (vec!["inuse/count".into()], vec![333]));
    assert_eq!(found.left_out.len(), 4);
    let found = merged(vec![go.clone(), go]).unwrap();
    assert_eq!((found.default_type, found.left_out.len()), (0, 0));
}

#[test]
fn adds_values_in_the_finer_unit() {
    let (millis, nanos) = (typed(&[("cpu", "milliseconds")], &[3]), typed(&[("cpu", "nanoseconds")], &[5]));
    for (one, other) in [(&millis, &nanos), (&nanos, &millis)] {
        let found = merged(vec![one.clone(), other.clone()]).unwrap();
        assert_eq!(
            (kinds(&found.sample_types), values(&found)),
            (vec!["cpu/nanoseconds".into()], vec![3_000_005])
        );
        assert!(!found.is_clamped);
    }
    let most = typed(&[("cpu", "milliseconds")], &[i64::MAX / 1000]);
    for (one, other) in [(&most, &nanos), (&nanos, &most)] {
        assert!(merged(vec![one.clone(), other.clone()]).unwrap().is_clamped);
    }
    // Units that do not convert make another type.
    let error = merged(vec![millis, typed(&[("cpu", "count")], &[1])]).unwrap_err();
    assert!(
        error.to_string().contains("cpu/count, but 0.prof has cpu/milliseconds: none in common"),
        "{error}"
    );
}

#[test]
fn refuses_profiles_without_a_common_type() {
    let error =
        merged(vec![typed(&[("cpu", "ns"), ("x", "count")], &[1, 1]), typed(&[("heap", "bytes")], &[1])])
            .unwrap_err();
    let reason = "1.prof: the sample types are heap/bytes, but 0.prof has cpu/ns, x/count: none in common; ";
    assert!(error.to_string().starts_with(reason), "{error}");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
}

#[test]
fn keeps_the_longest_period_or_none_if_kinds_differ() {
    let with = |kind: &str, unit: &str, period| {
        let mut profile = process(None, 0x5000);
        profile.period_type = Some(ValueType::new(kind, unit));
        profile.period = period;
        profile
    };
    let unknown = || Profile { period: 0, period_type: None, ..process(None, 0x5000) };
    let of = |profiles: Vec<Profile>| {
        let found = merged(profiles).unwrap();
        (found.period, found.period_type.map(|one| one.to_string()))
    };
    let nanos = |period| (period, Some("cpu/nanoseconds".into()));
    assert_eq!(of(vec![process(None, 1), with("cpu", "nanoseconds", 4)]), nanos(10));
    assert_eq!(of(vec![with("cpu", "nanoseconds", 4), process(None, 1)]), nanos(10));
    assert_eq!(of(vec![with("cpu", "milliseconds", 2), process(None, 1)]), nanos(2_000_000));
    assert_eq!(of(vec![process(None, 1), with("cpu", "milliseconds", 2)]), nanos(2_000_000));
    assert_eq!(of(vec![unknown(), process(None, 1), unknown()]), nanos(10));
    let mixed = vec![process(None, 1), with("wall", "nanoseconds", 4), process(None, 1)];
    assert_eq!(of(mixed), (0, None));
}

#[test]
fn returns_a_single_profile_unchanged_and_an_error() {
    assert!(merge([]).unwrap().is_none());
    let one = process(None, 1);
    let text = format!("{one:?}");
    assert_eq!(format!("{:?}", merged(vec![one]).unwrap()), text);
    for place in 0..3 {
        let mut all: Vec<_> = (0..3).map(|_| Ok(("x".into(), process(None, 1)))).collect();
        all[place] = Err(Error::new(ErrorKind::Format, "spoilt"));
        assert_eq!(merge(all).unwrap_err().to_string(), "spoilt");
    }
}

#[test]
fn subtracts_a_base() {
    let mut profile = process(Some(1), 0x5000);
    profile.samples.values_mut().copy_from_slice(&[5, 50, 1, 10, 2, 20]);
    (profile.time_nanos, profile.duration_nanos) = (7, 8);
    let mut base = process(Some(1), 0x9000);
    base.samples.values_mut().copy_from_slice(&[3, 30, 1, 10, 7, 70]);
    (base.time_nanos, base.duration_nanos) = (1, 2);
    let (one, other) = (Path::new("new"), Path::new("old"));
    let found = subtract((one, profile.clone()), (other, base.clone())).unwrap();
    assert_eq!(found.check(), Ok(()));
    assert_eq!(values(&found), [2, -5]);
    assert_eq!((found.time_nanos, found.duration_nanos), (1, 10));
    let heap = typed(&[("heap", "bytes")], &[1]);
    let error = subtract((one, profile), (other, heap)).unwrap_err().to_string();
    assert!(error.starts_with("old: the sample types are heap/bytes, but new has"), "{error}");
}

#[test]
fn comparison_keeps_both_sides() {
    let mut new = process(Some(1), 0x5000);
    new.comments = vec!["command: b".into()];
    let mut old = process(Some(1), 0x5000);
    old.label_sets.push(vec![Label { key: "thread".into(), value: LabelValue::Text("t".into()) }]);
    old.samples.labels_mut()[2] = LabelSetId(1);
    old.comments = vec!["command: a".into(), "# for programs".into()];
    let (one, other) = (Path::new("new"), Path::new("old"));
    let mut found = compare((one, new.clone()), (other, old.clone())).unwrap();
    assert_eq!(found.check(), Ok(()));
    assert_eq!(values(&found), [1, 1, 1, -1, -1, -1]);
    let sides = found.base_sets().unwrap();
    let is_base: Vec<bool> = found.samples.iter().map(|sample| sides[sample.labels.index()]).collect();
    assert_eq!(is_base, [false, false, false, true, true, true]);
    let keys = |place| found.labels(found.samples.get(place).labels).iter().map(|one| one.key.to_string());
    assert_eq!(keys(5).collect::<Vec<_>>(), ["thread", label::BASE]);
    assert_eq!(found.comments, ["command: b", "old: command: a", "# for programs"].map(Arc::from));
    assert_eq!(found.command(), Some("b"));
    // A label filter keeps the base label.
    let filter = LabelFilter { hide: Some(regex::Regex::new(".").unwrap()), ..LabelFilter::default() };
    filter.apply(&mut found);
    assert!(found.base_sets().is_some() && found.label_sets.iter().all(|set| set.len() < 2));
    assert_eq!(new.base_sets(), None);
    assert!(!normalize(&mut new) && !normalize(&mut old));
}

#[test]
fn normalizes_the_newer_side_to_the_total_of_the_base() {
    let of = |counts: [i64; 3]| {
        let mut profile = process(Some(1), 0x5000);
        for (row, count) in profile.samples.values_mut().chunks_exact_mut(2).zip(counts) {
            row.copy_from_slice(&[count, count * 10]);
        }
        profile
    };
    let (one, other) = (Path::new("new"), Path::new("old"));
    let compared = |default_type| {
        let mut found = compare((one, of([1, 1, 1])), (other, of([3, 3, 1]))).unwrap();
        found.default_type = default_type;
        assert!(normalize(&mut found));
        (
            found.samples.iter().map(|sample| sample.values[default_type]).collect::<Vec<_>>(),
            found.count_factor,
        )
    };
    // 7 instead of 3 samples: rounding errors cancel out. Each type has its own total.
    assert_eq!(compared(0), (vec![2, 3, 2, -3, -3, -1], 7.0 / 3.0));
    assert_eq!(compared(1), (vec![23, 24, 23, -30, -30, -10], 7.0 / 3.0));
    let mut empty = compare((one, of([0, 0, 0])), (other, of([3, 3, 1]))).unwrap();
    assert!(!normalize(&mut empty));
}

#[test]
fn marks_sums_and_differences_beyond_64_bits() {
    let of = |value: i64, duration_nanos: i64| {
        let mut profile = process(Some(1), 0x5000);
        profile.samples.values_mut()[0] = value;
        Profile { duration_nanos, ..profile }
    };
    let sum = |one: Profile, other: Profile| merged(vec![one, other]).unwrap();
    let found = sum(of(i64::MAX - 1, 5), of(1, 5));
    assert_eq!((values(&found)[0], found.duration_nanos, found.is_clamped), (i64::MAX, 10, false));
    let found = sum(of(i64::MAX - 1, 5), of(2, 5));
    assert_eq!((values(&found)[0], found.is_clamped), (i64::MAX, true));
    // A profile that was marked when it was read; a duration.
    assert!(sum(of(1, 0), Profile { is_clamped: true, ..of(1, 0) }).is_clamped);
    assert!(sum(Profile { is_clamped: true, ..of(1, 0) }, of(1, 0)).is_clamped);
    assert!(sum(of(1, i64::MAX), of(1, 1)).is_clamped);

    let difference = |one: Profile, other: Profile| {
        let (new, old) = (Path::new("new"), Path::new("old"));
        let found = subtract((new, one), (old, other)).unwrap();
        (values(&found)[0], found.is_clamped)
    };
    assert_eq!(difference(of(-2, 0), of(i64::MAX, 0)), (i64::MIN, true));
    assert_eq!(difference(of(-1, 0), of(i64::MAX, 0)), (i64::MIN, false));
    assert_eq!(difference(of(-1, 1), of(i64::MAX, i64::MAX)), (i64::MIN, true));
    // i64::MIN has no positive counterpart.
    assert_eq!(difference(of(-5, 0), of(i64::MIN, 0)), (i64::MAX - 5, true));
}

#[test]
fn merges_many_similar_profiles_in_little_memory() {
    let mut merger = Merger::new("first".into(), process(Some(1), 0x5000));
    for _ in 1..200 {
        merger.add(&process(Some(1), 0x5000)).unwrap();
        assert!(merger.builder.profile.samples.len() <= 9);
    }
    assert_eq!(values(&merger.finish()), [200; 3]);
}
