//! Several profiles as one: of different sample types or rates, or in one file.

use sigprof_analysis::{
    formats::{cpu_profile, pprof, read, read_file},
    profile::{Builder, LabelSetId, Profile, ValueType},
};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.pb.gz"))
}

/// Returns standard output and standard error of a command that succeeds.
fn output(arguments: &[&str], files: &[&Path]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sigprof")).args(arguments).args(files).output().unwrap();
    let [out, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    assert!(output.status.success(), "{arguments:?} {files:?}: {errors}");
    (out, errors)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn protobuf(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    pprof::write_unpacked(profile, &mut bytes).unwrap();
    bytes
}

fn as_cpu_profile(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    cpu_profile::write(profile, &mut bytes).unwrap();
    bytes
}

/// Reorders the fields of a protobuf message: first those for which `is_first` is true.
fn reordered(bytes: &[u8], is_first: impl Fn(u8) -> bool) -> Vec<u8> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    let varint = |bytes: &[u8]| {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let value =
            bytes[..length].iter().rev().fold(0_usize, |value, byte| value << 7 | usize::from(byte & 0x7f));
        (value, length)
    };
    while let [tag, after @ ..] = rest {
        let (value, mut length) = varint(after);
        if tag & 7 == 2 {
            length += value;
        }
        let field = &rest[..1 + length];
        if is_first(tag >> 3) {
            first.extend(field)
        } else {
            last.extend(field)
        }
        rest = &rest[1 + length..];
    }
    [first, last].concat()
}

#[test]
fn concatenated_profiles_are_read_as_several() {
    let directory = tempfile::tempdir().unwrap();
    let [recursion, containers, labels] = ["recursion", "containers", "labels"].map(data);
    let profiles = [&recursion, &containers, &labels].map(|path| read_file(path).unwrap());
    let packed = [&recursion, &containers, &labels].map(|path| fs::read(path).unwrap());
    let plain = profiles.each_ref().map(protobuf);
    // The order of Go's runtime: the time first, the strings last.
    let of_go =
        plain.each_ref().map(|bytes| reordered(&reordered(bytes, |field| field == 9), |field| field != 6));
    let strings_first = plain.each_ref().map(|bytes| reordered(bytes, |field| field == 6));
    assert!(
        of_go
            .iter()
            .chain(&strings_first)
            .zip(plain.iter().cycle())
            .all(|(one, other)| one.len() == other.len())
    );
    let (expected, _) = output(&["traces"], &[&recursion, &containers, &labels]);
    let path = directory.path().join("all");
    let again = |bytes: Vec<u8>| {
        fs::write(&path, bytes).unwrap();
        output(&["traces"], &[&path])
    };
    for bytes in
        [packed.concat(), plain.concat(), gzip(&plain.concat()), of_go.concat(), strings_first.concat()]
    {
        assert_eq!(again(bytes), (expected.clone(), String::new()));
    }
    // One profile in each order.
    let bytes = [&of_go[0][..], &plain[1], &of_go[2]].concat();
    assert_eq!(again(bytes), (expected.clone(), String::new()));
    // The order of a profile's fields does not start another profile.
    for bytes in [&of_go[0], &strings_first[0], &plain[0]] {
        assert_eq!(again(bytes.clone()), output(&["traces"], &[&recursion]));
    }

    let (one, other) = (as_cpu_profile(&profiles[0]), as_cpu_profile(&profiles[1]));
    let paths = [directory.path().join("one"), directory.path().join("other")];
    fs::write(&paths[0], &one).unwrap();
    fs::write(&paths[1], &other).unwrap();
    let (expected, _) = output(&["raw"], &[&paths[0], &paths[1]]);
    for bytes in [[&one[..], &other].concat(), [gzip(&one), gzip(&other)].concat()] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(output(&["raw"], &[&path]).0, expected);
    }
}

#[test]
fn reports_the_offset_of_an_error_in_a_later_profile() {
    let profile = read_file(&data("recursion")).unwrap();
    let plain = protobuf(&profile);
    let bytes = [&plain[..], &plain[..plain.len() - 1]].concat();
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains("at offset "), "{error}");
    // A profile with other sample types.
    let heap = protobuf(&with_types(&[("heap", "bytes")]));
    let error = read(&[&plain[..], &heap].concat()).unwrap_err().to_string();
    let expected = format!(
        "at offset {}: the sample types are heap/bytes, but the first profile of the file has samples/count, ",
        plain.len()
    );
    assert!(error.starts_with(&expected), "{error}");
}

fn with_types(types: &[(&str, &str)]) -> Profile {
    let mut builder = Builder::new(types.iter().map(|(kind, unit)| ValueType::new(kind, unit)).collect());
    let id = builder.location(None, 7);
    builder.profile.samples.push(&[id], &vec![3; types.len()], LabelSetId(0));
    builder.finish()
}

#[test]
fn merges_different_profiles_on_common_sample_types_with_a_message() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, types: &[(&str, &str)]| {
        let path = directory.path().join(name);
        fs::write(&path, protobuf(&with_types(types))).unwrap();
        path
    };
    let go = file(
        "go",
        &[
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ],
    );
    let cpp = file("cpp", &[("inuse_objects", "count"), ("inuse_space", "bytes")]);
    let line = "sigprof: not all profiles have the sample types alloc_objects, alloc_space; \
                the report is of inuse_objects, inuse_space\n";
    for option in ["-inuse_objects", "--sample-type=inuse_objects"] {
        let (report, errors) = output(&["top", option], &[&go, &cpp]);
        assert!(report.contains("Type: inuse_objects") && report.contains("of 6 total"), "{report}");
        assert!(errors.contains(line), "{errors}");
    }
    let base = format!("--base={}", cpp.display());
    let (report, errors) = output(&["top", &base], &[&go]);
    assert!(report.contains("of 0 total") && errors.contains(line), "{report}{errors}");
    assert!(!output(&["top"], &[&go, &go]).1.contains("sample types"));
}

#[test]
fn two_rates_in_one_cpu_profile_have_a_common_period() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, period: i64, count: i64| {
        let mut builder = Builder::new(Profile::cpu_types());
        builder.profile.period_type = Some(ValueType::new("cpu", "nanoseconds"));
        builder.profile.period = period;
        let id = builder.location(None, 0x1000);
        builder.profile.samples.push(&[id], &[count, count * period], LabelSetId(0));
        let id = builder.location(None, 0x2000 + period as u64);
        builder.profile.samples.push(&[id], &[count, count * period], LabelSetId(0));
        let path = directory.path().join(name);
        fs::write(&path, protobuf(&builder.finish())).unwrap();
        path
    };
    let (slow, fast, odd) = (file("slow", 10_000_000, 3), file("fast", 4_000_000, 2), file("odd", 1_500, 1));
    let path = directory.path().join("merged.prof");
    let to = ["convert", "--to=cpuprofile", "-o", path.to_str().unwrap()];
    output(&to, &[&slow, &fast]);
    let found = read_file(&path).unwrap();
    // 38, 30 and 8 ms are multiples of 2 ms.
    assert_eq!((found.period, found.total(0), found.total(1)), (2_000_000, 38, 76_000_000));
    output(&to, &[&slow, &slow]);
    assert_eq!(read_file(&path).unwrap().period, 10_000_000);
    let failed = Command::new(env!("CARGO_BIN_EXE_sigprof")).args(to).args([&slow, &odd]).output().unwrap();
    let error = String::from_utf8(failed.stderr).unwrap();
    assert!(!failed.status.success(), "{error}");
    assert!(error.contains("the times are multiples of 1500 nanoseconds, not of 1 microsecond; "), "{error}");
}
