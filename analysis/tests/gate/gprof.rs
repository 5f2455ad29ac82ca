//! Reports of gprof: equal to those of GNU gprof, for programs that gcc compiled with `-pg`.

use crate::skip::{Lack, skip};
use sigprof_analysis::formats::gmon::{Block, FileFormat, Gmon, Layout};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const X86_64: Layout = Layout { is_big_endian: false, is_64_bit: true };

/// Options of reports without explanations, which differ.
const REPORTS: &[&str] = &[
    "-b",
    "-b -z",
    "-b -p",
    "-b -p -z",
    "-b -q",
    "-b -q -z",
    "-b -Q",
    "-b -P",
    "-b -P -Q",
    "-b -q -w 40",
    "-b -q -w 10 -z",
    "-b -a",
    "-b -a -z",
    "-b -D",
    "-b -D -z",
    "-i",
    "-b -pmain",
    "-b -Pmain",
    "-b -p -Pmain -q",
    "-b -pwork -C",
    "-b -qmain -z",
    "-b -Qwork",
    "-b -qmain/work",
    "-b -Qmain/work",
    "-b -qrecursion.c:fib -precursion.c",
    "-b -precursion.c:10",
    "-b -pmissing -qmissing",
    "-bC",
    "-b -Cwork -z",
    "-b -Zmain -z",
    "-b -p -q -C -T -c -z",
    "-bT",
    "-b -T -q -a -z",
    "-b -c",
    "-b -c -z",
    "-b -k main/work",
    "-b -e main -E work",
    "-b -f main -F work",
    "-b -n work -N main",
    "-b --no-time=main --graph=work",
    "-b -p -P",
    "-b -P -Qmain -Q",
    "-b -i -C",
    "-b -l",
    "-b -l -z",
    "-b -l -L -q",
    "-b -l -T -C -z",
    "-b -l -p6 -q",
    "-b -A",
    "-b -A -l",
    "-b -A -l -x -z -t 3",
    "-b -A -m 100 -t 0 -p",
    "-b -Arecursion.c:fib",
    "-b -Jmain -z",
];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/gprof").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compiles a program and runs it, which writes `gmon.out`. `words` are the compiler, its options,
/// and names of sources.
fn build(words: &str, directory: &Path) {
    let mut words = words.split(' ');
    let mut compiler = Command::new(words.next().expect("a compiler"));
    for word in words {
        if (word.ends_with(".c") || word.ends_with(".cc")) && !word.starts_with("./") {
            compiler.arg(source(word));
        } else {
            compiler.arg(word);
        }
    }
    let output = compiler.args(["-pg", "-o", "prog"]).current_dir(directory).output().expect("gcc starts");
    assert!(output.status.success(), "{compiler:?}: {}", text(&output.stderr));
    let output = Command::new("./prog").current_dir(directory).output().expect("the program starts");
    assert!(output.status.success(), "{compiler:?}: {output:?}");
}

/// Reads the data that the program wrote.
fn data(directory: &Path) -> Gmon {
    let bytes = fs::read(directory.join("gmon.out")).expect("it was written");
    let mut gmon = Gmon::default();
    gmon.read(&bytes, X86_64, FileFormat::Auto).expect("glibc wrote it");
    gmon
}

fn write(gmon: &Gmon, name: &str, directory: &Path) {
    let mut bytes = Vec::new();
    gmon.write(X86_64, &mut bytes).expect("the values fit");
    fs::write(directory.join(name), bytes).expect("it can be written");
}

fn sigprof(options: &str, directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
    command.arg("gprof").args(options.split(' ')).current_dir(directory).output().expect("the command starts")
}

#[track_caller]
fn succeeds(options: &str, directory: &Path) -> String {
    let output = sigprof(options, directory);
    assert!(output.status.success(), "{options}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the message of a command that exits with status 1.
#[track_caller]
fn fails(options: &str, directory: &Path) -> String {
    let output = sigprof(options, directory);
    assert_eq!(output.status.code(), Some(1), "{options}: {output:?}");
    text(&output.stderr)
}

/// True if GNU gprof is installed in the version that the reports are like.
fn has_gprof() -> bool {
    let Ok(output) = Command::new("gprof").arg("--version").output() else {
        skip(Lack::Tool, "gprof of binutils is not installed");
        return false;
    };
    let version = text(&output.stdout);
    let version = version.lines().next().unwrap_or_default();
    if !version.ends_with(" 2.40") {
        skip(Lack::System, format!("{version}: the reports are like those of 2.40"));
        return false;
    }
    true
}

/// Compares reports of `prog` and `data` with those of GNU gprof.
fn compare(reports: &[&str], operands: &str, directory: &Path) {
    for options in reports {
        let words = format!("{options} {operands}");
        let mut gprof = Command::new("gprof");
        let expected = gprof.args(words.split(' ')).current_dir(directory).output().expect("gprof starts");
        let found = sigprof(&format!("--compat {words}"), directory);
        assert_eq!(found.status.code(), expected.status.code(), "{options}: {}", text(&found.stderr));
        let (found, expected) = (text(&found.stdout), text(&expected.stdout));
        let differing = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
        assert!(found == expected, "{options}: {differing:?}\n{expected}\n{found}");
    }
}

/// Compares the reports of a program.
fn compare_program(compiler: &str) {
    if has_gprof() {
        let directory = tempfile::tempdir().expect("a temporary folder");
        build(compiler, directory.path());
        compare(REPORTS, "prog gmon.out", directory.path());
    }
}

#[test]
fn recursion_without_optimization() {
    compare_program("gcc -O0 -g recursion.c");
}

#[test]
fn recursion_with_fentry() {
    compare_program("gcc -O2 -g -mfentry recursion.c");
}

#[test]
fn recursion_at_fixed_addresses() {
    compare_program("gcc -O3 -no-pie recursion.c");
}

#[test]
fn recursion_in_a_static_program() {
    compare_program("gcc -O2 -g -static recursion.c");
}

#[test]
fn many_cycles() {
    compare_program("gcc -O1 graph.c");
}

#[test]
fn static_functions_of_the_same_name() {
    compare_program("gcc -O1 -g statics_a.c statics_b.c");
}

#[test]
fn symbols_of_all_kinds() {
    compare_program("gcc -O2 -g names.c");
}

#[test]
fn callbacks_signal_handlers_and_threads() {
    compare_program("gcc -O1 -g -pthread callbacks.c");
}

#[test]
fn a_program_with_a_shared_library() {
    if !has_gprof() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary folder");
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-O1", "-pg", "-o", "libshared.so"]).arg(source("shared_library.c"));
    assert!(compiler.current_dir(directory.path()).status().expect("gcc starts").success());
    build("gcc -O1 -g shared_main.c -L. -lshared -Wl,-rpath,$ORIGIN", directory.path());
    compare(REPORTS, "prog gmon.out", directory.path());
}

#[test]
fn classes_and_templates() {
    if !has_gprof() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary folder");
    build("g++ -O2 -g -std=c++17 -pthread classes.cc", directory.path());
    // The demanglers print some templates differently, and GNU gprof misplaces functions of headers.
    let reports = REPORTS.iter().filter(|options| !options.contains(['C', 'Z', 'A', 'J', 'l']));
    let reports: Vec<String> = reports.map(|options| format!("{options} --no-demangle")).collect();
    let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
    compare(&reports, "prog gmon.out", directory.path());
    let names = succeeds("-b -p prog", directory.path());
    assert!(names.contains("  over(double)\n"), "{names}");
    // Symspecs match printed names and paths.
    for (option, rows) in [("-p=over(double)", 1), ("-p=over", 3), ("-p=gprof/classes.cc:over", 3)] {
        let options = format!("-b {} prog", option.replace('=', ""));
        let flat = succeeds(&options, directory.path());
        assert_eq!(flat.lines().filter(|line| line.contains("  over(")).count(), rows, "{option}: {flat}");
        assert_eq!(flat.lines().skip_while(|line| !line.ends_with("name    ")).count(), rows + 1, "{flat}");
    }
}

#[test]
fn several_files_and_their_sum() {
    if !has_gprof() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    build("gcc -O1 recursion.c", directory);
    compare(&["-b", "-i"], "prog gmon.out gmon.out gmon.out", directory);

    // More samples and calls than a record can have.
    let mut gmon = data(directory);
    let bins = &mut gmon.histograms[0].bins;
    let middle = bins.len() - 100;
    bins[middle] = 300_000;
    gmon.arcs.iter_mut().for_each(|arc| arc.count *= 1 << 22);
    write(&gmon, "large", directory);
    compare(&["-b"], "prog large", directory);

    assert_eq!(succeeds("--sum prog large gmon.out", directory), "");
    compare(&["-b"], "prog gmon.sum", directory);
    let both = succeeds("-b prog large gmon.out", directory);
    assert_eq!(succeeds("-b -p prog gmon.sum", directory), both.split('\x0c').next().expect("a part"));
    // The sum can be one of its parts.
    succeeds("-s prog gmon.sum gmon.out", directory);
    let sum = succeeds("-b -p prog gmon.sum", directory);
    assert_eq!(sum, succeeds("-b -p prog large gmon.out gmon.out", directory));
}

#[test]
fn data_without_samples_or_calls() {
    if !has_gprof() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    build("gcc -O1 recursion.c", directory);
    let mut gmon = data(directory);
    let all = gmon.clone();
    for (name, has_samples, has_calls) in
        [("calls", false, true), ("samples", true, false), ("none", false, false)]
    {
        gmon.histograms = if has_samples { all.histograms.clone() } else { Vec::new() };
        gmon.arcs = if has_calls { all.arcs.clone() } else { Vec::new() };
        write(&gmon, name, directory);
        compare(&["-b", "-b -p", "-b -q", "-b -P", "-b -Q"], &format!("prog {name}"), directory);
    }
    assert!(fails("-p prog calls", directory).contains("no samples"));
    assert!(fails("-q prog samples", directory).contains("no calls"));
    let graph = succeeds("-q prog calls", directory);
    assert!(graph.contains("  fib [") && !graph.contains("nan"), "{graph}");
}

#[test]
fn executions_of_basic_blocks() {
    if !has_gprof() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    build("gcc -O0 -g -no-pie recursion.c", directory);
    let mut gmon = data(directory);
    let nm = Command::new("nm").arg("prog").current_dir(directory).output().expect("nm starts");
    let nm = text(&nm.stdout);
    let address = |name: &str| {
        let line = nm.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("a symbol");
        u64::from_str_radix(&line[..16], 16).expect("an address")
    };
    for (name, offset, count) in [
        ("fib", 0, 3),
        ("fib", 1, 0),
        ("work", 30, 1_234_567),
        ("work", 31, 98_765),
        ("main", 0, 0),
        ("main", 60, 7),
    ] {
        gmon.blocks.push(Block { address: address(name) + offset, count });
    }
    gmon.blocks.extend((0..12).map(|offset| Block { address: address("even") + offset, count: offset }));
    write(&gmon, "blocks", directory);
    let reports =
        ["-b -l -C", "-b -l -C -z", "-b -C", "-b -l -A", "-b -l -A -x", "-b -l -A -m 100", "-b -A", "-i"];
    compare(&reports, "prog blocks", directory);
    // GNU gprof forgets those after the tenth.
    let counts = succeeds("-b -l -C prog blocks", directory);
    assert!(counts.contains(&format!(":{:#x}) 11 executions", address("even") + 11)), "{counts}");
}

/// In optimized functions, the `-pg` runtime can record an address after the first line.
#[test]
fn calls_belong_to_functions_also_by_line() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    build("gcc -O3 -g recursion.c", directory);
    let with_calls = |options: &str, name_column: usize| {
        let flat = succeeds(options, directory);
        let rows = flat.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        let rows = rows.filter(|row| row.get(5).is_some_and(|value| value.parse::<f64>().is_ok()));
        rows.map(|row| row[name_column].to_owned()).collect::<BTreeSet<_>>()
    };
    let functions = with_calls("-b -p prog", 6);
    assert!(functions.len() >= 10, "{functions:?}");
    assert_eq!(with_calls("-b -l -p prog", 6), functions);
    let graph = succeeds("-b -l -q prog", directory);
    for function in functions {
        let entry =
            graph.lines().find(|line| line.starts_with('[') && line.contains(&format!(" {function} (")));
        assert!(entry.is_some(), "{function}: {graph}");
    }
}

#[test]
fn sources_in_other_directories_and_files() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    for folder in ["moved", "built"] {
        fs::create_dir(directory.join(folder)).expect("it can be made");
    }
    let program = "int f(void) { return 1; }\nint main(void) { return f() - 1; }\n";
    fs::write(directory.join("built/own.c"), program).expect("it can be written");
    build("gcc -O0 -g ./built/own.c", directory);
    let usual = succeeds("-A prog", directory);
    assert!(
        usual.contains("own.c:\n           1 -> int f(void) { return 1; }\n       ##### -> int main("),
        "{usual}"
    );
    assert!(usual.contains("\n        1   Lines executed\n    50.00   Percent of the file"), "{usual}");

    fs::rename(directory.join("built/own.c"), directory.join("moved/own.c")).expect("it can be moved");
    let output = sigprof("-A prog", directory);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let message = text(&output.stderr);
    assert!(message.contains("own.c: the source is missing; name its directory with -I"), "{message}");
    assert_eq!(succeeds("-A -I built:moved prog", directory), usual);
    assert_eq!(succeeds("-A -y -I moved prog", directory), "");
    let written = fs::read_to_string(directory.join("own.c-ann")).expect("it was written");
    assert_eq!(usual.split_once(":\n").map(|(_, text)| text), Some(written.as_str()));

    // Two sources of a name.
    fs::write(directory.join("moved/own.c"), "int f(void) { return 1; }\n").expect("it can be written");
    let program = "int f(void);\nint g(void) { return f(); }\nint main(void) { return g() - 1; }\n";
    fs::write(directory.join("built/own.c"), program).expect("it can be written");
    build("gcc -O0 -g ./moved/own.c ./built/own.c", directory);
    assert_eq!(succeeds("-A -y prog", directory), "");
    let written = fs::read_to_string(directory.join("own.c-ann")).expect("it was written");
    for part in ["moved/own.c:\n", "1 -> int f(void) { return 1; }\n", "built/own.c:\n", "1 -> int g(void)"] {
        assert!(written.contains(part), "{part}: {written}");
    }
}

#[test]
fn reports_are_true_where_gnu_gprof_is_wrong() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    build("gcc -O2 names.c", directory);
    let report = succeeds("prog", directory);
    // A copy of a function, bins of 4 bytes, and one of the explanations.
    for part in ["copied.constprop.0 [", "each sample hit covers 4 byte(s)", "<spontaneous>: the callers"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(!succeeds("-b prog", directory).contains("are unknown"));

    build("gcc -O0 -g recursion.c", directory);
    // Calls of functions at lower addresses.
    let graph = succeeds("-b -q -c -z prog", directory);
    let entry = graph.split("-----------").find(|entry| entry.contains(" __do_global_dtors_aux ["));
    assert!(entry.is_some_and(|entry| entry.contains(" deregister_tm_clones [")), "{graph}");
    // A function that the flat profile omits keeps its time in the call graph.
    let all = succeeds("-b prog", directory);
    let parts = succeeds("-b -q -pfib prog", directory);
    assert_eq!(parts.split('\x0c').nth(1), all.split('\x0c').nth(1));
}

/// glibc's bins of this program are not a whole number of units.
#[test]
fn times_add_up_to_the_samples() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    build("gcc -O1 recursion.c", directory);
    let mut gmon = data(directory);
    // 100 samples in each bin of the last 512 bytes, which are code of functions.
    let bins = &mut gmon.histograms[0].bins;
    bins.fill(0);
    let length = bins.len();
    bins[length - 128..].fill(100);
    write(&gmon, "uniform", directory);
    let flat = succeeds("-b -p prog uniform", directory);
    let rows = flat.lines().skip(5).map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let (mut percent, mut seconds): (f64, f64) = (0.0, 0.0);
    for row in rows {
        percent += row[0].parse::<f64>().expect("a number");
        seconds += row[2].parse::<f64>().expect("a number");
    }
    // Rows have two decimals; the last bins may be beyond the code.
    assert!((percent - 100.0).abs() < 0.3, "{percent}: {flat}");
    assert!(seconds < 128.1 && seconds > 125.0, "{seconds}: {flat}");
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let directory = directory.path();
    build("gcc -O0 statics_a.c statics_b.c", directory);
    assert!(fails("missing", directory).contains("missing: cannot read the program: No such file"));
    assert!(fails("prog missing", directory).contains("missing: cannot read the profile: No such file"));
    assert!(fails("gmon.out", directory).contains("gmon.out: not a valid ELF file"));
    assert!(fails("-pmissing prog", directory).contains("no function matches `missing`; `sigprof gprof"));
    assert!(
        fails("-k main/missing prog", directory).contains("no function matches `missing` of `main/missing`")
    );
    assert!(fails("-k main prog", directory).contains("`main` is not of the form FROM/TO"));
    assert!(fails("prog prog", directory).contains("prog: this is not a gmon.out file"));
    fs::write(directory.join("empty"), b"").expect("it can be written");
    assert!(fails("empty", directory).contains("empty: the file is empty"));
    let bytes = fs::read(directory.join("gmon.out")).expect("it was written");
    fs::write(directory.join("cut"), &bytes[..bytes.len() - 1]).expect("it can be written");
    assert!(fails("prog cut", directory).contains("cut: at offset"));
    let stripped = Command::new("strip").args(["-o", "stripped", "prog"]).current_dir(directory).status();
    assert!(stripped.expect("strip starts").success());
    assert!(fails("stripped", directory).contains("stripped: the file has no symbols; link"));
}
