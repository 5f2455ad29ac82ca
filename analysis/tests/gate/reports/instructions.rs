//! `list` and `disasm` of assembled or compiled objects. Needs binutils-aarch64-linux-gnu, too.

use super::*;

/// Code from the assembler does not depend on a compiler. `work`, at 0x401000, calls `leaf`.
const X86: &str = ".globl work\n.type work,@function\nwork: push %rbp\nmov %rsp,%rbp\nmov $7,%edi\ncall leaf\n\
                   mov counter(%rip),%eax\npop %rbp\nret\n.size work,.-work\n.type leaf,@function\n\
                   leaf: imul %edi,%edi\njnz leaf\nret\n.size leaf,.-leaf\n.bss\n.globl counter\ncounter: .skip 8\n";
const AARCH64: &str = ".globl work\n.type work,%function\nwork: stp x29, x30, [sp, #-16]!\nmov w0, #7\nbl leaf\n\
                       ldp x29, x30, [sp], #16\nret\n.size work,.-work\n.type leaf,%function\n\
                       leaf: mul w0, w0, w0\ncbnz w0, leaf\nret\n.size leaf,.-leaf\n";

/// Assembles a program with its code at 0x401000. Returns a profile with samples at two
/// instructions of `leaf`, once called by itself; offsets count from 0x401000.
fn assembled(directory: &Path, tools: &str, source: &str, leaf: [u64; 2], call: u64) -> String {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    fs::write(path("code.s"), source).unwrap();
    let run = |tool: &str, arguments: &[&str]| {
        let status = Command::new(format!("{tools}{tool}")).args(arguments).current_dir(directory).status();
        let status =
            status.unwrap_or_else(|error| panic!("{tools}{tool}: {error}; install Debian's binutils for it"));
        assert!(status.success(), "{tools}{tool} {arguments:?}");
    };
    run("as", &["code.s", "-o", "code.o"]);
    run(
        "ld",
        &["code.o", "-o", "program", "-Ttext=0x401000", "-Tbss=0x403000", "-e", "work", "--build-id=none"],
    );

    let mut builder = Builder::new(Profile::cpu_types());
    let mapping = builder.mapping(Mapping {
        // The kernel's choice of address.
        start: 0x5000_1000,
        end: 0x5000_2000,
        file_offset: 0x1000,
        file: path("program").into(),
        build_id: "".into(),
        is_deleted: false,
        is_moved: false,
        process: None,
        has: Known::default(),
    });
    let mut at = |offset: u64| builder.location(Some(mapping), 0x5000_1000 + offset);
    let (first, second, caller) = (at(leaf[0]), at(leaf[1]), at(call));
    for (chain, count) in [(&[first, caller][..], 3), (&[second, caller], 5), (&[first, second, caller], 1)] {
        builder.profile.samples.push(
            chain,
            &[count, count * 10_000_000],
            sigprof_analysis::profile::LabelSetId(0),
        );
    }
    let profile = path("cpu.pb.gz");
    pprof::write(&builder.finish(), File::create(&profile).unwrap()).unwrap();
    profile
}

#[test]
fn disasm_shows_instructions() {
    let directory = tempfile::tempdir().unwrap();
    let profile = assembled(directory.path(), "x86_64-linux-gnu-", X86, [0x16, 0x19], 0xd);
    for (name, arguments) in [
        ("disasm", &["disasm", "work|leaf"][..]),
        ("disasm_intel", &["disasm", "--intel-syntax", "work"]),
        ("disasm_address", &["disasm", "0x401017"]),
    ] {
        let text = report(&[arguments, &[&profile]].concat());
        expect_golden(name, &[arguments, &["FILE"]].concat(), &text);
    }
    // The process's address shows the same as the file's.
    let of_process = report(&["disasm", "0x50001017", &profile]);
    assert_eq!(of_process, report(&["disasm", "0x401017", &profile]));

    fs::remove_file(directory.path().join("program")).unwrap();
    let output = sigprof(&["disasm", "0x401017", &profile]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// One of two functions with the same name in a file has no first line.
#[test]
fn a_listing_starts_at_the_first_line_that_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("two.c");
    let text: String = (1..=60).map(|line| format!("line {line}\n")).collect();
    fs::write(&source, text).unwrap();
    for first_lines in [[40, 0], [0, 40]] {
        let mut builder = Builder::new(Profile::cpu_types());
        for (start_line, place) in first_lines.into_iter().zip(0..) {
            let file = source.to_str().unwrap().into();
            let system_name = format!("two{start_line}").into();
            let function = builder.function(Function { name: "two".into(), system_name, file, start_line });
            let lines = vec![Line { function, line: 42, column: 0 }];
            builder.profile.locations.push(Location { lines, ..Location::default() });
            builder.profile.samples.push(&[LocationId(place)], &[1, 10], LabelSetId(0));
        }
        let path = directory.path().join("two.pb.gz");
        pprof::write(&builder.finish(), File::create(&path).unwrap()).unwrap();
        let text = report(&["list", "^two$", path.to_str().unwrap()]);
        assert!(text.contains("line 40\n") && !text.contains("line 1\n"), "{text}");
        assert!(!text.contains("line 36\n"), "{text}");
    }
}

/// A function that is only inlined: its instructions at the call, and its source.
#[test]
fn functions_that_are_only_inlined_are_listed_and_disassembled() {
    let fixture = crate::symbols::support::Fixture::new();
    let program = fixture.c("program", "-g");
    let start = crate::symbols::support::symbol(&program, "outer");
    // A multiplication, a store and a load belong to `inner`; after them `outer` adds and returns.
    let addresses: Vec<u64> = (start..start + 18).collect();
    let (profile, _) = crate::symbols::support::profile(&program, &addresses);
    let path = fixture.path("cpu.pb.gz");
    pprof::write(&profile, File::create(&path).unwrap()).unwrap();
    let path = path.to_str().unwrap();
    let text = report(&["disasm", "^inner$", path]);
    let title = "ROUTINE ======================== inner, inlined into outer\n";
    assert!(text.contains(title) && text.contains("program.c:3"), "{text}");
    assert!(!text.contains(" ret"), "{text}");
    // Its time is that of its instructions.
    let whole = report(&["disasm", "^outer$", path]);
    assert!(whole.contains(" ret") && !whole.contains("inlined into"), "{whole}");
    let of = |text: &str| {
        let line = text.lines().find(|line| line.contains("(flat, cum)")).unwrap();
        line.split_whitespace().next().unwrap().trim_end_matches("ns").parse::<i64>().unwrap()
    };
    let sum = |text: &str| {
        let rows = text
            .lines()
            .skip(3)
            .filter_map(|line| line.split_whitespace().next()?.strip_suffix("ns")?.parse::<i64>().ok());
        rows.sum::<i64>()
    };
    assert!(of(&text) == sum(&text) && of(&text) < of(&whole) && of(&text) > 0, "{text}{whole}");
    assert!(report(&["list", "^inner$", path]).contains("sink = x * 3"));
    let both = report(&["disasm", "^(inner|outer)$", path]);
    assert_eq!(both.matches("ROUTINE").count(), 2, "{both}");
}

/// Names from the profile, and names that are looked up.
#[test]
fn no_demangle_shows_the_linkers_names() {
    const MANGLED: &str = "_ZN5shape4areaEv";
    const WRITTEN: &str = "shape::area()";
    let directory = tempfile::tempdir().unwrap();
    let looked_up = X86.replace("leaf", MANGLED);
    let looked_up = assembled(directory.path(), "x86_64-linux-gnu-", &looked_up, [0x16, 0x19], 0xd);
    let mut named = profile(&[(&[MANGLED, "main"], 30, vec![])]);
    named.functions[0].name = WRITTEN.into();
    let (_directory, named) = saved(&named);
    let svg = directory.path().join("graph.svg");
    let svg = svg.to_str().unwrap();

    let everywhere: [&[&str]; 12] = [
        &["top"],
        &["tree"],
        &["peek", "area"],
        &["traces"],
        &["callgraph"],
        &["callgraph", "--format", "dot"],
        &["raw"],
        &["flamegraph", "-o", "-"],
        &["report", "-o", "-"],
        &["convert", "--to", "folded"],
        &["convert", "--to", "callgrind"],
        &["convert", "--to", "speedscope"],
    ];
    let mut cases: Vec<(&[&str], &str)> = Vec::new();
    for report in everywhere {
        cases.extend([(report, &*looked_up), (report, &*named)]);
    }
    cases.extend([(&["disasm", "area"][..], &*looked_up), (&["list", "area"], &named)]);
    for (arguments, path) in cases {
        let written = report(&[arguments, &[path]].concat());
        let mangled = report(&[arguments, &["--no-demangle", path]].concat());
        // A picture has marks in names.
        let has =
            |text: &str, name: &str| text.contains(name) || text.contains(&name.replace("::", ":\u{200b}:"));
        assert!(has(&written, WRITTEN), "{arguments:?} {path}: {written}");
        assert!(has(&mangled, MANGLED) && !has(&mangled, WRITTEN), "{arguments:?} {path}: {mangled}");
        if arguments != ["raw"] {
            assert!(!has(&written, MANGLED), "{arguments:?} {path}: {written}");
        }
    }

    // A format that keeps both names gets the linker's.
    for path in [&looked_up, &named] {
        let read = |options: &[&str]| {
            let output = directory.path().join("converted.pb.gz");
            let to = ["convert", "--to", "pprof", "-o", output.to_str().unwrap(), path];
            report(&[&to, options].concat());
            let profile = sigprof_analysis::formats::read_file(&output).unwrap();
            let function = profile.functions.iter().find(|function| &*function.system_name == MANGLED);
            function.expect("is there").name.to_string()
        };
        assert_eq!((read(&[]), read(&["--no-demangle"])), (WRITTEN.to_owned(), MANGLED.to_owned()));
    }

    // Expressions match the shown names.
    for path in [&*looked_up, &named] {
        report(&["peek", "--no-demangle", "^_ZN5shape", path]);
        failure(&["peek", "^_ZN5shape", path]);
        failure(&["peek", "--no-demangle", "shape::", path]);
        let focused = report(&["traces", "--no-demangle", "--focus", "^_ZN5shape", path]);
        assert!(focused.contains(MANGLED), "{focused}");
    }
    report(&["flamegraph", "--no-demangle", "--diff-base", &named, "-o", svg, &named]);
    assert!(fs::read_to_string(svg).unwrap().contains(MANGLED));
}

#[test]
fn disasm_of_other_machines_uses_objdump() {
    let directory = tempfile::tempdir().unwrap();
    let profile = assembled(directory.path(), "aarch64-linux-gnu-", AARCH64, [0x14, 0x18], 0xb);
    let text = report(&["disasm", "leaf|work", &profile]);
    expect_golden("disasm_aarch64", &["disasm", "leaf|work", "FILE"], &text);

    let output = command(&["disasm", "leaf", &profile]).env("PATH", "/nonesuch").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no objdump can disassemble"), "{error}");
    assert!(error.contains("binutils-aarch64-linux-gnu"), "{error}");
}
