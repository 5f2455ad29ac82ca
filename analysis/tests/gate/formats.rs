//! Profiles of other programs are read, and other programs read written ones. Needs Debian's
//! `google-perftools`, `golang-go`, `valgrind` (for `callgrind_annotate`), `gzip` and `python3`.

use sigprof::format::{ByteOrder, CpuProfile, ProfileWriter, SlotLayout, SlotWidth};
use sigprof_analysis::{
    formats::{cpu_profile, pprof, read, read_file},
    profile::{Builder, Function, LabelSetId, LabelValue, Line, Location, LocationId, Profile, label},
};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant, UNIX_EPOCH},
};

const GPERFTOOLS: &str = "/usr/lib/x86_64-linux-gnu/libprofiler.so.0";

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn sigprof() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sigprof"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a profile that takes long to make, made once for all tests of a build. `make` gets an
/// empty directory and returns the file.
fn made_once(name: &str, make: impl FnOnce(&Path) -> PathBuf) -> PathBuf {
    let built =
        std::env::current_exe().and_then(fs::metadata).and_then(|program| program.modified()).unwrap();
    let stamp = built.duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{stamp}"));
    if !path.exists() {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // The first complete file stays.
        match fs::hard_link(make(directory.path()), &path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{}: {error}", path.display()),
            _ => {}
        }
        for entry in fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().map(Result::unwrap) {
            let is_earlier = entry.file_name().to_string_lossy().starts_with(name) && entry.path() != path;
            if is_earlier {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    path
}

/// A gperftools profile of python3.
fn gperftools() -> PathBuf {
    made_once("gperftools.prof", |directory| {
        assert!(Path::new(GPERFTOOLS).exists(), "Debian's libgoogle-perftools4 is missing");
        let path = directory.join("gperftools.prof");
        let script = "n = 0\nfor i in range(4000000): n += i * i";
        let mut command = Command::new("/usr/bin/python3");
        run(command.args(["-c", script]).env("LD_PRELOAD", GPERFTOOLS).env("CPUPROFILE", &path));
        path
    })
}

/// A gzip-compressed profile by Go's runtime, of a program with labels.
fn go() -> PathBuf {
    made_once("go.pb.gz", |directory| {
        let (source, program) = (directory.join("main.go"), directory.join("program"));
        fs::write(&source, include_str!("../programs/profiled.go")).unwrap();
        let mut build = Command::new("go");
        run(build
            .args(["build", "-o"])
            .args([&program, &source])
            .env("GOFLAGS", "-mod=mod")
            .env("GO111MODULE", "off")
            .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-build")));
        let path = directory.join("go.pb.gz");
        run(Command::new(&program).arg(&path));
        path
    })
}

fn total(profile: &Profile) -> i64 {
    profile.total(profile.default_type)
}

/// Returns flat and cumulative nanoseconds of each function, by `go tool pprof`.
fn top_of_go(path: &Path) -> BTreeMap<String, (i64, i64)> {
    let mut command = Command::new("go");
    let options =
        ["tool", "pprof", "-top", "-unit=ns", "-nodecount=100000", "-nodefraction=0", "-symbolize=none"];
    let output =
        text(&run(command.args(options).arg(path).env("PPROF_TMPDIR", path.parent().unwrap())).stdout);
    let nanos = |word: &str| -> i64 { word.trim_end_matches("ns").parse::<f64>().unwrap() as i64 };
    let lines = output.lines().skip_while(|line| !line.trim_start().starts_with("flat")).skip(1);
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[5..].join(" "), (nanos(words[0]), nanos(words[3])))
        })
        .collect()
}

/// The same from the model.
fn top_of(profile: &Profile) -> BTreeMap<String, (i64, i64)> {
    let mut top: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for sample in profile.samples.iter() {
        let lines = sample.chain.iter().flat_map(|id| &profile.location(*id).lines);
        let names: Vec<String> = lines.map(|line| profile.function(line.function).name.to_string()).collect();
        let value = sample.values[profile.default_type];
        if let Some(name) = names.first() {
            top.entry(name.clone()).or_default().0 += value;
        }
        for name in names.into_iter().collect::<std::collections::BTreeSet<_>>() {
            top.entry(name).or_default().1 += value;
        }
    }
    top
}

#[test]
fn gperftools_profiles_are_read_and_written_unchanged() {
    let bytes = fs::read(gperftools()).unwrap();
    let file = CpuProfile::parse(&bytes).unwrap();
    let profile = read_file(&gperftools()).unwrap();
    assert_eq!(profile.check(), Ok(()));
    assert!(file.total_samples() > 5, "{} samples", file.total_samples());
    assert_eq!(u128::try_from(profile.total(0)).unwrap(), file.total_samples());
    assert_eq!(i128::from(profile.total(1)), i128::try_from(file.duration().as_nanos()).unwrap());
    assert!(profile.mappings[0].file.to_str().unwrap().contains("/python3"), "{:?}", profile.mappings[0]);

    let mut written = Vec::new();
    cpu_profile::write(&profile, &mut written).unwrap();
    let again = read(&written).unwrap();
    assert_eq!(format!("{again:?}"), format!("{profile:?}"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("written.prof");
    fs::write(&path, &written).unwrap();
    crate::checker::check(&path);
}

/// Recorded profiles have build IDs, but google-pprof does not read lines with them.
#[test]
fn google_pprof_finds_names_in_converted_profiles() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("converted.prof");
    let mut profile = read_file(&gperftools()).unwrap();
    for mapping in &mut profile.mappings {
        mapping.build_id = "0123456789abcdef".into();
    }
    cpu_profile::write(&profile, fs::File::create(&path).unwrap()).unwrap();
    let names = |path: &Path| {
        text(&run(Command::new("google-pprof").args(["--text", "/usr/bin/python3"]).arg(path)).stdout)
    };
    let expected = names(&gperftools());
    assert!(expected.lines().count() > 3, "{expected}");
    assert_eq!(names(&path), expected);
}

#[test]
fn all_slot_layouts_are_read_equally_with_and_without_gzip() {
    let mut found = Vec::new();
    for layout in SlotLayout::ALL {
        let mut bytes = Vec::new();
        let mut writer = ProfileWriter::new(&mut bytes, layout);
        writer.header(4000).unwrap();
        for (count, pcs) in
            [(3, [0x1010, 0x1100, 0x2200]), (2, [0x1010, 0x10ff, 0x2200]), (9, [1, 2, 0x7fff_ffff])]
        {
            writer.record(count, &pcs).unwrap();
        }
        writer.trailer().unwrap();
        writer
            .text()
            .write_all(b"build=/bin\n1000-2000 r-xp 0 0:0 0 $build/x\n2000-3000: /lib/y.so (@40) AB12\n")
            .unwrap();
        found.push(format!("{:?}", read(&bytes).unwrap()));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&bytes).unwrap();
        found.push(format!("{:?}", read(&packed.finish().unwrap()).unwrap()));
    }
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|profile| *profile == found[0]), "{found:#?}");
    assert!(found[0].contains("\"/bin/x\"") && found[0].contains("\"ab12\""), "{}", found[0]);
    assert_eq!(SlotLayout::ALL.iter().filter(|layout| layout.width == SlotWidth::Four).count(), 2);
    assert_eq!(SlotLayout::ALL.iter().filter(|layout| layout.order == ByteOrder::Big).count(), 2);
}

/// Works as the example does until the thread `busy` has [`ENOUGH`] samples.
fn work_until_sampled(summary: impl Fn() -> sigprof::Summary) {
    let begin = Instant::now();
    let is_busy = |one: &&sigprof::ThreadUse| one.thread.name.to_string() == "busy";
    while summary().threads.busiest().iter().find(is_busy).is_none_or(|busy| busy.samples < ENOUGH) {
        assert!(begin.elapsed() < TIMEOUT, "no samples come");
        crate::service::work(Duration::from_millis(20));
    }
}

/// In periods of 4 ms.
const ENOUGH: u64 = 25;
/// Ends a test that would wait for ever.
const TIMEOUT: Duration = Duration::from_secs(540);

/// Names the working directory to the child of the next test.
const CHILD: &str = "SIGPROF_TEST_SPOOL";

#[test]
fn a_spool_is_read_with_its_threads() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let directory = Path::new(&directory);
        let builder = sigprof::Profiler::builder().frequency(250).by_thread().spool_directory(directory);
        let profiler = builder.start(directory.join("never.prof")).unwrap();
        let thread = std::thread::Builder::new().name("busy".into());
        std::thread::scope(|scope| {
            let work = || work_until_sampled(|| profiler.summary().unwrap());
            thread.spawn_scoped(scope, work).unwrap().join().unwrap();
        });
        std::process::abort();
    }
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "formats::a_spool_is_read_with_its_threads"]).env(CHILD, directory.path());
    let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
    let process = child.id();
    assert!(!child.wait().unwrap().success(), "the child was to be killed");

    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let spool = { files }.find(|path| path.extension().is_some_and(|end| end == "spool")).expect("a spool");
    let profile = read_file(&spool).unwrap();
    assert_eq!((profile.check(), profile.period), (Ok(()), 4_000_000));
    assert!(
        profile.time_nanos > 0 && profile.mappings.iter().all(|mapping| mapping.process == Some(process))
    );
    let busy = profile.samples.iter().filter(|sample| {
        let labels = profile.labels(sample.labels);
        let has = |key: &str, value: LabelValue| {
            labels.iter().any(|label| &*label.key == key && label.value == value)
        };
        has(label::THREAD, LabelValue::Text("busy".into()))
            && has(label::PROCESS_ID, LabelValue::Number(process.into(), "".into()))
            && labels.iter().any(|one| &*one.key == label::PROCESS)
            && labels.iter().any(|one| &*one.key == label::THREAD_ID)
    });
    let busy: i64 = busy.map(|sample| sample.values[1]).sum();
    assert!(busy >= ENOUGH as i64 * profile.period, "{busy} ns");
    // Reading leaves the spool in place.
    assert_eq!(read_file(&spool).unwrap().total(1), profile.total(1));
    // Not through a pipe: a spool is more than its bytes.
    let error = read(&fs::read(&spool).unwrap()).unwrap_err().to_string();
    assert!(error.contains("only be read from its file"), "{error}");
}

#[test]
fn a_trace_is_written_if_samples_have_times() {
    use sigprof_analysis::profile::{Builder, Function, Label, Line};
    let mut builder = Builder::new(Profile::cpu_types());
    let ids: Vec<_> = ["main", "f", "g"]
        .into_iter()
        .zip(1..)
        .map(|(name, address)| {
            let function =
                Function { name: name.into(), system_name: name.into(), file: "".into(), start_line: 0 };
            let line = Line { function: builder.function(function), line: 0, column: 0 };
            let id = builder.location(None, address);
            builder.profile.locations[id.index()].lines.push(line);
            id
        })
        .collect();
    // main f, main f, main g, and main g again after a gap.
    for (leaf, end) in
        [(1, 1_000_000_010_000), (1, 1_000_000_020_000), (2, 1_000_000_030_000), (2, 1_000_000_090_000)]
    {
        let time = Label { key: "end_timestamp_ns".into(), value: LabelValue::Number(end, "".into()) };
        let labels = builder.label_set(&[time]);
        builder.profile.samples.push(&[ids[leaf], ids[0]], &[1, 10_000], labels);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timed.pb.gz");
    pprof::write(&builder.finish(), fs::File::create(&path).unwrap()).unwrap();
    let found: serde_json::Value = serde_json::from_str(&converted("chrome-trace", &path)).unwrap();
    let mut slices: Vec<(String, String, String)> = Vec::new();
    for event in found["traceEvents"].as_array().unwrap() {
        assert_eq!(event["ph"], "X");
        let text = |key: &str| event[key].to_string().trim_matches('"').to_owned();
        slices.push((text("name"), text("ts"), text("dur")));
    }
    slices.sort_by(|a, b| (&a.1, &b.2).cmp(&(&b.1, &a.2)));
    let expected = [
        ("main", "1000000000.0", "30.0"),
        ("f", "1000000000.0", "20.0"),
        ("g", "1000000020.0", "10.0"),
        ("g", "1000000080.0", "10.0"),
        ("main", "1000000080.0", "10.0"),
    ];
    let mut found: Vec<(&str, &str, &str)> = slices.iter().map(|(a, b, c)| (&**a, &**b, &**c)).collect();
    found[3..].sort();
    assert_eq!(found, expected);
}

#[test]
fn go_profiles_are_read_as_gos_own_tool_reads_them() {
    let profile = read_file(&go()).unwrap();
    assert_eq!(profile.check(), Ok(()));
    let types: Vec<String> =
        profile.sample_types.iter().map(|one| format!("{}/{}", one.kind, one.unit)).collect();
    assert_eq!(types, ["samples/count", "cpu/nanoseconds"]);
    assert_eq!((profile.period, profile.default_type), (10_000_000, 1));
    assert!(profile.time_nanos > 0 && profile.duration_nanos > 0);
    let is_route = |labels: &Vec<sigprof_analysis::profile::Label>| {
        labels.iter().any(|label| &*label.key == "route" && label.value == LabelValue::Text("/index".into()))
    };
    assert!(profile.label_sets.iter().any(is_route), "{:?}", profile.label_sets);
    let top = top_of(&profile);
    assert!(top.contains_key("main.spin"), "{top:?}");
    assert_eq!(top, top_of_go(&go()));
}

#[test]
fn written_protobuf_has_the_same_totals_in_gos_tool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("converted.pb.gz");
    run(sigprof().args(["convert", "--to", "pprof", "-o"]).arg(&path).arg(go()));
    assert_eq!(top_of_go(&path), top_of_go(&go()));
    let converted = read_file(&path).unwrap();
    assert_eq!(format!("{:?}", converted.mappings), format!("{:?}", read_file(&go()).unwrap().mappings));

    // Addresses and their objects only.
    let profile = read_file(&gperftools()).unwrap();
    let mut bytes = Vec::new();
    pprof::write(&profile, &mut bytes).unwrap();
    fs::write(&path, bytes).unwrap();
    let mut raw = Command::new("go");
    let raw = text(&run(raw.args(["tool", "pprof", "-raw", "-symbolize=none"]).arg(&path)).stdout);
    let samples = raw.lines().skip_while(|line| !line.starts_with("samples/count")).skip(1);
    let samples = samples.take_while(|line| !line.starts_with("Locations"));
    let sum: i64 = samples.filter_map(|line| line.split_whitespace().next()?.parse::<i64>().ok()).sum();
    assert_eq!(sum, profile.total(0));
    assert!(raw.contains("Period: 10000000") && raw.contains("/python3"), "{raw}");
}

fn converted(format: &str, file: &Path) -> String {
    text(&run(sigprof().args(["convert", "--to", format]).arg(file)).stdout)
}

#[test]
fn folded_stacks_have_the_whole_time() {
    let found = converted("folded", &go());
    let sum: i64 = found.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum();
    let profile = read_file(&go()).unwrap();
    assert_eq!(sum, total(&profile));
    assert!(found.contains("main.main;main.labelled;"), "{found}");
    let counts =
        text(&run(sigprof().args(["convert", "--to=folded", "--sample-type=samples"]).arg(go())).stdout);
    let sum: i64 = counts.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum();
    assert_eq!(sum, profile.total(0));
}

#[test]
fn equal_folded_stacks_are_merged() {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = Builder::new(Profile::cpu_types());
    for (file, count) in [("a.c", 1), ("b.c", 2), ("a.c", 4)] {
        let [name, main] = ["f;", "main"].map(|name| {
            let function =
                Function { name: name.into(), system_name: name.into(), file: file.into(), start_line: 0 };
            let function = builder.function(function);
            let lines = vec![Line { function, line: count, column: 0 }];
            builder.profile.locations.push(Location { lines, ..Location::default() });
            LocationId::at(builder.profile.locations.len() - 1)
        });
        builder.profile.samples.push(&[name, main], &[count, count * 10], LabelSetId(0));
    }
    let path = directory.path().join("two.pb.gz");
    pprof::write(&builder.finish(), fs::File::create(&path).unwrap()).unwrap();
    assert_eq!(converted("folded", &path), "main;f: 70\n");
}

#[test]
fn callgrinds_reader_has_the_same_inclusive_times() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("callgrind.out.1");
    fs::write(&path, converted("callgrind", &go())).unwrap();
    let mut command = Command::new("callgrind_annotate");
    let options = ["--inclusive=yes", "--threshold=100", "--auto=no"];
    let found = text(&run(command.args(options).arg(&path).current_dir(directory.path())).stdout);
    let expected = top_of(&read_file(&go()).unwrap());
    let inclusive = |name: &str| -> i64 {
        let line = found
            .lines()
            .find(|line| line.contains(&format!(":{name} ")) || line.ends_with(&format!(":{name}")));
        let line = line.unwrap_or_else(|| panic!("{name} in {found}"));
        line.split(')').nth(1).unwrap().split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
    };
    // `recurse` calls itself, directly and through another function.
    for name in ["main.spin", "main.recurse", "main.other", "main.main"] {
        assert_eq!(inclusive(name), expected[name].1, "{name} in {found}");
    }
}

#[test]
fn callgrind_calls_equal_the_number_of_samples() {
    // Each chain begins with a call by the root: those calls are all samples.
    let written = converted("callgrind", &go());
    let root = written.split("\n\n").find(|function| function.contains(" (root)\n")).expect("a root");
    let calls = root.lines().filter_map(|line| line.strip_prefix("calls=")?.split(' ').next());
    let calls: i64 = calls.map(|calls| calls.parse::<i64>().unwrap()).sum();
    assert_eq!(calls, read_file(&go()).unwrap().total(0));
}

#[test]
fn json_for_speedscope_has_a_profile_for_each_thread_and_the_whole_time() {
    let found: serde_json::Value = serde_json::from_str(&converted("speedscope", &go())).unwrap();
    assert_eq!(found["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = found["shared"]["frames"].as_array().unwrap().len() as u64;
    let mut sum = 0;
    for profile in found["profiles"].as_array().unwrap() {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
        let (samples, weights) =
            (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len());
        let all = samples.iter().flat_map(|sample| sample.as_array().unwrap());
        assert!(all.into_iter().all(|frame| frame.as_u64().unwrap() < frames));
        let weight: i64 = weights.iter().map(|weight| weight.as_i64().unwrap()).sum();
        assert_eq!(profile["endValue"].as_i64(), Some(weight));
        sum += weight;
    }
    assert_eq!(sum, total(&read_file(&go()).unwrap()));
}

/// Output of `perf script`: a shell executes a program that has a thread.
const RENAMED: &str = "\
sh    15/15    1.000000:   10000000 cpu-clock:
\t    55d0c0001000 start+0x0 (/bin/sh)

perl    15/15    1.010000:   20000000 cpu-clock:
\t    55d0c0001000 main+0x0 (/usr/bin/perl)

worker    15/17    1.020000:   50000000 cpu-clock:
\t    55d0c0002000 work+0x0 (/usr/bin/perl)
";

#[test]
fn a_renamed_thread_is_one_thread_wherever_threads_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("perf.txt");
    fs::write(&file, RENAMED).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let of = |format: &str, list: &str, column: &str| -> Vec<String> {
        let all = json(&converted(format, &file))[list].as_array().unwrap().clone();
        all.iter().map(|one| one[column].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("speedscope", "profiles", "name"), ["perl (15)", "worker (17)"]);
    assert_eq!(of("firefox", "threads", "name"), ["perl", "worker"]);

    let report =
        |arguments: &[&str]| text(&run(sigprof().args(arguments).args(["-o", "-"]).arg(&file)).stdout);
    let page = report(&["report"]);
    let (_, data) = page.split_once(r#"<script id="data" type="application/json">"#).unwrap();
    let data = json(data.split_once("</script>").unwrap().0);
    assert_eq!(data["threads"], serde_json::json!(["not known", "perl (15)", "worker (17)"]));
    let picture = report(&["flamegraph", "--by-thread"]);
    let bottom = picture.lines().filter(|line| line.contains(r#" y="16" "#));
    let bottom: Vec<&str> = bottom.map(|line| line.split("title>").nth(1).unwrap()).collect();
    assert_eq!(bottom, ["perl (30ms, 37.50%)</", "worker (50ms, 62.50%)</"]);
}

#[test]
fn json_for_firefox_has_the_whole_time() {
    let found: serde_json::Value = serde_json::from_str(&converted("firefox", &go())).unwrap();
    assert_eq!(found["meta"]["interval"].as_f64(), Some(10.0));
    let threads = found["threads"].as_array().unwrap();
    let weights = threads.iter().flat_map(|thread| thread["samples"]["weight"].as_array().unwrap());
    let sum: i64 = weights.map(|weight| weight.as_i64().unwrap()).sum();
    assert_eq!(sum, read_file(&go()).unwrap().total(0));
    // Milliseconds and CPU microseconds since the last sample: a processor was always busy.
    for samples in threads.iter().map(|thread| &thread["samples"]) {
        let column = |name: &str| samples[name].as_array().unwrap().iter().map(|one| one.as_f64().unwrap());
        assert!(column("timeDeltas").map(|millis| 1000.0 * millis).eq(column("threadCPUDelta")));
        assert_eq!((&samples["stack"][0], &samples["weight"][0]), (&serde_json::Value::Null, &0.into()));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json.gz");
    run(sigprof().args(["convert", "--to", "firefox", "-o"]).arg(&path).arg(go()));
    assert_eq!(fs::read(&path).unwrap()[..2], [0x1f, 0x8b]);
}

#[test]
fn failed_conversions_report_the_reason_and_keep_the_output() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("text"), "hello, world\n").unwrap();
    fs::write(path("cut"), &fs::read(go()).unwrap()[..200]).unwrap();
    fs::write(path("kept"), "as it was").unwrap();
    let go = go();
    let go = go.to_str().unwrap();
    let [empty, foreign, cut] = ["empty", "text", "cut"].map(path);
    let cases = [
        (vec!["--to=folded", "missing.prof"], "missing.prof: cannot read the profile: No such file"),
        (vec!["--to=folded", &empty], "the file is empty (0 bytes)"),
        (vec!["--to=folded", &foreign], "unrecognised format; supported: "),
        (vec!["--to=folded", &cut], "cannot unpack the gzip data: "),
        (vec!["--to=chrome-trace", go], "have no label end_timestamp_ns; "),
        (vec!["--to=folded", "--sample-type=heap", go], "no sample type `heap`; it has samples, cpu"),
        (vec!["--to=pprof", "-o", "/missing/x.pb.gz", go], "/missing/x.pb.gz: cannot write: No such file"),
        (vec!["--to=pprof", "-o", "/proc/x.pb.gz", go], "/proc/x.pb.gz: cannot write: "),
        (vec!["--to=folded", "-o", "/dev/full", go], "/dev/full: cannot write: No space left"),
    ];
    for (arguments, reason) in cases {
        let output = sigprof().arg("convert").args(&arguments).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
    let output = sigprof().args(["convert", "--to=chrome-trace", "-o", &path("kept"), go]).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(fs::read_to_string(path("kept")).unwrap(), "as it was");
    assert_eq!(sigprof().args(["convert", go]).output().unwrap().status.code(), Some(2));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "nothing is left behind");
}

#[test]
fn negative_values_are_written_only_as_protobuf() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("doubled.prof");
    let arguments = |to: &str| [format!("--to={to}"), "--base".into(), path.display().to_string()];
    // The base is twice the profile.
    run(sigprof().args(["convert", "--to=cpuprofile", "-o"]).arg(&path).args([gperftools(), gperftools()]));
    let found = run(sigprof().arg("convert").args(arguments("pprof")).arg(gperftools())).stdout;
    let profile = read_file(&gperftools()).unwrap();
    assert_eq!(read(&found).unwrap().total(1), -profile.total(1));
    for to in ["folded", "callgrind", "speedscope", "firefox", "cpuprofile"] {
        let output = sigprof().arg("convert").args(arguments(to)).arg(gperftools()).output().unwrap();
        assert!(text(&output.stderr).contains("is negative"), "{to}: {}", text(&output.stderr));
    }
}

#[test]
fn the_example_serves_its_own_profile() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let profiler = sigprof::Profiler::builder().frequency(250).by_thread().start_in_memory().unwrap();
    let thread = std::thread::Builder::new().name("busy".into());
    std::thread::scope(|scope| {
        let work = || work_until_sampled(|| *profiler.snapshot().unwrap().summary());
        thread.spawn_scoped(scope, work).unwrap().join().unwrap();
    });
    std::thread::spawn(move || crate::service::serve(&listener, &profiler));
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = BufReader::new(stream);
        let mut head = String::new();
        while answer.read_line(&mut head).unwrap() > 2 {}
        let mut body = Vec::new();
        answer.read_to_end(&mut body).unwrap();
        (head, body)
    };
    let (head, body) = ask("GET /profile.pb.gz");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let profile = read(&body).unwrap();
    assert_eq!((profile.check(), profile.period), (Ok(()), 4_000_000));
    let is_busy = |labels: &Vec<sigprof_analysis::profile::Label>| {
        labels.iter().any(|one| &*one.key == label::THREAD && one.value == LabelValue::Text("busy".into()))
    };
    assert!(profile.label_sets.iter().any(is_busy), "{:?}", profile.label_sets);
    let names = top_of(&profile);
    assert!(names.keys().any(|name| name.contains("service::work")), "{names:?}");
    let (head, picture) = ask("GET /flamegraph.svg");
    assert!(head.contains("Content-Type: image/svg+xml\r\n"), "{head}");
    let picture = String::from_utf8(picture).unwrap();
    assert!(picture.contains("service::work") && picture.contains("<title>busy"), "{picture}");
    assert!(ask("GET /nothing").0.starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /profile.pb.gz").0.starts_with("HTTP/1.1 405 "));
}
