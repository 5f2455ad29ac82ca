//! Pictures of comparisons: flame graphs as SVG, and the page.

use super::{
    browser::Browser,
    fixture::{self, compared},
    page::{open, place_of, rows_of},
    svg::{Box, boxes, document},
};
use serde_json::json;
use sigprof_analysis::{
    granularity::Granularity,
    profile::{Profile, normalize},
    report::{SourcePaths, flamegraph, page::PageOptions},
};
use std::fs;

#[test]
fn increases_are_red_and_decreases_blue() {
    let base = fixture::profile(
        "main;less;x 900\nmain;more 100\nmain;same 500\nmain;gone 210\nmain;near 100\nmain 300",
    );
    let profile = fixture::profile(
        "main;less;x 200\nmain;more 900\nmain;same 500\nmain;new 100\nmain;near 110\nmain 300",
    );
    let boxes = boxes(
        &flamegraph::render(&compared(&profile, &base), &flamegraph::FlamegraphOptions::default())
            .expect("it is drawn"),
    );
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
    // A new function has a deeper colour than one that grew.
    assert!(colour("new").1 < colour("more").1);
    // Equal values, and differences within noise, have no colour.
    for name in ["all", "main", "same", "near"] {
        assert_eq!(of(&boxes, name).fill, None, "{name}");
    }
    // A frame is as wide as the larger side of its own value.
    let sum = 900.0 + 900.0 + 500.0 + 210.0 + 100.0 + 110.0 + 300.0;
    for (name, width) in [("gone", 210.0), ("more", 900.0), ("less", 900.0), ("near", 110.0), ("main", sum)] {
        assert!((of(&boxes, name).width - 100.0 * width / sum).abs() < 1e-5, "{name}");
    }
    let title = of(&boxes, "more").title;
    assert!(
        title.starts_with("more (old 1s, new 9s: +8s ±") && title.ends_with(", 37.91% of old)"),
        "{title}"
    );

    // A base twice as long with the same shares is equal after normalisation.
    let twice = fixture::profile(
        "main;less;x 400\nmain;more 1800\nmain;same 1000\nmain;new 200\nmain;near 220\nmain 600",
    );
    let mut profile = compared(&profile, &twice);
    assert!(normalize(&mut profile));
    let boxes = self::boxes(
        &flamegraph::render(&profile, &flamegraph::FlamegraphOptions::default()).expect("it is drawn"),
    );
    assert!(boxes.iter().all(|one| one.fill.is_none()), "{boxes:?}");
}

/// Two profiles with the longest possible subtitle.
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
fn the_subtitle_is_wrapped_in_a_narrow_picture() {
    let [profile, base] = differences();
    let mut whole = None;
    let mut counts = Vec::new();
    for width in [1300, 650, 480, 320, 200] {
        for is_upward in [false, true] {
            let options = flamegraph::FlamegraphOptions {
                width: Some(width),
                is_upward,
                ..flamegraph::FlamegraphOptions::default()
            };
            let svg = flamegraph::render(&compared(&profile, &base), &options).expect("it is drawn");
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
            // A letter of the 12-pixel monospaced font is at least 7.2 pixels wide.
            let room = (width as f64 - 20.0) / 7.25;
            assert!(lines.iter().all(|line| line.chars().count() as f64 <= room), "{width}: {lines:?}");
            let expected = whole.get_or_insert_with(|| lines.join(" "));
            assert_eq!(lines.join(" "), *expected, "{width}");
            // The title's font has 17 pixels.
            let title = of("title").text().unwrap_or_default().chars().count();
            assert!(title as f64 * 17.0 / 12.0 <= room, "{width}: a title of {title} letters");
            // Nothing overlaps, and nothing is below the picture.
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

    // A profile's sample type may have any name.
    let mut profile = profile;
    profile.sample_types[1].kind = "a word & ".repeat(5000).into();
    let options =
        flamegraph::FlamegraphOptions { width: Some(320), ..flamegraph::FlamegraphOptions::default() };
    let text =
        String::from_utf8(flamegraph::render(&profile, &options).expect("it is drawn")).expect("it is text");
    assert_eq!((text.matches("<tspan").count(), text.matches(" …</tspan>").count()), (12, 1));
}

#[test]
fn the_subtitle_is_wrapped_to_the_window() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flame.svg");
    let [profile, base] = differences();
    // The number of lines; distances to both sides, to the rows, and of the last row to the end.
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
        let mut options =
            flamegraph::FlamegraphOptions { title, is_upward, ..flamegraph::FlamegraphOptions::default() };
        std::fs::write(&path, flamegraph::render(&compared(&profile, &base), &options).expect("it is drawn"))
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
        // A picture of fixed width is not wrapped again.
        for width in [650, 480, 320] {
            options.width = Some(width);
            let svg = flamegraph::render(&compared(&profile, &base), &options).expect("it is drawn");
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
fn frames_too_narrow_to_show_have_both_sides() {
    let [profile, base] = differences();
    let boxes = boxes(
        &flamegraph::render(&compared(&base, &profile), &flamegraph::FlamegraphOptions::default())
            .expect("it is drawn"),
    );
    let narrow = boxes.iter().find(|one| one.name == "[too narrow to show]").expect("a box for all of them");
    assert_eq!(narrow.title, "[too narrow to show] (old 1s, new 0: -1s, -0.01% of old)");
}

/// Two profiles: one function is gone, one is new, and differences are within and above noise.
fn two_runs() -> [Profile; 2] {
    [
        "main|main@src/main.rs:3;less@src/main.rs:7;x 90\nmain|main@src/main.rs:4;more 10\nworker|main@src/main.rs:3;same 50\n\
         worker|main@src/main.rs:3;gone 21\nmain|main@src/main.rs:3;near 10\nmain|main@src/main.rs:3 30",
        "main|main@src/main.rs:3;less@src/main.rs:7;x 20\nmain|main@src/main.rs:4;more 90\nworker|main@src/main.rs:3;same 50\n\
         worker|main@src/main.rs:3;new 10\nmain|main@src/main.rs:3;near 11\nmain|main@src/main.rs:3 30",
    ]
    .map(fixture::profile)
}

#[test]
fn the_page_of_a_comparison_works_like_any_other() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("src")).expect("a directory");
    fs::write(directory.path().join("src/main.rs"), "\n\n    less();\n    more();\n").expect("a file");
    let source_paths = SourcePaths { directories: vec![directory.path().into()], ..SourcePaths::default() };
    let options = PageOptions { source_paths, ..PageOptions::default() };
    let [old, new] = two_runs();
    let profile = compared(&new, &old);
    browser.resize(1280, 1000, "light");
    open(&mut browser, directory.path(), &profile, &options);
    let facts = browser.text("#facts").replace('\n', " ");
    assert!(facts.ends_with("Total cpu old 2.11s, new 2.11s: 0 ±403.59ms, 0% of old Threads 2"), "{facts}");

    // Both sides, and the difference with its noise, as in the text report.
    let header =
        "Array.from(document.querySelectorAll('#top thead th'), (one) => one.innerText.trim()).join(' ')";
    assert_eq!(browser.value(header), json!("old new diff ▾ ± diff% function"));
    let table = |browser: &mut Browser| -> Vec<String> {
        rows_of(browser, "#top").iter().map(|row| row.replace('\t', " ")).collect()
    };
    let flat = [
        "0.10s 0.90s +0.80s 0.20s 37.91% more",
        "0.90s 0.20s -0.70s 0.21s -33.18% x",
        "0.21s 0 -0.21s 0.09s -9.95% gone",
        "0 0.10s +0.10s 0.07s 4.74% new",
        "0.10s 0.11s +0.01s 0.09s 0.47% near",
        "0.30s 0.30s 0 0.15s 0% main",
        "0.50s 0.50s 0 0.20s 0% same",
    ];
    assert_eq!(table(&mut browser), flat);
    let grey = "Array.from(document.querySelectorAll('#top tr.noise td:last-child'), (one) => one.textContent).join(' ')";
    assert_eq!(browser.value(grey), json!("near main same"));
    assert_eq!(
        browser.text("#top-summary"),
        "Showing 7 of 7 functions. old 2.11s, new 2.11s: 0 ±403.59ms, 0% of old."
    );
    browser.screenshot("page-comparison.png");
    browser.click_on("#significant");
    assert_eq!(table(&mut browser), flat[..4]);
    assert!(browser.text("#top-summary").contains("; 3 within noise are left out."));
    browser.click_on("#with-callees");
    assert_eq!(table(&mut browser)[1..3], ["0.90s 0.20s -0.70s 0.21s -33.18% less", flat[1]]);
    browser.click_on("#significant");
    browser.click_on("#with-callees");
    // By another column.
    browser.click_on("#top thead th:nth-child(1) button");
    assert_eq!(table(&mut browser)[..2], [flat[1], flat[6]]);

    // The selected function: callers, callees and lines.
    browser.click_on("#top tbody tr:nth-child(3) button");
    assert_eq!(browser.text("#function-heading"), "main");
    assert_eq!(
        browser.text("#function-summary"),
        "flat: old 300ms, new 300ms: 0 ±154.33ms, 0% of old; cum: old 2.11s, new 2.11s: 0 ±403.59ms, 0% of old"
    );
    assert_eq!(rows_of(&mut browser, "#callers"), ["0\t±403.59ms\tthe program’s start"]);
    assert_eq!(
        rows_of(&mut browser, "#callees")[..3],
        ["+800ms\t±197.95ms\tmore", "-700ms\t±207.43ms\tless", "-210ms\t±94ms\tgone"]
    );
    let source = browser.text("#source");
    assert!(source.contains("0\t-800ms\t3\t    less();"), "{source}");
    assert!(source.contains(".\t+800ms\t4\t    more();"), "{source}");
    browser.value("scrollTo(0, 0)");
    browser.key("/");
    browser.type_text("^(more|x)$");
    assert_eq!(browser.text("#matches"), "2 functions, old 1s, new 1.10s: +100ms ±285.38ms, 4.74% of old");
    browser.key("Escape");

    // One thread, with both sides; shares are of the whole older profile.
    browser.value(
        "(() => { const s = document.getElementById('thread'); \
         s.value = Array.from(s.options).find((o) => o.text.startsWith('worker')).value; \
         s.dispatchEvent(new Event('change')); })()",
    );
    // Still sorted by the older values.
    let rows = [
        "500ms 500ms 0 197.95ms 0% same",
        "210ms 0 -210ms 94ms -9.95% gone",
        "0 100ms +100ms 67.90ms 4.74% new",
    ];
    assert_eq!(table(&mut browser), rows);
    assert!(browser.text("#top-summary").ends_with("old 710ms, new 600ms: -110ms ±226.04ms, -5.21% of old."));
    browser.assert_quiet();
}

#[test]
fn a_comparison_has_the_boxes_words_and_colours_of_the_flame_graph() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let [old, new] = two_runs();
    let mut profile = compared(&new, &old);
    Granularity::Functions.apply(&mut profile, true);
    let svg = flamegraph::render(&profile, &flamegraph::FlamegraphOptions::default()).expect("it is drawn");
    let mut expected = boxes(&svg);
    browser.resize(1280, 1000, "light");
    open(&mut browser, directory.path(), &profile, &PageOptions::default());
    let found = browser.value(BOXES);
    for one in found.as_array().expect("boxes") {
        let name = one["name"].as_str().expect("a name");
        let place = expected.iter().position(|box_| box_.name == name).unwrap_or_else(|| panic!("no {name}"));
        let in_svg = expected.remove(place);
        assert_eq!(one["words"], json!(in_svg.title));
        assert_eq!(one["row"], json!(in_svg.row), "{name}");
        assert_eq!(one["fill"], json!(in_svg.fill), "{name}");
        let close = |what: &str, percent: f64| (one[what].as_f64().expect("a number") - percent).abs() < 1e-4;
        assert!(close("begin", in_svg.begin) && close("width", in_svg.width), "{one} {in_svg:?}");
    }
    assert!(expected.is_empty(), "{expected:?}");
}

/// Boxes of the graph, in percent of its width, with tooltips as in the flame graph.
const BOXES: &str = r"(() => {
    const profile = new Profile(JSON.parse(document.getElementById('data').textContent));
    const measure = profile.measure(profile.data.chosen, -1);
    const graph = new FlameGraph(profile, { onHeight: () => 0 });
    graph.show(measure);
    const pen = document.createElement('canvas').getContext('2d');
    return graph.rows.flatMap((row, depth) => row.nodes.map((node, place) => {
        const name = graph.nameOf(node);
        const palette = graph.colours.palette();
        const [fill, ink] = graph.colourOf(node, profile.flameFunction[node], false, palette);
        pen.fillStyle = fill;
        return {
            name, row: depth, words: `${name} (${measure.words(measure.whole, node)})`,
            begin: 100 * row.xs[place] / graph.width, width: 100 * row.widths[place] / graph.width,
            fill: ink === palette.dimText ? null : pen.fillStyle,
        };
    }));
})()";

#[test]
fn growth_since_a_base_is_red_and_shrinkage_blue() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let profile = fixture::profile("main;more 3\nmain;less -2");
    open(&mut browser, directory.path(), &profile, &PageOptions::default());
    assert_eq!(
        browser.text("#top-summary"),
        "Showing 3 of 3 functions, accounting for 10ms, 20.00% of 50ms total"
    );
    let rows = rows_of(&mut browser, "#top");
    assert_eq!(rows[1], "-20ms\t-40.00%\t20.00%\t-20ms\t-40.00%\tless");
    // The boxes are as wide as the changes, 2 and 3 of 5, blue and red.
    let colour = |browser: &mut Browser, share: f64| {
        let (x, y) = place_of(browser, 2, share);
        let script = format!(
            "(() => {{ const c = document.getElementById('flame-canvas'); const b = c.getBoundingClientRect(); \
             return Array.from(c.getContext('2d').getImageData({x} - b.x, {y} - b.y + 6, 1, 1).data); }})()"
        );
        let data = browser.value(&script);
        (data[0].as_u64().expect("a number"), data[2].as_u64().expect("a number"))
    };
    let (red, blue) = colour(&mut browser, 0.38);
    assert!(blue > red, "{red} {blue}");
    let (red, blue) = colour(&mut browser, 0.42);
    assert!(red > blue, "{red} {blue}");
    browser.screenshot("page-difference.png");
    browser.assert_quiet();
}
