//! Flame graphs as SVG, read by an XML parser.

use super::{browser::Browser, fixture};
use serde_json::json;
use sigprof_analysis::{
    error::ErrorKind,
    profile::Profile,
    report::flamegraph::{FlamegraphOptions, render, write},
};
use std::{collections::HashMap, path::Path, process::Command};

const STACKS: &str = "
    main;parse;read 3
    main;parse 2
    main;parse;read 1
    worker;parse;read 4
    main;read 10
";

/// A box: its row from the root; begin and width in percent; name.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(super) struct Box {
    pub(super) row: usize,
    pub(super) begin: f64,
    pub(super) width: f64,
    pub(super) name: String,
    /// `None` for the style's grey.
    pub(super) fill: Option<String>,
    pub(super) title: String,
    /// The text without scripts.
    text: String,
}

/// Parses a picture, which must be well-formed.
pub(super) fn document(svg: &[u8]) -> roxmltree::Document<'_> {
    roxmltree::Document::parse(std::str::from_utf8(svg).expect("the picture is UTF-8"))
        .expect("the picture is XML")
}

pub(super) fn boxes(svg: &[u8]) -> Vec<Box> {
    let document = document(svg);
    let frames =
        document.descendants().find(|node| node.attribute("id") == Some("frames")).expect("it has frames");
    let mut boxes = Vec::new();
    for group in frames.children().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "g"))) {
        let child = |tag| group.children().find(|node| node.tag_name().name() == tag).expect("each has one");
        let title = child("title").text().expect("a title").to_owned();
        let rect = child("rect");
        let number = |name: &str| -> f64 {
            let text = rect.attribute(name).expect("an attribute");
            text.trim_end_matches('%').parse().expect("a number")
        };
        let y: usize = rect.attribute("y").expect("a place").parse().expect("a number");
        let (name, _) = title.rsplit_once(" (").expect("a value");
        let name = name.to_owned();
        let fill = rect.attribute("fill").map(str::to_owned);
        assert_eq!(rect.attribute("class"), fill.is_none().then_some("plain"));
        let text = child("text").text().unwrap_or_default().to_owned();
        boxes.push(Box { text, row: y, begin: number("x"), width: number("width"), name, fill, title });
    }
    // Rows count from the root, whether that is above or below.
    let root = boxes.iter().find(|one| one.name == "all").expect("the root").row;
    boxes.iter_mut().for_each(|one| one.row = one.row.abs_diff(root) / 16);
    boxes.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    boxes
}

/// Returns the cumulative percentage of each chain, which is its box's width.
fn widths(profile: &Profile) -> HashMap<Vec<String>, f64> {
    let mut widths = HashMap::new();
    for sample in profile.samples.iter() {
        let mut path = Vec::new();
        *widths.entry(path.clone()).or_insert(0) += sample.values[1];
        for id in sample.chain.iter().rev() {
            path.push(profile.function(profile.location(*id).lines[0].function).name.to_string());
            *widths.entry(path.clone()).or_insert(0) += sample.values[1];
        }
    }
    let total = profile.total(1) as f64;
    widths.into_iter().map(|(path, width)| (path, 100.0 * width as f64 / total)).collect()
}

/// Returns the width of each box by the names from the root to the box.
fn paths(boxes: &[Box]) -> HashMap<Vec<String>, f64> {
    let mut paths = HashMap::new();
    for one in boxes {
        let middle = one.begin + one.width / 2.0;
        let path: Vec<String> = (1..=one.row)
            .map(|row| {
                let around = boxes.iter().find(|other| {
                    other.row == row && other.begin <= middle && middle < other.begin + other.width
                });
                around.expect("each stands on another").name.clone()
            })
            .collect();
        assert!(paths.insert(path, one.width).is_none(), "two boxes for one path: {one:?}");
    }
    paths
}

/// Percentages have six decimals.
fn assert_equal_widths(found: &HashMap<Vec<String>, f64>, expected: &HashMap<Vec<String>, f64>) {
    let is_close = |(path, width): (&Vec<String>, &f64)| {
        found.get(path).is_some_and(|found| (found - width).abs() < 1e-5)
    };
    assert!(
        found.len() == expected.len() && expected.iter().all(is_close),
        "{found:#?} and not {expected:#?}"
    );
}

#[test]
fn boxes_are_as_wide_as_their_values() {
    let names = [
        "operator new[](unsigned long) 7",
        "<[u8; 4] as a::B<'_>>::c",
        "--",
        "x_[k]",
        "# 1",
        "a&b\"\u{1}",
        "f1",
        "]]></script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "nul\0l",
        "\u{202e}drawkcab\u{2066}",
        "a  b",
    ];
    let mut odd = String::new();
    for (count, name) in names.iter().enumerate() {
        odd += &format!("main;{};leaf {}\n", name.replace(';', "\\s"), count + 1);
        odd += &format!("{} 2\n", name.replace(';', "\\s"));
    }
    for stacks in [STACKS, odd.as_str(), "a b;c 1\na 2\na;c 4\na b 8\n"] {
        let profile = fixture::profile(stacks);
        for is_upward in [false, true] {
            let svg = render(&profile, &FlamegraphOptions { is_upward, ..FlamegraphOptions::default() })
                .expect("it is drawn");
            let mut expected = widths(&profile);
            // XML cannot contain control characters; bidirectional marks would affect other text.
            let shown = |name: &String| name.replace(['\0', '\u{1}', '\u{202e}', '\u{2066}'], "\u{fffd}");
            expected =
                expected.into_iter().map(|(path, width)| (path.iter().map(shown).collect(), width)).collect();
            assert_equal_widths(&paths(&boxes(&svg)), &expected);
        }
    }
}

const LONG: [(&str, &[&str]); 7] = [
    (
        "std::map<std::string, std::vector<int> >::lower_bound(std::string const&) const",
        &["lower_bound", "map::lower_bound", "std::map::lower_bound"],
    ),
    ("<alloc::vec::Vec<u8, alloc::alloc::Global> as core::ops::drop::Drop>::drop", &["drop", "Vec::drop"]),
    ("encoding/json.(*decodeStateOfSomething).valueInterfaceOfIt", &[]),
    ("a_long_name_that_has_no_parts_and_so_is_cut_at_its_right_end", &["a_long_name_that_has…"]),
    ("[a_library_with_a_long_name.so.5.4.1]+0x123456", &["+0x123456", "+0x123…"]),
    ("[a_library_with_a_long_name.so.2]+0xthis_is_not_a_number", &["[a_library_with…"]),
    ("naïve::𝒻𝓊𝓃𝒸𝓉𝒾ℴ𝓃_of_a_name_with_letters_that_take_two_units", &[]),
];

#[test]
fn narrow_boxes_keep_the_function_of_the_name() {
    for (name, expected) in LONG {
        let profile = fixture::profile(&format!("main;{name} 1\nmain;a 2"));
        let mut seen = Vec::new();
        for width in (200..2100).step_by(10) {
            let options = FlamegraphOptions { width: Some(width), ..FlamegraphOptions::default() };
            let boxes = boxes(&render(&profile, &options).expect("it is drawn"));
            let narrow = boxes.iter().find(|one| one.name == name).expect("the function");
            assert_eq!(narrow.title, format!("{name} (10ms, 33.33%)"));
            seen.push(narrow.text.clone());
        }
        assert_eq!(seen.last().map(String::as_str), Some(name));
        for text in expected {
            assert!(seen.iter().any(|seen| seen == text), "{text}: {seen:?}");
        }
    }
}

#[test]
fn the_script_shortens_names_like_the_renderer() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flame.svg");
    let names = LONG.map(|(name, _)| name);
    let profile = fixture::profile(&names.map(|name| format!("main;{name} 1")).join("\n"));
    browser.resize(1260, 400, "light");
    let mut tried = 0;
    for width in (200..3000).step_by(170) {
        let options = FlamegraphOptions { width: Some(width), ..FlamegraphOptions::default() };
        let svg = render(&profile, &options).expect("it is drawn");
        std::fs::write(&path, &svg).expect("it is written");
        browser.open(&path);
        for one in boxes(&svg).iter().filter(|one| !one.text.is_empty() && one.row == 2) {
            // The room depends on the font. In the room of a shortened name the result is the same.
            let shortened =
                browser.value(&format!("fitted({}, {}.length)", json!(one.name), json!(one.text)));
            assert_eq!(shortened, json!(one.text), "{}", one.name);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
    // As wide as the window, and zoomed: the script rewrites all texts.
    let svg = render(&profile, &FlamegraphOptions::default()).expect("it is drawn");
    std::fs::write(&path, &svg).expect("it is written");
    browser.open(&path);
    browser.settle();
    let text = |name: &str| {
        format!(
            "Array.from(document.querySelectorAll('#frames > g')).find((box) => box.querySelector('title').textContent\
             .startsWith({})).querySelector('text').textContent",
            json!(name)
        )
    };
    assert_eq!(browser.value(&text(names[0])), json!("std::map::lower_bound"));
    browser.screenshot("flamegraph.png");
    browser.value(&format!("zoom(boxes.find((box) => box.name.startsWith({})))", json!(names[0])));
    assert_eq!(browser.value(&text(names[0])), json!(names[0]));
    browser.assert_quiet();
}

#[test]
fn huge_names_do_not_multiply_the_size() {
    // Twenty boxes with a name of 256 KiB. A tooltip has its two ends.
    let name = format!("begin{}end", "x".repeat(1 << 18));
    let stacks: String = (0..20).map(|place| format!("main{place};{name} 1\n")).collect();
    let svg = render(&fixture::profile(&stacks), &FlamegraphOptions::default()).expect("it is drawn");
    assert!(svg.len() < 2 * name.len(), "{}", svg.len());
    let boxes = boxes(&svg);
    let title = &boxes.iter().find(|one| one.row == 2).expect("a box").title;
    assert!(
        title.starts_with("beginxxx") && title.contains("xxx … xxx") && title.ends_with("xend (10ms, 5.00%)")
    );
}

/// Linear in the name's length, not quadratic.
#[test]
fn a_name_of_many_parts_keeps_its_last_part() {
    let stacks = format!("main;{}last 1\n", "a::".repeat(300_000));
    let svg = render(&fixture::profile(&stacks), &FlamegraphOptions::default()).expect("it is drawn");
    let text = String::from_utf8(svg).expect("it is text");
    assert!(text.contains("a::a::last<"), "as many parts as there is room for");
}

#[test]
fn flames_grow_upward_on_request() {
    let profile = fixture::profile(STACKS);
    let y = |is_upward| {
        let svg = render(&profile, &FlamegraphOptions { is_upward, ..FlamegraphOptions::default() })
            .expect("it is drawn");
        let svg = String::from_utf8(svg).expect("it is text");
        let y = |name: &str| {
            let after = svg.split(&format!("<title>{name} (")).nth(1).expect("the box");
            let number = after.split(" y=\"").nth(1).expect("a place").split('"').next().expect("its end");
            number.parse::<u32>().expect("a number")
        };
        (y("all"), y("worker"))
    };
    let (root, child) = y(false);
    assert!(root < child);
    let (root, child) = y(true);
    assert!(root > child);
}

#[test]
fn the_picture_is_reproducible_and_matches_the_golden_file() {
    let profile = fixture::profile(STACKS);
    let options = FlamegraphOptions {
        title: Some("small <profile>".into()),
        width: Some(800),
        ..FlamegraphOptions::default()
    };
    let mut svg = Vec::new();
    write(&profile, &options, &mut svg).expect("it is written");
    assert_eq!(render(&profile, &options).expect("it is drawn"), svg);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/flamegraph.svg");
    // A browser tests the scripts.
    let text = String::from_utf8(svg).expect("it is text");
    let (before, rest) = text.split_once("<script>").expect("a script");
    let text = before.to_owned() + rest.split_once("</script>").expect("its end").1;
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).expect("the golden file is written");
    }
    assert_eq!(
        text,
        std::fs::read_to_string(&path).expect("the golden file"),
        "BLESS=1 rewrites {}",
        path.display()
    );
}

#[test]
fn threads_are_outermost_on_request_if_known() {
    let options = FlamegraphOptions { by_thread: true, ..FlamegraphOptions::default() };
    let profile = fixture::profile("first|main;work 3\nsecond|main;work 1\nmain 2");
    let boxes = boxes(&render(&profile, &options).expect("it is drawn"));
    let rows: Vec<(usize, &str, f64)> =
        boxes.iter().map(|one| (one.row, &*one.name, (one.width * 0.6).round() / 10.0)).collect();
    assert_eq!(
        rows,
        [
            (0, "all", 6.0),
            (1, "first", 3.0),
            (1, "main", 2.0),
            (1, "second", 1.0),
            (2, "main", 3.0),
            (2, "main", 1.0),
            (3, "work", 3.0),
            (3, "work", 1.0)
        ]
    );
    let error = render(&fixture::profile("main 2"), &options).expect_err("there are none");
    assert!(error.to_string().starts_with("samples have no threads; "), "{error}");
}

#[test]
fn reports_frames_too_narrow_to_show_and_keeps_widths() {
    let mut stacks = String::from("main;wide 1000000\n");
    for place in 0..100 {
        stacks += &format!("main;narrow;n{place} 1\nalone{place} 1\n");
    }
    let svg = render(&fixture::profile(&stacks), &FlamegraphOptions::default()).expect("it is drawn");
    let text = String::from_utf8(svg.clone()).expect("it is text");
    // 100 functions, their caller, and 100 roots.
    assert!(text.contains("; 201 frames below 0.01 % are not shown<"));
    let boxes = boxes(&svg);
    let shown: Vec<(&str, f64)> =
        boxes.iter().map(|one| (&*one.name, (one.width * 10_002.0).round())).collect();
    let expected =
        [("all", 1_000_200.0), ("main", 1_000_100.0), ("[too narrow to show]", 100.0), ("wide", 1_000_000.0)];
    assert_eq!(shown, expected);
}

/// The scroll position, and the shown boxes with their widths in percent.
const SHOWN: &str = "[Math.round(scrollY), boxes.filter((box) => !box.element.classList.contains('hidden'))\
    .map((box) => `${box.name} ${Math.round(parseFloat(box.rect.getAttribute('width')))}`).join(', ')]";

#[test]
fn a_picture_is_zoomed_and_searched_in_a_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flame.svg");
    let deep: Vec<String> = (0..60).map(|depth| format!("deep{depth}")).collect();
    let profile = fixture::profile(&format!(
        "main;parse;read 3\nmain;parse;skip 1\nmain;{} 4\nother 8",
        deep.join(";")
    ));
    browser.resize(900, 400, "light");
    for is_upward in [false, true] {
        let svg = render(&profile, &FlamegraphOptions { is_upward, ..FlamegraphOptions::default() })
            .expect("it is drawn");
        std::fs::write(&path, &svg).expect("it is written");
        browser.open(&path);
        browser.settle();
        // The first screen has the root; 60 rows do not fit.
        let place = "document.querySelector('#frames > g > rect').getBoundingClientRect().y";
        let y = browser.value(place).as_f64().expect("a number");
        assert!((0.0..384.0).contains(&y), "{y}");
        let at_root = browser.value("scrollY > 500");
        assert_eq!(at_root, json!(is_upward));

        let text = |browser: &mut Browser, id: &str| {
            let text = browser.value(&format!("document.getElementById('{id}').textContent.trim()"));
            text.as_str().expect("a text").to_owned()
        };
        let find = |name: &str| format!("boxes.find((box) => box.name === '{name}')");
        let click = |browser: &mut Browser, name: &str| {
            let script = format!(
                "(() => {{ const b = {}.rect.getBoundingClientRect(); return [b.x + b.width / 2, b.y + 8]; }})()",
                find(name)
            );
            let at = browser.value(&script);
            browser.click(at[0].as_f64().expect("a number"), at[1].as_f64().expect("a number"));
        };
        click(&mut browser, "parse");
        assert_eq!(browser.value(SHOWN)[1], json!("all 100, main 100, parse 100, read 75, skip 25"));
        assert_eq!(text(&mut browser, "details"), "parse (40ms, 25.00%)");
        // A click on a caller zooms out.
        click(&mut browser, "main");
        assert!(
            browser.value(SHOWN)[1]
                .as_str()
                .is_some_and(|shown| shown.starts_with("all 100, main 100, deep0 50"))
        );
        browser.key("Escape");
        let whole = browser.value(SHOWN);
        assert!(
            whole[1].as_str().is_some_and(|shown| shown.starts_with("all 100, main 50, deep0 25")),
            "{whole}"
        );

        // `read` and `skip` are part of `parse`, and not counted again.
        browser.value("window.prompt = () => 'parse|read|skip|other'");
        browser.key("/");
        assert_eq!(text(&mut browser, "matched"), "Matched: 75.00% ✕");
        let matching = "boxes.filter((box) => box.element.classList.contains('match')).length";
        assert_eq!(browser.value(matching), json!(4));
        browser.value("window.prompt = () => '('");
        browser.key("/");
        let said = text(&mut browser, "matched");
        assert!(said.contains("nterminated group"), "{said}");
        browser.key("Escape");
        assert_eq!((browser.value(matching), text(&mut browser, "matched")), (json!(0), String::new()));
        browser.assert_quiet();
    }
}

#[test]
fn profiles_that_cannot_be_drawn_are_errors() {
    let profile = fixture::profile(STACKS);
    let fails = |profile: &Profile, options: FlamegraphOptions| {
        render(profile, &options).expect_err("it cannot be drawn")
    };
    let error = fails(&fixture::profile(""), FlamegraphOptions::default());
    assert_eq!(error.to_string(), "all values of cpu are 0");
    let error = fails(&fixture::profile("a -2"), FlamegraphOptions::default());
    assert!(
        error.to_string().ends_with("; to compare two profiles use `sigprof flamegraph --diff-base OLD NEW`"),
        "{error}"
    );
    let error = fails(&profile, FlamegraphOptions { width: Some(3), ..FlamegraphOptions::default() });
    assert_eq!(error.to_string(), "the width must be between 200 and 100000 pixels");
    let error = fails(&profile, FlamegraphOptions { sample_type: Some(2), ..FlamegraphOptions::default() });
    assert_eq!(error.kind(), ErrorKind::Request);
    let error = write(&fixture::profile(""), &FlamegraphOptions::default(), &mut Vec::new())
        .expect_err("it cannot be drawn");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn huge_values_and_deep_chains_are_drawn() {
    let huge = i64::MAX / (fixture::PERIOD * 1_000_000);
    let deep: Vec<String> = (0..4095).map(|depth| format!("f{}", depth % 3)).collect();
    let profile = fixture::profile(&format!("a;b {huge}\na;c {huge}\n{} {huge}\na;tiny 1", deep.join(";")));
    let boxes = boxes(
        &render(&fixture::compared(&profile, &profile), &FlamegraphOptions::default()).expect("it is drawn"),
    );
    assert_eq!(boxes.iter().map(|one| one.row).max(), Some(4095));
    assert_eq!(boxes[0].width, 100.0);
    assert!(boxes.iter().all(|one| one.begin >= 0.0 && one.begin + one.width < 100.00001));
    // Sums saturate at the largest number.
    assert!(boxes[0].title.starts_with("all (old 2562047.79hrs, "), "{}", boxes[0].title);
}

#[test]
fn the_command_writes_a_complete_file_or_reports_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let input = directory.path().join("in.prof");
    let file = std::fs::File::create(&input).expect("it is made");
    sigprof_analysis::formats::pprof::write(&fixture::profile(STACKS), file).expect("it is written");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
        command.current_dir(directory.path()).args(arguments).output().expect("the command runs")
    };
    for (command, begin) in [("flamegraph", "<?xml"), ("report", "<!doctype html>")] {
        let output = run(&[command, "-o", "out", "in.prof"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"");
        let written = std::fs::read_to_string(directory.path().join("out")).expect("it is there");
        assert!(written.starts_with(begin), "{written}");
        let output = run(&[command, "-o", "-", "in.prof"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), written);

        let output = run(&[command, "-o", "missing/out", "in.prof"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("sigprof: missing/out: cannot write: No such file"), "{said}");
        let output = run(&[command, "-o", ".", "in.prof"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("sigprof: .: cannot write: is a directory"), "{said}");
    }
    // No temporary files are left.
    let mut names: Vec<_> = std::fs::read_dir(directory.path())
        .expect("it is read")
        .map(|one| one.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["in.prof", "out"]);
    let output = run(&["flamegraph", "--focus", "worker", "-o", "-", "in.prof"]);
    assert_eq!(boxes(&output.stdout)[0].title, "all (40ms, 100%)");
    let output = run(&["flamegraph", "--diff", "in.prof", "-o", "-", "in.prof"]);
    assert!(boxes(&output.stdout).iter().all(|one| one.fill.is_none()));
}
