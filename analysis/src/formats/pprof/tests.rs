//! Profiles made field by field, with unusual IDs and strings, and invalid ones.

use super::{may_be_profile, read, wire::Fields, write_unpacked};
use crate::profile::{
    Builder, Function, Known, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId, Profile,
    ValueType,
};

fn message(numbers: &[(u32, u64)]) -> Fields {
    let mut fields = Fields::default();
    for &(field, value) in numbers {
        fields.number(field, value);
    }
    fields
}

/// A profile with the sample type `x` in `y`, and other parts.
fn profile(parts: &[(u32, &[u8])]) -> Vec<u8> {
    let mut fields = Fields::default();
    fields.bytes(1, &message(&[(1, 1), (2, 2)]).bytes);
    for (field, bytes) in parts {
        fields.bytes(*field, bytes);
    }
    for text in ["", "x", "y", "main", "/bin/x (deleted)"] {
        fields.bytes(6, text.as_bytes());
    }
    fields.bytes
}

fn reason(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

/// A profile that uses each field of the model.
fn full() -> Profile {
    let mut builder = Builder::new(Profile::cpu_types());
    let profile = &mut builder.profile;
    profile.default_type = 0;
    profile.period_type = Some(ValueType::new("cpu", "nanoseconds"));
    profile.period = 10_000_000;
    profile.time_nanos = 1_700_000_000_000_000_000;
    profile.duration_nanos = -1;
    profile.comments = vec!["one".into(), "two".into()];
    profile.drop_frames = "malloc".into();
    profile.keep_frames = "main".into();
    profile.doc_url = "https://example.org/".into();
    let has = Known { functions: true, files: true, lines: false, inlines: true };
    let mapping = builder.mapping(Mapping {
        start: 0x40_0000,
        end: u64::MAX,
        file_offset: 0x1000,
        file: "/bin/a program".into(),
        build_id: "0123abcd".into(),
        is_deleted: true,
        is_moved: false,
        process: None,
        has,
    });
    let name = builder.string("main");
    let function = |start_line| Function {
        name: name.clone(),
        system_name: "_main".into(),
        file: "main.c".into(),
        start_line,
    };
    let (inner, outer) = (builder.function(function(3)), builder.function(function(9)));
    let named = builder.location(Some(mapping), 0x40_1234);
    let other = builder.location(None, u64::MAX);
    let lines =
        vec![Line { function: inner, line: 4, column: 7 }, Line { function: outer, line: 10, column: 0 }];
    builder.profile.locations[named.index()].lines = lines;
    builder.profile.locations[named.index()].is_folded = true;
    let thread = Label { key: "thread".into(), value: LabelValue::Text("worker".into()) };
    let bytes = Label { key: "size".into(), value: LabelValue::Number(-5, "bytes".into()) };
    let labels = builder.label_set(&[thread, bytes]);
    builder.profile.samples.push(&[named, other, named], &[1, i64::MIN], labels);
    builder.profile.samples.push(&[], &[0, 0], crate::profile::LabelSetId(0));
    builder.finish()
}

#[test]
fn returns_the_whole_model_as_written() {
    let profile = full();
    let mut bytes = Vec::new();
    write_unpacked(&profile, &mut bytes).unwrap();
    assert!(may_be_profile(&bytes));
    let found = read(&bytes).unwrap();
    assert_eq!(found.check(), Ok(()));
    assert_eq!(format!("{found:#?}"), format!("{profile:#?}"));
}

#[test]
fn accepts_ids_in_any_order() {
    let location = |id, function| {
        let mut location = message(&[(1, id), (2, 70), (3, 0x500 + id)]);
        location.bytes(4, &message(&[(1, function), (2, 8)]).bytes);
        location.bytes
    };
    let mut sample = message(&[(1, 9)]);
    sample.number(1, 1 << 60);
    sample.packed(1, [9].into_iter(), &mut Fields::default());
    sample.packed(2, [6].into_iter(), &mut Fields::default());
    // References precede their targets.
    let bytes = profile(&[
        (2, &sample.bytes),
        (4, &location(1 << 60, 5)),
        (4, &location(9, 6)),
        (5, &message(&[(1, 6), (2, 3)]).bytes),
        (3, &message(&[(1, 70), (2, 0x400), (3, 0x600), (5, 4)]).bytes),
    ]);
    let profile = read(&bytes).unwrap();
    let chain: Vec<u32> = profile.samples.get(0).chain.iter().map(|id| id.0).collect();
    assert_eq!((chain, profile.samples.get(0).values), (vec![1, 0, 1], &[6][..]));
    let [first, second] = &profile.locations[..] else { panic!("two locations") };
    assert_eq!((first.mapping, second.mapping), (Some(MappingId(0)), Some(MappingId(0))));
    // Function 5 does not exist: the line is dropped.
    assert!(first.lines.is_empty());
    assert_eq!((&*profile.function(second.lines[0].function).name, second.lines[0].line), ("main", 8));
    assert_eq!((profile.mappings[0].file.to_str(), profile.mappings[0].is_deleted), (Some("/bin/x"), true));
}

#[test]
fn accepts_unpacked_values_and_zeros() {
    let bytes = profile(&[(2, &[0x10, 0]), (2, &[0x12, 1, 0]), (2, &[0x10, 7])]);
    let profile = read(&bytes).unwrap();
    assert_eq!(profile.samples.iter().map(|sample| sample.values[0]).collect::<Vec<_>>(), [0, 0, 7]);
}

#[test]
fn reads_the_default_sample_type() {
    let mut fields = Fields::default();
    for kind in [1, 2, 3] {
        fields.bytes(1, &message(&[(1, kind)]).bytes);
    }
    for text in ["", "a", "b", "c"] {
        fields.bytes(6, text.as_bytes());
    }
    assert_eq!(read(&fields.bytes).unwrap().default_type, 2);
    fields.number(14, 2);
    assert_eq!(read(&fields.bytes).unwrap().default_type, 1);
}

#[test]
fn skips_unknown_fields() {
    let mut bytes = profile(&[(99, b"?"), (2, &[0x10, 7, 0x7a, 1, 0])]);
    bytes.extend([0xa1, 6, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(read(&bytes).unwrap().total(0), 7);
}

#[test]
fn reports_invalid_references_and_counts() {
    let number = |numbers: &[(u32, u64)]| message(numbers).bytes;
    type Parts<'a> = &'a [(u32, &'a [u8])];
    let cases: [(Parts<'_>, &str); 10] = [
        (&[(2, &number(&[(1, 3), (2, 1)]))], "a sample refers to location 3, which does not exist"),
        (&[(2, &[])], "a sample has 0 values, but the profile has 1 sample types"),
        (&[(2, &[0x12, 2, 1, 1])], "a sample has 2 values"),
        (&[(4, &number(&[(3, 5)]))], "a location has the id 0"),
        (&[(5, &number(&[(1, 5)])), (5, &number(&[(1, 5)]))], "two functions have the id 5"),
        (&[(3, &number(&[(1, 1)])), (3, &number(&[(1, 1)]))], "two mappings have the id 1"),
        (&[(5, &number(&[(1, 1), (2, 5)]))], "string 5 is used, but there are 5"),
        (&[(1, &number(&[(1, u64::MAX)]))], "string 18446744073709551615 is used"),
        (&[(4, &[0x08])], "a field extends beyond the end of its message"),
        (&[(4, &[0x22, 3])], "a field extends beyond the end of its message"),
    ];
    for (parts, expected) in cases {
        let reason = reason(&profile(parts));
        assert!(reason.contains(expected), "{reason} for {parts:x?}");
    }
    assert!(reason(&[0x10, 1]).starts_with("at offset 0: a field of the profile has the wrong type"));
    assert!(reason(&[0x32, 0]).starts_with("the profile has no sample types"));
    assert!(reason(&[0x0a, 0, 0x32, 1, b'x']).starts_with("the first string of the profile is not empty"));
    let offset = "at offset 8: a sample has 0 values";
    assert!(reason(&profile(&[(2, &[])])).starts_with(offset), "{}", reason(&profile(&[(2, &[])])));
}

#[test]
fn truncated_profile_is_an_error_or_shorter() {
    let mut bytes = Vec::new();
    write_unpacked(&full(), &mut bytes).unwrap();
    let mut errors = 0;
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Ok(profile) => assert_eq!(profile.check(), Ok(())),
            Err(_) => errors += 1,
        }
    }
    // The strings are at the end: all but the last few are used.
    assert!(errors > bytes.len() - 30, "{errors} of {}", bytes.len());
}

#[test]
fn accepts_a_profile_that_begins_with_the_time() {
    let mut bytes = message(&[(9, 1_700_000_000_000_000_000), (10, 7)]).bytes;
    assert!(!may_be_profile(&bytes), "there is more to a profile");
    bytes.extend(profile(&[]));
    assert!(may_be_profile(&bytes));
    assert_eq!(read(&bytes).unwrap().duration_nanos, 7);
}

#[test]
fn refuses_other_bytes() {
    for bytes in [
        &b""[..],
        b"\x7fELF",
        b"hello",
        b"#!/bin/sh\n",
        b"\0\0\0\0",
        b"PERFILE2",
        b"HTTP/1.1 404 Not Found\r\n",
        b"{\"a\":1}",
        b"\n",
        b"\n\x03abc",
    ] {
        assert!(!may_be_profile(bytes), "{bytes:?}");
    }
}

#[test]
fn keeps_repeated_locations_of_a_stack() {
    let mut builder = Builder::new(vec![ValueType::new("x", "y")]);
    builder.profile.locations = vec![Location::default(); 300];
    let chain: Vec<LocationId> = (0..300).chain([299, 0]).map(LocationId).collect();
    builder.profile.samples.push(&chain, &[1], crate::profile::LabelSetId(0));
    let mut bytes = Vec::new();
    write_unpacked(&builder.finish(), &mut bytes).unwrap();
    assert_eq!(read(&bytes).unwrap().samples.get(0).chain, chain);
}

#[test]
fn skips_empty_labels_and_comments() {
    let empty: Vec<u8> = [0x1a, 0x00].repeat(100);
    let sample = [message(&[(2, 5)]).bytes, empty].concat();
    let read = read(&[profile(&[(2, &sample), (13, &[0; 50])])].concat()).unwrap();
    assert_eq!((read.label_sets.len(), read.comments.len(), read.total(0)), (1, 0, 5));
}

#[test]
fn refuses_too_many_types_or_values() {
    let types: Vec<(u32, &[u8])> = vec![(1, b""); 300];
    assert!(reason(&profile(&types)).starts_with("the profile has 301 sample types, more than 256"));
    let values = [&[0x12, 0x7f][..], &[1; 0x7f]].concat();
    assert!(reason(&profile(&[(2, &values)])).contains("a sample has 127 values"));
}
