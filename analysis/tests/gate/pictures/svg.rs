//! Flame graphs as SVG, read back by a reader of XML.

use super::{browser::Browser, fixture};
use serde_json::json;
use sigprof_analysis::{
    error::ErrorKind,
    profile::{Profile, compare, normalize},
    report::flamegraph::{Options, render, write},
};
use std::{collections::HashMap, path::Path, process::Command};

const STACKS: &str = "
    main;parse;read 3
    main;parse 2
    main;parse;read 1
    worker;parse;read 4
    main;read 10
";

/// A box: its name, where it begins and how wide it is, in percent, and the row, counted from the root.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(super) struct Box {
    pub(super) row: usize,
    pub(super) begin: f64,
    pub(super) width: f64,
    pub(super) name: String,
    /// None where it has the style's grey.
    pub(super) fill: Option<String>,
    pub(super) title: String,
    /// What is written in it where no script runs.
    text: String,
}

/// A picture, which is a well-formed document.
fn document(svg: &[u8]) -> roxmltree::Document<'_> {
    roxmltree::Document::parse(std::str::from_utf8(svg).expect("the picture is UTF-8"))
        .expect("the picture is XML")
}

/// The boxes of a picture.
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
    // Rows from the root on, whether that is above or below.
    let root = boxes.iter().find(|one| one.name == "all").expect("the root").row;
    boxes.iter_mut().for_each(|one| one.row = one.row.abs_diff(root) / 16);
    boxes.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    boxes
}

/// What each chain of the profile has with all that it called, in percent: the widths that boxes must have.
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

/// The path of names from the root to each box, by which box it stands on.
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

/// Percentages have six digits behind the point.
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
fn boxes_are_as_wide_as_what_they_stand_for() {
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
            let svg = render(&profile, &Options { is_upward, ..Options::default() }).expect("it is drawn");
            let mut expected = widths(&profile);
            // A control character cannot stand in XML, and a mark that turns the text around would turn what follows, too.
            let shown = |name: &String| name.replace(['\0', '\u{1}', '\u{202e}', '\u{2066}'], "\u{fffd}");
            expected =
                expected.into_iter().map(|(path, width)| (path.iter().map(shown).collect(), width)).collect();
            assert_equal_widths(&paths(&boxes(&svg)), &expected);
        }
    }
}

const LONG: [(&str, &[&str]); 5] = [
    (
        "std::map<std::string, std::vector<int> >::lower_bound(std::string const&) const",
        &["lower_bound", "map::lower_bound", "std::map::lower_bound"],
    ),
    ("<alloc::vec::Vec<u8, alloc::alloc::Global> as core::ops::drop::Drop>::drop", &["drop", "Vec::drop"]),
    ("encoding/json.(*decodeStateOfSomething).valueInterfaceOfIt", &[]),
    ("a_long_name_that_has_no_parts_and_so_is_cut_at_its_right_end", &["a_long_name_that_has…"]),
    ("naïve::𝒻𝓊𝓃𝒸𝓉𝒾ℴ𝓃_of_a_name_with_letters_that_take_two_units", &[]),
];

#[test]
fn a_box_that_is_narrow_keeps_the_function_of_its_name() {
    for (name, expected) in LONG {
        let profile = fixture::profile(&format!("main;{name} 1\nmain;a 2"));
        let mut seen = Vec::new();
        for width in (200..2100).step_by(10) {
            let options = Options { width: Some(width), ..Options::default() };
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
fn the_scripts_shorten_names_as_the_picture_does_without_them() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flame.svg");
    let names = LONG.map(|(name, _)| name);
    let profile = fixture::profile(&names.map(|name| format!("main;{name} 1")).join("\n"));
    browser.resize(900, 400, "light");
    let mut tried = 0;
    for width in (200..3000).step_by(170) {
        let options = Options { width: Some(width), ..Options::default() };
        let svg = render(&profile, &options).expect("it is drawn");
        std::fs::write(&path, &svg).expect("it is written");
        browser.open(&path);
        for one in boxes(&svg).iter().filter(|one| !one.text.is_empty() && one.row == 2) {
            // The room itself depends on the font; a name in as much as it takes is the same name.
            let shortened =
                browser.value(&format!("fitted({}, {}.length)", json!(one.name), json!(one.text)));
            assert_eq!(shortened, json!(one.text), "{}", one.name);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
    // As wide as the window, and zoomed into: the script writes all texts anew.
    let svg = render(&profile, &Options::default()).expect("it is drawn");
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
fn a_huge_name_is_drawn_once_in_a_while() {
    // In each of twenty boxes: a tooltip has its two ends.
    let name = format!("begin{}end", "x".repeat(1 << 18));
    let stacks: String = (0..20).map(|place| format!("main{place};{name} 1\n")).collect();
    let svg = render(&fixture::profile(&stacks), &Options::default()).expect("it is drawn");
    assert!(svg.len() < 2 * name.len(), "{}", svg.len());
    let boxes = boxes(&svg);
    let title = &boxes.iter().find(|one| one.row == 2).expect("a box").title;
    assert!(
        title.starts_with("beginxxx") && title.contains("xxx … xxx") && title.ends_with("xend (10ms, 5.00%)")
    );
}

/// With a look at all that is left for each part that goes, this would take as long as the square of the name's length.
#[test]
fn a_name_of_many_parts_keeps_its_last() {
    let stacks = format!("main;{}last 1\n", "a::".repeat(300_000));
    let svg = render(&fixture::profile(&stacks), &Options::default()).expect("it is drawn");
    let text = String::from_utf8(svg).expect("it is text");
    assert!(text.contains("a::a::last<"), "as many parts as there is room for");
}

#[test]
fn flames_grow_upward_if_that_is_wanted() {
    let profile = fixture::profile(STACKS);
    let y = |is_upward| {
        let svg = render(&profile, &Options { is_upward, ..Options::default() }).expect("it is drawn");
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
fn the_picture_is_the_same_each_time_and_as_it_was() {
    let profile = fixture::profile(STACKS);
    let options = Options { title: Some("small <profile>".into()), width: Some(800), ..Options::default() };
    let mut svg = Vec::new();
    write(&profile, &options, &mut svg).expect("it is written");
    assert_eq!(render(&profile, &options).expect("it is drawn"), svg);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/flamegraph.svg");
    // Scripts are tried in a browser.
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

pub(super) fn compared(new: &Profile, old: &Profile) -> Profile {
    compare((Path::new("new"), new.clone()), (Path::new("old"), old.clone())).expect("they go together")
}

#[test]
fn a_difference_is_red_where_there_is_more_and_blue_where_there_is_less() {
    let base = fixture::profile(
        "main;less;x 900\nmain;more 100\nmain;same 500\nmain;gone 210\nmain;near 100\nmain 300",
    );
    let profile = fixture::profile(
        "main;less;x 200\nmain;more 900\nmain;same 500\nmain;new 100\nmain;near 110\nmain 300",
    );
    let boxes = boxes(&render(&compared(&profile, &base), &Options::default()).expect("it is drawn"));
    let of = |boxes: &[Box], name: &str| {
        boxes.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name}: {boxes:?}")).clone()
    };
    let colour = |name: &str| {
        let fill = of(&boxes, name).fill.unwrap_or_else(|| panic!("{name} has no colour"));
        let number = |place| u8::from_str_radix(&fill[place..place + 2], 16).expect("a colour");
        (number(1), number(3), number(5))
    };
    for name in ["more", "new"] {
        let (red, green, blue) = colour(name);
        assert!(red == 255 && green == blue && blue < 200, "{name}");
    }
    for name in ["less", "x", "gone"] {
        let (red, green, blue) = colour(name);
        assert!(blue == 255 && green == red && red < 200, "{name}");
    }
    // What is new altogether is deeper than what grew.
    assert!(colour("new").1 < colour("more").1);
    // What is the same, or within noise, has no colour.
    for name in ["all", "main", "same", "near"] {
        assert_eq!(of(&boxes, name).fill, None, "{name}");
    }
    // Of both sides, the larger one of each frame's own value.
    let sum = 900.0 + 900.0 + 500.0 + 210.0 + 100.0 + 110.0 + 300.0;
    for (name, width) in [("gone", 210.0), ("more", 900.0), ("less", 900.0), ("near", 110.0), ("main", sum)] {
        assert!((of(&boxes, name).width - 100.0 * width / sum).abs() < 1e-5, "{name}");
    }
    let title = of(&boxes, "more").title;
    assert!(
        title.starts_with("more (old 1s, new 9s: +8s ±") && title.ends_with(", 37.91% of old)"),
        "{title}"
    );

    // Twice as long a base with the same shares is no difference, when totals are made the same.
    let twice = fixture::profile(
        "main;less;x 400\nmain;more 1800\nmain;same 1000\nmain;new 200\nmain;near 220\nmain 600",
    );
    let mut profile = compared(&profile, &twice);
    assert!(normalize(&mut profile));
    let boxes = self::boxes(&render(&profile, &Options::default()).expect("it is drawn"));
    assert!(boxes.iter().all(|one| one.fill.is_none()), "{boxes:?}");
}

/// The longest line below the title that there is: of a difference, with all that can be said of it.
fn differences() -> [Profile; 2] {
    let mut stacks = String::from("main;wide 1000000\n");
    for place in 0..100 {
        stacks += &format!("alone{place} 1\n");
    }
    [fixture::profile(&stacks), fixture::profile("main;wide 900000\nmain;more 7")].map(|mut profile| {
        profile.sample_types[1].kind = "processor time of all threads".into();
        profile
    })
}

#[test]
fn the_line_below_the_title_is_wrapped_in_a_narrow_picture() {
    let [profile, base] = differences();
    let mut whole = None;
    let mut counts = Vec::new();
    for width in [1300, 650, 480, 320, 200] {
        for is_upward in [false, true] {
            let options = Options { width: Some(width), is_upward, ..Options::default() };
            let svg = render(&compared(&profile, &base), &options).expect("it is drawn");
            let text = String::from_utf8(svg).expect("it is text");
            let document = document(text.as_bytes());
            let of = |id: &str| {
                document.descendants().find(|node| node.attribute("id") == Some(id)).expect("it is there")
            };
            let number = |node: roxmltree::Node<'_, '_>, name: &str| -> f64 {
                node.attribute(name).map_or(0.0, |text| text.parse().expect("a number"))
            };
            let subtitle = of("subtitle");
            let texts = subtitle.descendants().filter(roxmltree::Node::is_text);
            let lines: Vec<&str> = texts.filter_map(|node| node.text()).collect();
            // The letters of a monospaced font of 12 pixels are 7.2 wide or a little more.
            let room = (width as f64 - 20.0) / 7.25;
            assert!(lines.iter().all(|line| line.chars().count() as f64 <= room), "{width}: {lines:?}");
            let expected = whole.get_or_insert_with(|| lines.join(" "));
            assert_eq!(lines.join(" "), *expected, "{width}");
            // Those of the title have 17.
            let title = of("title").text().unwrap_or_default().chars().count();
            assert!(title as f64 * 17.0 / 12.0 <= room, "{width}: a title of {title} letters");
            // Nothing is below another thing, and nothing below the picture.
            let last = number(subtitle, "y") + 14.0 * (lines.len() - 1) as f64;
            let frames = of("frames");
            let tops = frames.descendants().filter(|node| node.tag_name().name() == "rect");
            let rows: Vec<f64> = tops.map(|rect| number(frames, "y") + number(rect, "y")).collect();
            let highest = rows.iter().copied().fold(f64::INFINITY, f64::min);
            let lowest = rows.iter().copied().fold(0.0, f64::max) + 16.0;
            let height = number(document.root_element(), "height");
            assert!(
                highest > last + 3.0 && lowest <= height,
                "{width}: {last}, {highest} to {lowest} of {height}"
            );
            for id in ["details", "matched"] {
                let place = number(of(id), "y");
                assert!(place > last + 12.0 && place <= height, "{width}: {id} at {place}");
                assert!(place + 3.0 < highest || place - 10.0 > lowest, "{width}: {id} at {place}");
            }
            let view_box = document.root_element().attribute("viewBox");
            assert_eq!(view_box, Some(&*format!("0 0 {width} {height}")));
            let background = document.root_element().children().find(|node| node.tag_name().name() == "rect");
            assert_eq!(number(background.expect("is there"), "height"), height);
            counts.push(lines.len());
        }
    }
    assert!(whole.is_some_and(|text| { text.ends_with("; 101 frames below 0.01 % are not shown") }));
    assert_eq!((counts[0], counts[1]), (1, 1), "{counts:?}");
    assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]) && counts[8] <= 9, "{counts:?}");

    // A profile may call its values what it likes.
    let mut profile = profile;
    profile.sample_types[1].kind = "a word & ".repeat(5000).into();
    let options = Options { width: Some(320), ..Options::default() };
    let text = String::from_utf8(render(&profile, &options).expect("it is drawn")).expect("it is text");
    assert_eq!((text.matches("<tspan").count(), text.matches(" …</tspan>").count()), (12, 1));
}

#[test]
fn the_line_below_the_title_is_wrapped_as_the_window_is() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flame.svg");
    let [profile, base] = differences();
    // Its lines, how far they are from both sides, and from what is below; how far the picture's end is from the last row.
    let look = "(() => { const title = document.getElementById('subtitle'), box = title.getBoundingClientRect(); \
        const above = document.getElementById('title').getBoundingClientRect(); \
        const rows = Array.from(document.querySelectorAll('#frames rect'), (row) => row.getBoundingClientRect()); \
        const search = document.getElementById('search').getBoundingClientRect(); \
        return [title.children.length, Math.floor(Math.min(above.left, box.left)), \
        Math.floor(Math.min(search.left - above.right, innerWidth - box.right)), \
        Math.floor(Math.min(...rows.map((row) => row.top)) - box.bottom), \
        Math.floor(document.documentElement.getBoundingClientRect().height - Math.max(...rows.map((row) => row.bottom)))]; \
        })()";
    for (is_upward, name) in [(false, "diff"), (true, "diff_upward")] {
        let title = Some("a command with rather more arguments than a telephone has room for".into());
        let mut options = Options { title, is_upward, ..Options::default() };
        std::fs::write(&path, render(&compared(&profile, &base), &options).expect("it is drawn"))
            .expect("written");
        browser.resize(1300, 400, "light");
        browser.open(&path);
        browser.wait("document.getElementById('subtitle').children.length === 1");
        let wide = browser.value(look);
        let mut before = 1;
        for width in [650, 480, 320, 200] {
            browser.resize(width, 400, "light");
            browser.wait(&format!("{look}[0] > {before}"));
            let seen: Vec<i64> = serde_json::from_value(browser.value(look)).expect("numbers");
            assert!(seen[1] >= 0 && seen[2] >= 0 && seen[3] >= 0, "{name} {width}: {seen:?}");
            assert_eq!(json!(seen[4]), wide[4], "{name} {width}: as far as in a wide picture");
            browser.screenshot(&format!("{name}_{width}.png"));
            before = seen[0];
        }
        browser.resize(1300, 400, "light");
        browser.wait(&format!("JSON.stringify({look}) === {}", json!(wide.to_string())));
        browser.assert_quiet();
        // One that keeps its width is not wrapped anew.
        for width in [650, 480, 320] {
            options.width = Some(width);
            let svg = render(&compared(&profile, &base), &options).expect("it is drawn");
            std::fs::write(&path, svg).expect("written");
            browser.resize(u32::try_from(width).expect("small"), 400, "light");
            browser.open(&path);
            browser.settle();
            let seen: Vec<i64> = serde_json::from_value(browser.value(look)).expect("numbers");
            assert!(seen[1..].iter().all(|&distance| distance >= 0), "{name} {width}: {seen:?}");
            browser.screenshot(&format!("{name}_fixed_{width}.png"));
        }
    }
}

#[test]
fn threads_are_outermost_where_they_are_asked_for_and_known() {
    let options = Options { by_thread: true, ..Options::default() };
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
fn what_is_too_narrow_is_said_and_changes_no_width() {
    let mut stacks = String::from("main;wide 1000000\n");
    for place in 0..100 {
        stacks += &format!("main;narrow;n{place} 1\nalone{place} 1\n");
    }
    let svg = render(&fixture::profile(&stacks), &Options::default()).expect("it is drawn");
    let text = String::from_utf8(svg.clone()).expect("it is text");
    // The 100 functions, their caller, and 100 more.
    assert!(text.contains("; 201 frames below 0.01 % are not shown<"));
    let boxes = boxes(&svg);
    let shown: Vec<(&str, f64)> =
        boxes.iter().map(|one| (&*one.name, (one.width * 10_002.0).round())).collect();
    let expected =
        [("all", 1_000_200.0), ("main", 1_000_100.0), ("[too narrow to show]", 100.0), ("wide", 1_000_000.0)];
    assert_eq!(shown, expected);
}

#[test]
fn what_is_too_narrow_in_a_comparison_has_both_sides() {
    let [profile, base] = differences();
    let boxes = boxes(&render(&compared(&base, &profile), &Options::default()).expect("it is drawn"));
    let narrow = boxes.iter().find(|one| one.name == "[too narrow to show]").expect("a box for all of them");
    assert_eq!(narrow.title, "[too narrow to show] (old 1s, new 0: -1s, -0.01% of old)");
}

/// How far the picture is scrolled, and the boxes that are shown, with their widths in percent.
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
        let svg = render(&profile, &Options { is_upward, ..Options::default() }).expect("it is drawn");
        std::fs::write(&path, &svg).expect("it is written");
        browser.open(&path);
        browser.settle();
        // The first screen has the root, and 60 rows do not fit into it.
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
        // The pointer is on it.
        assert_eq!(text(&mut browser, "details"), "parse (40ms, 25.00%)");
        // A caller leads back.
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
fn what_cannot_be_drawn_is_an_error() {
    let profile = fixture::profile(STACKS);
    let fails =
        |profile: &Profile, options: Options| render(profile, &options).expect_err("it cannot be drawn");
    let error = fails(&fixture::profile(""), Options::default());
    assert_eq!(error.to_string(), "all values of cpu are 0");
    let error = fails(&fixture::profile("a -2"), Options::default());
    assert!(
        error.to_string().ends_with("; to compare two profiles use `sigprof flamegraph --diff-base OLD NEW`"),
        "{error}"
    );
    let error = fails(&profile, Options { width: Some(3), ..Options::default() });
    assert_eq!(error.to_string(), "the width must be between 200 and 100000 pixels");
    let error = fails(&profile, Options { sample_type: Some(2), ..Options::default() });
    assert_eq!(error.kind(), ErrorKind::Request);
    let error =
        write(&fixture::profile(""), &Options::default(), &mut Vec::new()).expect_err("it cannot be drawn");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn huge_values_and_deep_chains_are_drawn() {
    let huge = i64::MAX / (fixture::PERIOD * 1_000_000);
    let deep: Vec<String> = (0..4095).map(|depth| format!("f{}", depth % 3)).collect();
    let profile = fixture::profile(&format!("a;b {huge}\na;c {huge}\n{} {huge}\na;tiny 1", deep.join(";")));
    let boxes = boxes(&render(&compared(&profile, &profile), &Options::default()).expect("it is drawn"));
    assert_eq!(boxes.iter().map(|one| one.row).max(), Some(4095));
    assert_eq!(boxes[0].width, 100.0);
    assert!(boxes.iter().all(|one| one.begin >= 0.0 && one.begin + one.width < 100.00001));
    // Sums end at the largest number.
    assert!(boxes[0].title.starts_with("all (old 2562047.79hrs, "), "{}", boxes[0].title);
}

#[test]
fn the_command_writes_a_file_that_is_complete_or_says_why_not() {
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
    // Nothing is left of temporary names.
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
