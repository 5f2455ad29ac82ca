use super::{
    check::{CheckedFiles, Finding, check_files},
    made::{Made, Oddity, made},
    read::{DatabaseFiles, read_files},
    *,
};
use crate::profile::{LabelValue, Profile};
use std::path::PathBuf;

fn plain() -> Oddity {
    Oddity::default()
}

/// One of each kind, and all together.
fn oddities() -> Vec<Oddity> {
    let all = Oddity {
        is_later: true,
        has_garbage: true,
        is_shuffled: true,
        has_elided_contexts: true,
        is_unnamed: true,
        only_scope: None,
    };
    vec![
        Oddity { is_later: true, ..plain() },
        Oddity { has_garbage: true, ..plain() },
        Oddity { is_shuffled: true, ..plain() },
        Oddity { has_elided_contexts: true, ..plain() },
        Oddity { is_unnamed: true, ..plain() },
        Oddity { only_scope: Some("point"), ..plain() },
        Oddity { only_scope: Some("function"), ..plain() },
        Oddity { only_scope: Some("execution"), ..plain() },
        all,
    ]
}

fn files(made: &Made) -> DatabaseFiles<'_> {
    DatabaseFiles { meta: &made.meta, profile: &made.profile, trace: Some(&made.trace) }
}

fn profile(made: &Made) -> Profile {
    let profile = read_files(&files(made), Path::new("")).map_err(|error| error.to_string()).unwrap();
    profile.check().unwrap();
    profile
}

fn findings(made: &Made) -> Vec<Finding> {
    let Made { meta, profile, context, trace, .. } = made;
    check_files(&CheckedFiles { meta, profile, context, trace: Some(trace) }, None).1
}

/// A line for each sample: labels, frames from the innermost with inlined ones in parentheses, values.
fn samples(profile: &Profile) -> Vec<String> {
    let line = |sample: crate::profile::SampleRef<'_>| {
        let labels = profile.labels(sample.labels).iter().map(|label| match &label.value {
            LabelValue::Number(number, _) => format!("{} {number}", label.key),
            LabelValue::Text(text) => format!("{} {text}", label.key),
        });
        let frames = sample.chain.iter().map(|&id| {
            let location = profile.location(id);
            let lines = location.lines.iter().map(|line| {
                let function = profile.function(line.function);
                format!("{} {}:{}", function.name, function.file, line.line)
            });
            lines.collect::<Vec<_>>().join(" in ")
        });
        let frames = frames.collect::<Vec<_>>().join(", ");
        format!("{}: {frames}: {:?}", labels.collect::<Vec<_>>().join(" "), sample.values)
    };
    profile.samples.iter().map(line).collect()
}

const RANK_0: &str = "node 2831159860 rank 0 tid 1";
const RANK_1: &str = "node 2831159860 rank 1 tid 0";

fn expected() -> Vec<String> {
    let main = "main /work/a.c";
    vec![
        format!("{RANK_0}: {main}:12: [250000000]"),
        format!("{RANK_0}: helper /work/a.h:7 in {main}:12: [500000000]"),
        format!("{RANK_0}: <unknown procedure> 0x10 [x.so] :0: [125000000]"),
        format!("{RANK_1}: helper /work/a.h:7 in {main}:12: [1000000000]"),
        format!("{RANK_1}: <unknown procedure> 0x880 [x.so] :0, {main}:15: [2000000000]"),
    ]
}

#[test]
fn reads_metrics_contexts_and_identifiers() {
    let profile = profile(&made(plain()));
    assert_eq!(samples(&profile), expected());
    assert_eq!(profile.sample_types, [ValueType::new("cpu", "nanoseconds")]);
    assert_eq!((profile.time_nanos, profile.duration_nanos), (1_000, 4_000));
    assert_eq!(profile.comments.iter().map(|text| &**text).collect::<Vec<_>>(), ["prog", "made by a test"]);
    let files: Vec<_> = profile.mappings.iter().map(|mapping| mapping.file.clone()).collect();
    assert_eq!(files, [PathBuf::from("/bin/prog"), "/lib/x.so".into()]);
    let address = |name: &str| {
        let is_it = |location: &&crate::profile::Location| {
            &*profile.function(location.lines[0].function).name == name && location.address != 0
        };
        let location = profile.locations.iter().find(is_it).unwrap();
        location.address - profile.mapping_of(location).unwrap().start
    };
    assert_eq!(address("<unknown procedure> 0x880 [x.so]"), 0x8a4);
    assert_eq!(address("<unknown procedure> 0x10 [x.so]"), 0x10);
}

#[test]
fn reads_what_hpcprof_and_later_versions_write() {
    for odd in oddities() {
        let made = made(odd);
        assert_eq!(samples(&profile(&made)), expected(), "{odd:?}");
    }
}

#[test]
fn reads_sums_if_there_are_no_threads() {
    let mut made = made(plain());
    let head = made.at["infos"] - 0x10;
    made.profile[head + 8] = 1;
    let all: Vec<String> = samples(&profile(&made));
    assert_eq!(all.len(), 4);
    assert_eq!(all[1], ": helper /work/a.h:7 in main /work/a.c:12: [1500000000]");
}

#[test]
fn reads_metrics_by_their_names() {
    let type_of = |name: &str| {
        let (one, scale) = read::sample_type(name);
        format!("{one} {scale:e}")
    };
    assert_eq!(type_of("CPUTIME (sec)"), "cpu/nanoseconds 1e9");
    assert_eq!(type_of("REALTIME (sec)"), "wall/nanoseconds 1e9");
    assert_eq!(type_of("GKER (sec)"), "GKER/nanoseconds 1e9");
    assert_eq!(type_of("GXCOPY (B)"), "GXCOPY/bytes 1e0");
    assert_eq!(type_of("perf::cycles"), "perf::cycles/count 1e0");
}

#[test]
fn errors_state_file_and_offset() {
    let error = |change: &dyn Fn(&mut Made)| {
        let mut made = made(plain());
        change(&mut made);
        read_files(&files(&made), Path::new("")).unwrap_err().to_string()
    };
    assert_eq!(error(&|made| made.meta[0] = b'h'), "meta.db: not a meta.db of HPCToolkit");
    assert_eq!(
        error(&|made| made.profile[0xe] = 3),
        "profile.db: a database of version 3, not 4; convert it with the hpcprof of HPCToolkit 2023.03 or newer"
    );
    let cut = error(&|made| made.profile.truncate(made.at["values"]));
    assert!(cut.contains("profile.db: at offset ") && cut.contains("damaged or incomplete"), "{cut}");
    // The children of `line 12` are those of `main`, which contain it.
    let cycle = error(&|made| {
        let (main, line) = (made.at["main"], made.at["line 12"]);
        made.meta.copy_within(main..main + 16, line);
    });
    assert!(cycle.contains("has a cycle"), "{cycle}");
}

/// 10 000 nested contexts.
#[test]
fn deep_trees_need_no_recursion() {
    // A chain of inlined calls, and of calls: the latter has a location for each.
    for (relation, frames) in [(1, 10_000), (2, 1)] {
        let mut made = made(plain());
        let function = made.at["function"] as u64;
        let mut children = (0, 0);
        for id in 0..10_000_u32 {
            let at = made.meta.len() as u64;
            made.meta.extend(u64::to_le_bytes(children.1));
            made.meta.extend(u64::to_le_bytes(children.0));
            // The innermost has the values of context 5.
            let id = if id == 0 { 5 } else { 1000 + id };
            made.meta.extend(id.to_le_bytes());
            made.meta.extend([1, relation, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
            made.meta.extend(function.to_le_bytes());
            children = (at, made.meta.len() as u64 - at);
        }
        let entry = made.at["entries"];
        made.meta[entry..entry + 8].copy_from_slice(&children.1.to_le_bytes());
        made.meta[entry + 8..entry + 16].copy_from_slice(&children.0.to_le_bytes());
        if relation == 2 {
            // Each context would have a location with all functions around it.
            let error = read_files(&files(&made), Path::new("")).unwrap_err();
            assert!(error.to_string().contains("more memory"), "{error}");
        } else {
            let profile = profile(&made);
            let deepest = profile.samples.iter().map(|sample| sample.chain.len()).max();
            assert_eq!(deepest, Some(frames));
        }
    }
}

#[test]
fn sound_databases_have_no_breach() {
    assert_eq!(findings(&made(plain())), []);
    for odd in oddities() {
        let found = findings(&made(odd));
        let notes: Vec<&str> = found.iter().filter(|one| !one.is_breach).map(|one| &*one.text).collect();
        assert_eq!(found.len(), notes.len(), "{odd:?}: {found:?}");
        let mut expected = Vec::new();
        if odd.is_unnamed {
            expected.push("a function without a name, which several readers show as HPCTOOLKITmeta");
        }
        if odd.has_elided_contexts {
            expected.push("4 contexts with values are not in meta.db");
        }
        assert_eq!(notes, expected, "{odd:?}");
    }
}

type Break = fn(&mut Made);

/// Each rule is broken by a database that is otherwise sound.
#[test]
fn check_reports_each_breach() {
    fn put(bytes: &mut [u8], at: usize, value: u64, size: usize) {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    fn get(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }
    let cases: &[(&str, &str, Break)] = &[
        ("meta.db", "not a meta.db", |made| made.meta[12] = b'x'),
        ("meta.db", "does not end with _meta.db", |made| *made.meta.last_mut().unwrap() = b'x'),
        ("meta.db", "beyond the end of the file", |made| put(&mut made.meta, 0x10, 1 << 40, 8)),
        ("meta.db", "overlaps another one", |made| {
            let start = get(&made.meta, 0x18);
            put(&mut made.meta, 0x28, start, 8);
        }),
        ("meta.db", "overlaps the header", |made| put(&mut made.meta, 0x18, 0x40, 8)),
        ("meta.db", "section IdNames (0x", |made| {
            let start = get(&made.meta, 0x28);
            put(&mut made.meta, 0x28, start + 1, 8);
        }),
        ("meta.db", "pTitle is not within section General", |made| {
            let (at, strings) = (made.at["General"], made.at["Strings"] as u64);
            put(&mut made.meta, at, strings, 8);
        }),
        ("meta.db", "two kinds have the name \"SUMMARY\"", |made| {
            let kinds = made.at["kinds"];
            made.meta.copy_within(kinds..kinds + 8, kinds + 8);
        }),
        ("meta.db", "records of 8 bytes, which have 28 in version 4.0", |made| {
            let at = made.at["Metrics"];
            made.meta[at + 0xc] = 8;
        }),
        ("meta.db", "has the unknown type 7", |made| {
            let at = made.at["scopes"];
            made.meta[at + 8] = 7;
        }),
        ("meta.db", "has the propagationIndex 16", |made| {
            let at = made.at["scopes"] + 0x10;
            made.meta[at + 9] = 16;
        }),
        ("meta.db", "a pScope of \"CPUTIME (sec)\" is not in pScopes", |made| {
            let at = made.at["instances"];
            made.meta[at] += 8;
        }),
        ("meta.db", "two scopes have the propMetricId 1", |made| {
            let at = made.at["instances"];
            made.meta[at + 8] = 1;
        }),
        ("meta.db", "two statistics have the statMetricId 1", |made| {
            let at = made.at["summaries"];
            made.meta[at + 0x12] = 1;
        }),
        ("meta.db", "combine is 3, not 0 to 2", |made| {
            let at = made.at["summaries"];
            made.meta[at + 0x10] = 3;
        }),
        ("meta.db", "pPath is not within section Strings", |made| {
            let (at, title) = (made.at["module"], made.at["General"] as u64 + 0x10);
            put(&mut made.meta, at + 8, title, 8);
        }),
        ("meta.db", "neither name nor module nor file", |made| {
            let at = made.at["function"];
            for field in [0, 8, 0x18] {
                put(&mut made.meta, at + field, 0, 8);
            }
        }),
        ("meta.db", "pModule of a function is not in pModules", |made| {
            let at = made.at["function"];
            made.meta[at + 8] += 8;
        }),
        ("meta.db", "pFile of a function is not in pFiles", |made| {
            let at = made.at["function"];
            made.meta[at + 0x18] += 8;
        }),
        ("meta.db", "pFunction of context 2 is not in pFunctions", |made| {
            let at = made.at["main"];
            made.meta[at + 0x20] += 8;
        }),
        ("meta.db", "pFile of context 3 is not in pFiles", |made| {
            let at = made.at["line 12"];
            made.meta[at + 0x20] += 8;
        }),
        ("meta.db", "pModule of context 9 is not in pModules", |made| {
            let at = made.at["instruction"];
            made.meta[at + 0x20] += 8;
        }),
        ("meta.db", "context 2 of lexicalType 2 has no position", |made| {
            let at = made.at["main"];
            made.meta[at + 0x16] = 2;
        }),
        ("meta.db", "ctxId 0 is of the implicit context", |made| {
            let at = made.at["loop"];
            made.meta[at + 0x10] = 0;
        }),
        ("meta.db", "two contexts have the ctxId 3", |made| {
            let at = made.at["loop"];
            made.meta[at + 0x10] = 3;
        }),
        ("meta.db", "beyond the end of its parent's children", |made| {
            let at = made.at["main"];
            made.meta[at] -= 8;
        }),
        ("meta.db", "has too few words", |made| {
            let at = made.at["instruction"];
            made.meta[at + 0x14] = 7;
        }),
        ("meta.db", "has a cycle", |made| {
            let (main, line) = (made.at["main"], made.at["line 12"]);
            made.meta.copy_within(main..main + 16, line);
        }),
        ("profile.db", "the first profile is not a summary", |made| {
            let at = made.at["infos"];
            made.profile[at + 0x28] = 0;
        }),
        ("profile.db", "profiles 1 and 2 have equal identifiers", |made| {
            let at = made.at["info"];
            made.profile.copy_within(at + 0x20..at + 0x28, at + 0x50);
        }),
        ("profile.db", "is not a multiple of 8", |made| {
            let at = made.at["info"];
            made.profile[at + 0x20] += 4;
        }),
        ("profile.db", "kind 8 has no name", |made| {
            let at = made.at["tuple"];
            made.profile[at + 8] = 8;
        }),
        ("profile.db", "the physicalId of a logical identifier is 7, not 0", |made| {
            let at = made.at["tuple"];
            made.profile[at + 8 + 16 + 8] = 7;
        }),
        ("profile.db", "an identifier tuple is empty", |made| {
            let at = made.at["tuple"];
            made.profile[at] = 0;
        }),
        ("profile.db", "does not follow its values", |made| {
            let at = made.at["info"];
            let index = get(&made.profile, at + 0x18);
            put(&mut made.profile, at + 0x18, index - 12, 8);
        }),
        ("profile.db", "overlap those of another one", |made| {
            let at = made.at["info"];
            made.profile.copy_within(at..at + 0x20, at + 0x30);
        }),
        ("profile.db", "is within a section", |made| {
            let (at, section) = (made.at["info"], get(&made.profile, 0x18));
            put(&mut made.profile, at, 0, 8);
            put(&mut made.profile, at + 8, section, 8);
            put(&mut made.profile, at + 0x10, 1, 4);
            put(&mut made.profile, at + 0x18, section, 8);
        }),
        ("profile.db", "profile 1: context 1 is not after the one before it", |made| {
            let at = made.at["index"];
            made.profile.copy_within(at + 12..at + 16, at);
        }),
        ("profile.db", "do not ascend", |made| {
            let at = made.at["index"];
            made.profile.copy_within(at + 24 + 4..at + 24 + 12, at + 12 + 4);
        }),
        ("profile.db", "metric 1 is not after the one before it", |made| {
            // Context 2 has the metrics 1, 2 and 3.
            let at = made.at["values"] + 3 * 10;
            made.profile[at] = 1;
        }),
        ("profile.db", "metric 9 is not in meta.db", |made| {
            let at = made.at["values"];
            made.profile[at] = 9;
        }),
        ("profile.db", "the value of metric 3 is 0", |made| {
            let at = made.at["values"];
            put(&mut made.profile, at + 2, 0, 8);
        }),
        ("profile.db", "context 0 has 0.5, and its children have 0.875", |made| {
            let at = made.at["values"];
            put(&mut made.profile, at + 2, 0.5_f64.to_bits(), 8);
        }),
        ("profile.db", "the summary of context 0 has 3.875 of metric 3, and the threads have 3.5", |made| {
            let at = made.at["values"];
            put(&mut made.profile, at + 2, 0.5_f64.to_bits(), 8);
        }),
        ("profile.db", "the summary lacks metric 3 of context 0, and the threads have 3.875", |made| {
            let at = made.at["infos"];
            put(&mut made.profile, at, 0, 8);
            put(&mut made.profile, at + 0x10, 0, 4);
        }),
        ("cct.db", "5 contexts, and meta.db has the ctxId 11", |made| {
            let at = made.at["contexts"];
            made.context[at + 8] = 5;
        }),
        ("cct.db", "values of profile.db are missing", |made| {
            let at = made.at["contexts"];
            made.context[at + 8] = 5;
        }),
        ("cct.db", "profile.db has another value", |made| {
            let at = made.at["context values"];
            put(&mut made.context, at + 4, 7.0_f64.to_bits(), 8);
        }),
        ("cct.db", "profile 2 is not after the one before it", |made| {
            let at = made.at["context values"];
            made.context.copy_within(at + 12..at + 16, at);
        }),
        ("cct.db", "profile 0 is not one of a thread", |made| {
            let at = made.at["context values"];
            made.context[at] = 0;
        }),
        ("cct.db", "metric 1 is not after the one before it", |made| {
            let at = made.at["context index"];
            made.context[at] = 1;
        }),
        ("cct.db", "the first startIndex of context 5 is 1", |made| {
            let at = made.at["context index"];
            made.context[at + 2] = 1;
        }),
        ("trace.db", "profile 0 is not one of a thread", |made| {
            let at = made.at["trace"];
            made.trace[at] = 0;
        }),
        ("trace.db", "profile 2 has two traces", |made| {
            let at = made.at["trace"];
            made.trace[at] = 2;
        }),
        ("trace.db", "does not begin at a multiple of 8", |made| {
            let at = made.at["trace"];
            made.trace[at + 8] += 4;
        }),
        ("trace.db", "does not consist of whole samples", |made| {
            let at = made.at["trace"];
            made.trace[at + 0x10] += 8;
        }),
        ("trace.db", "a sample is earlier than the one before it", |made| {
            let at = made.at["trace samples"];
            put(&mut made.trace, at + 12, 500, 8);
        }),
        ("trace.db", "two samples in a row have ctxId 0", |made| {
            let at = made.at["trace samples"];
            made.trace[at + 12 + 8] = 0;
        }),
        ("trace.db", "minTimestamp and maxTimestamp are not those of the samples", |made| {
            let at = made.at["traces"];
            made.trace[at + 0x10] = 1;
        }),
        ("trace.db", "is within a section", |made| {
            let at = made.at["trace"];
            let section = get(&made.trace, 0x18);
            put(&mut made.trace, at + 8, section, 8);
            put(&mut made.trace, at + 0x10, section + 12, 8);
        }),
    ];
    for (file, text, break_it) in cases {
        let mut made = made(plain());
        break_it(&mut made);
        let found = findings(&made);
        let is_it = |one: &Finding| one.is_breach && one.file == *file && one.text.contains(text);
        assert!(found.iter().any(is_it), "{file}: {text}: {found:#?}");
    }
}

fn ping_pong() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hpctoolkit-ping-pong")
}

/// A database that hpcprof wrote: the figures are those of llnl-hatchet.
#[test]
fn reads_a_database_of_hpcprof() {
    let profile = read(&ping_pong()).unwrap();
    profile.check().unwrap();
    assert_eq!(profile.total(0), 262_070_000);
    let inclusive = |wanted: &str| -> i64 {
        let has = |id: &crate::profile::LocationId| {
            let lines = &profile.location(*id).lines;
            lines.iter().any(|line| &*profile.function(line.function).name == wanted)
        };
        profile
            .samples
            .iter()
            .filter(|sample| sample.chain.iter().any(has))
            .map(|sample| sample.values[0])
            .sum()
    };
    assert_eq!((inclusive("main"), inclusive("MPI_Finalize")), (262_070_000, 12_029_000));
    assert_eq!(profile.samples.iter().map(|sample| sample.values[0]).max(), Some(67_218_000));
    let threads = crate::profile::Threads::of(&profile);
    let titles: Vec<_> = threads.iter().map(|(_, title)| title.unwrap()).collect();
    assert_eq!(titles, ["thread 0, rank 0", "thread 0, rank 1"]);
    assert_eq!(profile.duration_nanos, 311_978_000);
}

#[test]
fn a_database_of_hpcprof_has_no_breach() {
    let (size, found) = check(&ping_pong()).unwrap();
    let expected = DatabaseSize { metrics: 1, contexts: 115, threads: 2, values: 317, traces: 2 };
    assert_eq!(DatabaseSize { contexts: 115, ..size }, expected);
    assert_eq!(found.iter().filter(|one| one.is_breach).collect::<Vec<_>>(), Vec::<&Finding>::new());
    let notes: Vec<&str> = found.iter().map(|one| &*one.text).collect();
    assert!(notes.iter().any(|note| note.contains("contexts with values are not in meta.db")), "{notes:?}");
    assert!(notes.contains(&"16 contexts without children have a pChildren other than 0"), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("metrics/default.yaml")), "{notes:?}");
}
