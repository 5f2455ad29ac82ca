//! All values of `top`, `tree` and `traces` equal those of `go tool pprof` 1.19 for the same file
//! and options. Needs Debian's golang-go.
//!
//! The profiles in `data/` are of C, C++, Rust, python3 and Go, and one is by the crate pprof;
//! `data/make.sh` makes them.

mod pictures;

use sigprof_analysis::{
    formats,
    profile::{Label, LabelSetId, LabelValue, Mapping},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

const PROFILES: [&str; 6] = ["recursion", "containers", "inlining", "python", "labels", "pprof-rs"];

/// Returns the path of a profile in the directory; absolute paths stay.
fn data(profile: &str) -> PathBuf {
    if profile.starts_with('/') {
        return profile.into();
    }
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{profile}.pb.gz"))
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns pprof's output. Without its driver `go`, which takes longer than pprof itself.
fn pprof(report: &str, options: &[&str], profile: &str) -> String {
    static PPROF: OnceLock<PathBuf> = OnceLock::new();
    let pprof = PPROF.get_or_init(|| {
        let found = Command::new("go").args(["tool", "-n", "pprof"]).output();
        let found = found.unwrap_or_else(|error| panic!("go: {error}; install Debian's golang-go"));
        PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
    });
    // The profiles have names; pprof must not look up others on this machine.
    let all = ["-symbolize=none", "-nodecount=0", "-nodefraction=0", "-edgefraction=0", "-unit=ns"];
    output(Command::new(pprof).arg(report).args(all).args(options).arg(data(profile)))
}

fn sigprof(report: &str, options: &[&str], profile: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
    command.arg(report).args(options);
    if !["traces", "list", "peek"].contains(&report) {
        command.arg("--nodefraction=0");
        if !options.iter().any(|option| option.starts_with("--nodecount")) {
            command.arg("--nodecount=0");
        }
    }
    if ["tree", "callgraph"].contains(&report) {
        command.arg("--edgefraction=0");
    }
    if !options
        .iter()
        .any(|option| option.starts_with("--unit") || option.starts_with("--sample-type=samples"))
    {
        command.arg("--unit=ns");
    }
    output(command.arg(data(profile)))
}

/// Returns a table's rows: name without its inline mark, flat and cumulative value.
fn rows(table: &str) -> Vec<(String, i64, i64)> {
    let number = |text: &str| text.trim_end_matches(char::is_alphabetic).parse::<i64>().ok();
    let parse = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [flat, share, _, cum, other_share, name @ ..] = &columns[..] else { return None };
        if !share.ends_with('%') || !other_share.ends_with('%') {
            return None;
        }
        let name = name.join(" ");
        let name = name.trim_end_matches(" (inline)").trim_end_matches(" (partial-inline)");
        Some((name.to_owned(), number(flat)?, number(cum)?))
    };
    let mut rows: Vec<_> = table.lines().filter_map(parse).collect();
    rows.sort();
    rows
}

/// Returns the line with the shown share, without units (pprof adds them to counts) and signs.
fn total(table: &str) -> String {
    let line = table.lines().find(|line| line.starts_with("Showing nodes accounting for "));
    line.unwrap_or_else(|| panic!("no total in:\n{table}")).replace("ns", "").replace(", -", ", ")
}

/// The same option for pprof and for sigprof.
type Same = (&'static [&'static str], &'static [&'static str]);

/// Runs the cases in as many threads as there are processors.
fn each<Case: Sync>(cases: &[Case], check: impl Fn(&Case) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    check(case);
                }
            });
        }
    });
}

fn cases<'a>(profiles: &[&'a str], options: &'a [Same]) -> Vec<(&'a str, &'a Same)> {
    options.iter().flat_map(|same| profiles.iter().map(move |&profile| (profile, same))).collect()
}

fn expect_same_rows(profile: &str, &(theirs, ours): &Same) {
    expect_same_rows_with(profile, theirs, ours);
}

fn expect_same_rows_with(profile: &str, theirs: &[&str], ours: &[&str]) {
    let (theirs_text, ours_text) = (pprof("-top", theirs, profile), sigprof("top", ours, profile));
    let (theirs_rows, ours_rows) = (rows(&theirs_text), rows(&ours_text));
    assert_eq!(ours_rows, theirs_rows, "{profile} {ours:?}\n{theirs_text}\n{ours_text}");
    assert_eq!(total(&ours_text), total(&theirs_text), "{profile} {ours:?}");
    // The whole profile, unless a filter leaves nothing.
    assert!(!theirs_rows.is_empty() || theirs_text.contains("Active filters"), "{theirs_text}");
}

#[test]
fn functions_lines_and_addresses_have_the_values_of_pprof() {
    let options: [Same; 7] = [
        (&[], &[]),
        (&["-cum"], &["--cum"]),
        (&["-noinlines"], &["--no-inlines"]),
        (&["-lines"], &["--granularity=lines"]),
        (&["-filefunctions"], &["--granularity=filefunctions"]),
        (&["-addresses", "-noinlines"], &["--granularity=addresses", "--no-inlines"]),
        (&["-sample_index=samples", "-addresses"], &["--sample-type=samples", "--granularity=addresses"]),
    ];
    each(&cases(&PROFILES, &options), |(profile, same)| expect_same_rows(profile, same));
}

#[test]
fn filters_keep_the_same_samples_as_pprof() {
    let everywhere: [Same; 3] = [
        (&["-focus=^[l-s]", "-ignore=(?i)SORT|leaf"], &["--focus=^[l-s]", "--ignore=(?i)SORT|leaf"]),
        (&["-hide=main|libc", "-lines"], &["--hide=main|libc", "--granularity=lines"]),
        (&["-show=^[a-m]|operator", "-show_from=main"], &["--show=^[a-m]|operator", "--show-from=main"]),
    ];
    each(&cases(&PROFILES, &everywhere), |(profile, same)| expect_same_rows(profile, same));
    let recursion: [Same; 5] = [
        // A file, and an object.
        (&["-focus=recursion\\.c$"], &["--focus=recursion\\.c$"]),
        (&["-ignore=/libc"], &["--ignore=/libc"]),
        (&["-focus=odd", "-relative_percentages"], &["--focus=odd", "--relative"]),
        (&["-prune_from=^recurse$"], &["--prune-from=^recurse$"]),
        (&["-show_from=even"], &["--show-from=even"]),
    ];
    each(&cases(&["recursion"], &recursion), |(profile, same)| expect_same_rows(profile, same));
    let labels: [Same; 6] = [
        (&["-tagfocus=kind=odd"], &["--tagfocus=kind=odd"]),
        (&["-tagfocus=worker:[02],even"], &["--tagfocus=worker:[02],even"]),
        (&["-tagignore=odd"], &["--tagignore=odd"]),
        (&["-tagroot=kind,worker"], &["--tagroot=kind,worker"]),
        (&["-tagleaf=kind,worker"], &["--tagleaf=kind,worker"]),
        (&["-hide=^runtime"], &["--hide=^runtime"]),
    ];
    each(&cases(&["labels"], &labels), |(profile, same)| expect_same_rows(profile, same));
}

/// Writes a later profile of the same program: other weights, rate and start time.
fn later(profile: &str, path: &Path) {
    let mut profile = formats::read_file(&data(profile)).unwrap();
    let nanos = 4_000_000;
    for (place, values) in profile.samples.values_mut().chunks_exact_mut(2).enumerate() {
        // Some vanish, some stay. No function keeps its sum: pprof would show none of its calls.
        match place % 4 {
            0 => values.fill(0),
            1 => values[0] = values[1] / nanos,
            _ => {
                values.copy_from_slice(&[1 + place as i64 * 37 % 101, (1 + place as i64 * 37 % 101) * nanos])
            }
        }
    }
    profile.period = nanos;
    profile.time_nanos += 60_000_000_000;
    profile.duration_nanos = 700_000_000;
    formats::pprof::write(&profile, File::create(path).unwrap()).unwrap();
}

/// Returns the line with the duration, and the samples' sum as a share of it.
fn duration(report: &str) -> &str {
    report
        .lines()
        .find(|line| line.starts_with("Duration: "))
        .unwrap_or_else(|| panic!("no duration in\n{report}"))
}

/// Returns each function's difference and its share, in these columns of the first five. pprof
/// leaves out functions without a difference, and signs of shares.
fn differences(report: &str, [value, share]: [usize; 2]) -> BTreeMap<String, (i64, String)> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let name = columns.get(5..)?.join(" ");
        let name = name.trim_end_matches(" (inline)").trim_end_matches(" (partial-inline)");
        let value = columns[value].trim_end_matches(char::is_alphabetic).parse().ok()?;
        let share = unsigned(columns[share].strip_suffix('%')?);
        (value != 0).then(|| (name.to_owned(), (value, share.to_owned())))
    };
    report.lines().skip_while(|line| !line.contains("Showing nodes")).skip(1).filter_map(row).collect()
}

#[test]
fn profiles_of_two_rates_are_added_and_subtracted_as_in_pprof() {
    let directory = tempfile::tempdir().unwrap();
    each(&PROFILES, |&profile| {
        let path = directory.path().join(profile);
        later(profile, &path);
        let path = path.to_str().unwrap();
        let base = format!("-base={path}");
        let our_base = format!("--base={path}");
        for (theirs, ours) in [
            (&[path][..], &[path][..]),
            (&[&base], &[&our_base]),
            (&[&base, "-cum", "-lines"], &[&our_base, "--cum", "--granularity=lines"]),
            (&[&base, "-focus=^[l-s]"], &[&our_base, "--focus=^[l-s]"]),
            (&[&base, "-sample_index=samples"], &[&our_base, "--sample-type=samples"]),
        ] {
            expect_same_rows_with(profile, theirs, ours);
        }
        for (theirs, ours) in [
            (&[][..], &[][..]),
            (&["-cum"], &["--cum"]),
            (&["-sample_index=samples"], &["--sample-type=samples"]),
        ] {
            let (diff_base, our_base) = (format!("-diff_base={path}"), format!("--diff-base={path}"));
            let theirs_text = pprof("-top", &[&[diff_base.as_str()], theirs].concat(), profile);
            let ours_text = sigprof("top", &[&[our_base.as_str()], ours].concat(), profile);
            let columns = if ours == ["--cum"] { [3, 4] } else { [0, 1] };
            let differences = differences(&ours_text, [2, 4]);
            assert_eq!(
                differences,
                self::differences(&theirs_text, columns),
                "{profile} {ours:?}\n{theirs_text}\n{ours_text}"
            );
            assert!(differences.len() > 1, "{ours_text}");
            assert_eq!(total(&ours_text), total(&theirs_text), "{profile} {ours:?}");
        }
        for (theirs, ours) in [(path, path), (&base, &our_base)] {
            let (theirs, ours) = (pprof("-top", &[theirs], profile), sigprof("top", &[ours], profile));
            assert_eq!(duration(&ours), duration(&theirs), "{profile}");
        }
        // Without calls of difference 0: among equals, pprof selects other ones.
        let without_zeros = |tree: String| {
            let is_zero =
                |line: &String| line.starts_with("callee of 0 ") || line.starts_with("caller of 0 ");
            let block =
                |block: Vec<String>| block.into_iter().filter(|line| !is_zero(line)).collect::<Vec<_>>();
            blocks(&tree).into_iter().map(block).collect::<BTreeSet<_>>()
        };
        let theirs = without_zeros(pprof("-tree", &[&base], profile));
        let ours = without_zeros(sigprof("tree", &[&our_base], profile));
        assert!(theirs == ours, "{profile}: {:#?}", theirs.symmetric_difference(&ours).collect::<Vec<_>>());
    });
}

/// Label numbers with and without a unit, as in Go's heap profiles.
#[test]
fn filters_by_label_numbers_match_pprof() {
    let directory = tempfile::tempdir().unwrap();
    let mut profile = formats::read_file(&data("recursion")).unwrap();
    let numbers = [
        ("bytes", 512, ""),
        ("bytes", 2048, ""),
        ("size", 4096, "bytes"),
        ("length", 3, "kilobytes"),
        ("round", 7, ""),
    ];
    for (key, value, unit) in numbers {
        let value = LabelValue::Number(value, unit.into());
        profile.label_sets.push(vec![Label { key: key.into(), value }]);
    }
    let sets = profile.label_sets.len() as u32;
    for (place, labels) in (0..).zip(profile.samples.labels_mut()) {
        *labels = LabelSetId(place % sets);
    }
    let path = directory.path().join("numbers.pb.gz");
    formats::pprof::write(&profile, File::create(&path).unwrap()).unwrap();
    let path = path.to_str().unwrap();
    for wanted in [
        "bytes=1kb:",
        "bytes=:1kb",
        "bytes=512",
        "bytes=512b",
        "bytes=1kb:4kb",
        "size=4kb:",
        "size=:3kb",
        "length=3072b",
        "round=7",
        "round=8",
        "1kb:3kb",
        "7",
    ] {
        let (theirs, ours) = (format!("-tagfocus={wanted}"), format!("--tagfocus={wanted}"));
        expect_same_rows_with(path, &[&theirs], &[&ours]);
        let (theirs, ours) = (format!("-tagignore={wanted}"), format!("--tagignore={wanted}"));
        expect_same_rows_with(path, &[&theirs], &[&ours]);
    }
}

/// pprof 1.19 shows a file once for each object and each first line of a function in it; sigprof
/// shows it once. Flat values add up; cumulative ones are compared if pprof has one row.
#[test]
fn files_have_the_sums_of_pprofs_rows() {
    each(&PROFILES, |profile| {
        let mut theirs: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
        for (name, flat, cum) in rows(&pprof("-top", &["-files"], profile)) {
            theirs.entry(name).or_default().push((flat, cum));
        }
        let ours = rows(&sigprof("top", &["--granularity=files"], profile));
        // Objects without names have their own rows, and two may have names with the same end.
        let ours: Vec<_> = ours.into_iter().filter(|(name, ..)| !name.starts_with('[')).collect();
        let names: BTreeSet<&String> = theirs.keys().filter(|name| !name.starts_with('[')).collect();
        assert_eq!(ours.iter().map(|(name, ..)| name).collect::<BTreeSet<_>>(), names, "{profile}");
        for (name, flat, cum) in ours {
            let rows = &theirs[&name];
            assert_eq!(flat, rows.iter().map(|row| row.0).sum::<i64>(), "{profile} {name}");
            if let [(_, theirs)] = rows[..] {
                assert_eq!(cum, theirs, "{profile} {name}");
            }
            assert!(cum >= rows.iter().map(|row| row.1).max().unwrap_or(0), "{profile} {name}");
        }
    });
}

/// The profile names frames to drop, such as the profiler's in gperftools' profiles.
#[test]
fn drops_the_same_frames_as_pprof() {
    let directory = tempfile::tempdir().unwrap();
    for (drop, keep) in
        [("leaf|odd", ""), ("recurse", ""), (".*", "leaf"), ("[a-z]+", "recurse|main"), ("no.*", "")]
    {
        let mut profile = formats::read_file(&data("recursion")).unwrap();
        (profile.drop_frames, profile.keep_frames) = (drop.into(), keep.into());
        let path = directory.path().join("drops.pb.gz");
        formats::pprof::write(&profile, File::create(&path).unwrap()).unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(rows(&sigprof("top", &[], path)), rows(&pprof("-top", &[], path)), "{drop} {keep}");
    }
}

/// With -show, pprof 1.19 hides frames without names even if the object matches; sigprof does not.
#[test]
fn show_matches_objects_of_frames_without_names() {
    let mut profile = formats::read_file(&data("python")).unwrap();
    let is_json = |mapping: &Mapping| mapping.file.to_string_lossy().contains("_json");
    let json = profile.mappings.iter().position(is_json).expect("the program has used _json");
    for location in &mut profile.locations {
        if location.mapping.is_some_and(|mapping| mapping.index() == json) {
            location.lines.clear();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nameless.pb.gz");
    formats::pprof::write(&profile, File::create(&path).unwrap()).unwrap();
    let path = path.to_str().unwrap();

    assert_eq!(rows(&pprof("-top", &["-show=_json"], path)), []);
    let focused = rows(&pprof("-top", &["-focus=_json"], path));
    let (_, _, theirs) =
        focused.iter().find(|(name, ..)| name.starts_with("[_json")).expect("a row for the object");
    let ours = rows(&sigprof("top", &["--show=_json"], path));
    let [(name, flat, cum)] = &ours[..] else { panic!("{ours:?}") };
    assert!(name.starts_with("[_json"), "{name}");
    assert_eq!((flat, cum), (theirs, theirs));
}

/// Returns a share without a sign, as pprof writes it even in a difference.
fn unsigned(share: &str) -> &str {
    share.trim_start_matches('-')
}

/// Returns a tree's blocks, each sorted: among equal values the order differs. Running sums are
/// left out, because the order of equal blocks differs, too.
fn blocks(tree: &str) -> BTreeSet<Vec<String>> {
    let blocks = tree.split("----------------------------------------------------------+-------------\n");
    let block = |block: &str| {
        let mut lines: Vec<String> = Vec::new();
        let mut is_below = "callee of";
        for line in block.lines().rev() {
            let (values, name) = line.split_once('|')?;
            let values: Vec<&str> = values.split_whitespace().collect();
            lines.push(match &values[..] {
                [flat, share, _, cum, cum_share] => {
                    is_below = "caller of";
                    format!("{flat} {} {cum} {} {}", unsigned(share), unsigned(cum_share), name.trim())
                }
                // The inline mark of an edge is compared, too.
                [value, share] => format!("{is_below} {value} {} {}", unsigned(share), name.trim()),
                _ => return None,
            });
        }
        lines.sort();
        Some(lines)
    };
    // The heading is not a block.
    blocks.filter_map(|text| block(text).filter(|lines| !lines.is_empty())).collect()
}

#[test]
fn callers_and_callees_match_pprof() {
    let options: [Same; 2] =
        [(&[], &[]), (&["-lines", "-hide=sort"], &["--granularity=lines", "--hide=sort"])];
    each(&cases(&PROFILES, &options), |(profile, (theirs, ours))| {
        let (theirs, ours) =
            (blocks(&pprof("-tree", theirs, profile)), blocks(&sigprof("tree", ours, profile)));
        assert!(theirs.len() > 4, "{theirs:?}");
        let (missing, extra) = (theirs.difference(&ours), ours.difference(&theirs));
        let (missing, extra): (Vec<_>, Vec<_>) = (missing.collect(), extra.collect());
        assert!(
            missing.is_empty() && extra.is_empty(),
            "{profile}: pprof alone {missing:#?}, we alone {extra:#?}"
        );
    });
}

#[test]
fn traces_match_pprof() {
    let options: [Same; 2] =
        [(&[], &[]), (&["-lines", "-focus=sort|leaf"], &["--granularity=lines", "--focus=sort|leaf"])];
    each(&cases(&PROFILES, &options), |(profile, (theirs, ours))| {
        let body = |text: String| {
            let begin = text.find("-----------+").unwrap_or_else(|| panic!("no trace in\n{text}"));
            text[begin..].to_owned()
        };
        let theirs = body(pprof("-traces", theirs, profile));
        assert_eq!(body(sigprof("traces", ours, profile)), theirs, "{profile} {ours:?}");
    });
}
