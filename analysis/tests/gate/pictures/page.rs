//! The page in a browser, used like a person does.

use super::{browser::Browser, fixture};
use serde_json::json;
use sigprof_analysis::{
    profile::{LabelSetId, LocationId, MappingId, Profile},
    report::{
        SourcePaths, flamegraph,
        page::{PageOptions, render},
    },
};
use std::{fs, path::Path};

const STACKS: &str = "
    main|main@src/main.rs:10;parse@src/main.rs:3;read_line@src/read.rs:2 3
    main|main@src/main.rs:11;parse@src/main.rs:4;read_line@src/read.rs:2 1
    main|main@src/main.rs:11;parse@src/main.rs:4 2
    worker|start;run<alloc::vec::Vec<u8>>@src/main.rs:7;compress@src/read.rs:5;compress@src/read.rs:5 10
    worker|start;run<alloc::vec::Vec<u8>>@src/main.rs:7;compress@src/read.rs:5 4
";

/// Writes the page of a profile and opens it.
pub(super) fn open(browser: &mut Browser, directory: &Path, profile: &Profile, options: &PageOptions) {
    let path = directory.join("page.html");
    fs::write(&path, render(profile, options)).expect("the page is written");
    browser.open(&path);
}

/// Returns the window's position of a box, by its depth and its share of the width.
pub(super) fn place_of(browser: &mut Browser, depth: u32, share: f64) -> (f64, f64) {
    let place = browser.value(&format!(
        "(() => {{ const b = document.getElementById('flame-space').getBoundingClientRect(); const row = b.height / \
         Math.round(b.height / 19); return [b.x + b.width * {share}, b.y + row * ({depth} + 0.5)]; }})()"
    ));
    (place[0].as_f64().expect("a number"), place[1].as_f64().expect("a number"))
}

/// Returns a table's rows: the cells' texts, with complete names, separated by tabs.
pub(super) fn rows_of(browser: &mut Browser, selector: &str) -> Vec<String> {
    let rows = browser.value(&format!(
        "Array.from(document.querySelectorAll('{selector} tbody tr'), (row) => \
         Array.from(row.cells, (cell) => cell.textContent).join('\\t'))"
    ));
    rows.as_array().expect("rows").iter().map(|row| row.as_str().expect("a row").into()).collect()
}

#[test]
fn the_page_works_with_mouse_and_keyboard_and_loads_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("src")).expect("a directory");
    fs::write(directory.path().join("src/main.rs"), "fn main() {\n    // <b>not bold</b>\n    read();\n}\n")
        .expect("a file");
    let source_paths = SourcePaths { directories: vec![directory.path().into()], ..SourcePaths::default() };
    let options = PageOptions { source_paths, ..PageOptions::default() };
    let profile = fixture::profile(STACKS);
    browser.resize(1280, 1000, "light");
    open(&mut browser, directory.path(), &profile, &options);

    // The header and the table have the values of a text report: 20 samples of 10 ms.
    assert_eq!(browser.text("#title"), "program");
    let facts = browser.text("#facts").replace('\n', " ");
    for fact in [
        "Date 2026-09-21",
        "Duration 2s",
        "Samples 20",
        "Total cpu 200ms (10.00% of the duration)",
        "Threads 2",
    ] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    assert!(browser.text("#comments").contains("2 ticks were lost"));
    assert_eq!(
        browser.text("#top-summary"),
        "Showing 6 of 6 functions, accounting for 200ms, 100% of 200ms total"
    );
    let rows = rows_of(&mut browser, "#top");
    let row = |place: usize| rows[place].replace('\t', " ");
    assert_eq!(row(0), "140ms 70.00% 70.00% 140ms 70.00% compress");
    assert_eq!(row(1), "40ms 20.00% 90.00% 40ms 20.00% read_line");
    assert_eq!(row(2), "20ms 10.00% 100% 60ms 30.00% parse");
    let (colours, drawn) = browser.canvas_colours();
    assert!(colours > 8 && drawn > 20_000, "{colours} colours at {drawn} points");
    browser.screenshot("page-light-1280.png");

    // Recursive calls count once, and are not among the callers and callees.
    browser.click_on("#top tbody tr:nth-child(1) td:last-child button");
    assert_eq!(rows_of(&mut browser, "#callers"), ["140ms\t100%\trun<alloc::vec::Vec<u8>>"]);
    assert_eq!(rows_of(&mut browser, "#callees"), ["none: all of it is its own"]);
    assert_eq!(browser.text("#source tbody"), "140ms\t140ms\t5\t");
    browser.value("scrollTo(0, 0)");

    // A click on a box zooms: `parse` is the left one of the third row.
    let (x, y) = place_of(&mut browser, 2, 0.1);
    browser.click(x, y);
    assert_eq!(browser.text("#path").replace('\n', " "), "all › main › parse");
    assert_eq!(browser.text("#function-heading"), "parse");
    assert_eq!(browser.text("#function-summary"), "flat 20ms (10.00%), cum 60ms (30.00%)");
    assert_eq!(rows_of(&mut browser, "#callers"), ["60ms\t100%\tmain"]);
    assert_eq!(rows_of(&mut browser, "#callees"), ["40ms\t66.67%\tread_line"]);
    assert!(browser.text("#tip").contains("60ms, 30.00% of the total"), "{}", browser.text("#tip"));
    // Source lines with values: 3 of 20 samples at line 3, as many at line 4.
    let source = browser.text("#source");
    assert!(source.contains("src/main.rs"), "{source}");
    assert!(source.contains(".\t30ms\t3\t    read();"), "{source}");
    assert!(source.contains("20ms\t30ms\t4\t}"), "{source}");
    assert!(source.contains("// <b>not bold</b>"), "{source}");
    // `parse` is as wide as the graph; the rest of its row is its own time.
    let (x, y) = place_of(&mut browser, 3, 0.6);
    browser.click(x, y);
    assert_eq!(browser.text("#path").replace('\n', " "), "all › main › parse › read_line");
    browser.click_on("#reset");
    assert_eq!(browser.text("#path"), "all");
    assert_eq!(browser.value("document.getElementById('reset').disabled"), json!(true));

    // The keyboard does the same: down to the widest callee, zoom, and out again.
    browser.key("ArrowDown");
    let label = "document.getElementById('flame-focus').getAttribute('aria-label')";
    assert_eq!(browser.value(label), json!("start; 140ms, 70.00% of the total; 0 of its own"));
    browser.key("ArrowLeft");
    assert_eq!(browser.value(label), json!("main; 60ms, 30.00% of the total; 0 of its own"));
    browser.key("Enter");
    assert_eq!(browser.text("#path").replace('\n', " "), "all › main");
    assert_eq!(
        browser.value("document.activeElement.getAttribute('aria-activedescendant')"),
        json!("flame-focus")
    );
    browser.key("Escape");
    assert_eq!(browser.text("#path"), "all");

    // The slash key starts a search.
    browser.key("/");
    browser.type_text("^re|pars");
    assert_eq!(browser.text("#matches"), "2 functions, 60ms, 30.00% of the total");
    assert_eq!(browser.value("document.querySelectorAll('#top tbody tr').length"), json!(2));
    browser.screenshot("page-search.png");
    browser.type_text("(");
    assert!(browser.text("#matches").contains("nterminated group"), "{}", browser.text("#matches"));
    assert_eq!(
        browser.value("document.getElementById('search').getAttribute('aria-invalid')"),
        json!("true")
    );
    browser.key("Escape");
    assert_eq!(browser.text("#matches"), "");
    // Upper case makes the search case-sensitive.
    browser.type_text("PARSE");
    assert_eq!(browser.text("#matches"), "0 functions, 0, 0% of the total");
    browser.key("Escape");
    browser.type_text("::vec<");
    assert_eq!(browser.text("#matches"), "1 function, 140ms, 70.00% of the total");
    browser.key("Escape");

    // Sorted by another column, and back.
    browser.click_on("#top thead th:nth-child(4) button");
    assert_eq!(
        browser.value("document.querySelector('#top tbody tr td:last-child').innerText"),
        json!("compress")
    );
    assert_eq!(browser.value("document.querySelector('#top th:nth-child(4)').ariaSort"), json!("descending"));
    browser.click_on("#top thead th:nth-child(4) button");
    assert_eq!(
        browser.value("document.querySelector('#top tbody tr td:last-child').innerText"),
        json!("read_line")
    );
    browser.click_on("#top tbody tr:nth-child(1) td:last-child button");
    assert_eq!(browser.text("#function-heading"), "read_line");

    // One thread, and the other type.
    let choose = |id: &str, text: &str| {
        format!(
            "(() => {{ const s = document.getElementById('{id}'); \
             s.value = Array.from(s.options).find((o) => o.text.startsWith('{text}')).value; \
             s.dispatchEvent(new Event('change')); }})()"
        )
    };
    assert_eq!(browser.text("#thread").replace('\n', ","), "all threads,worker · 70.00%,main · 30.00%");
    browser.value(&choose("thread", "main"));
    assert!(
        browser.text("#top-summary").ends_with("60ms, 100% of 60ms total"),
        "{}",
        browser.text("#top-summary")
    );
    browser.value(&choose("type", "samples"));
    assert!(browser.text("#top-summary").ends_with("6, 100% of 6 total"), "{}", browser.text("#top-summary"));

    // The buttons for the theme and the direction.
    let ground = "getComputedStyle(document.body).backgroundColor";
    assert_eq!(browser.value(ground), json!("rgb(255, 255, 255)"));
    browser.click_on("#theme");
    assert_eq!(browser.value(ground), json!("rgb(20, 23, 27)"));
    browser.click_on("#theme");
    assert_eq!(browser.value(ground), json!("rgb(255, 255, 255)"));
    browser.click_on("#direction");
    assert_eq!(browser.value("document.getElementById('direction').ariaPressed"), json!("true"));
    browser.assert_quiet();
}

#[test]
fn the_page_follows_the_systems_theme_and_fits_a_phone() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let profile = fixture::profile(STACKS);
    for (width, theme, ground) in [
        (1280, "dark", "rgb(20, 23, 27)"),
        (400, "light", "rgb(255, 255, 255)"),
        (400, "dark", "rgb(20, 23, 27)"),
    ] {
        browser.resize(width, 1000, theme);
        open(&mut browser, directory.path(), &profile, &PageOptions::default());
        assert_eq!(browser.value("getComputedStyle(document.body).backgroundColor"), json!(ground));
        // The page never scrolls sideways.
        assert_eq!(browser.value("document.documentElement.scrollWidth"), json!(width));
        let (colours, drawn) = browser.canvas_colours();
        assert!(colours > 8 && drawn > 5_000, "{colours} colours at {drawn} points");
        browser.screenshot(&format!("page-{theme}-{width}.png"));
        let contrasts = browser.value(CONTRASTS);
        for (what, contrast) in contrasts.as_object().expect("pairs") {
            assert!(contrast.as_f64().expect("a number") >= 4.5, "{what} in {theme}: {contrast}");
        }
    }
    browser.assert_quiet();
}

/// WCAG 2.1 contrasts of texts and backgrounds; for boxes, the least.
const CONTRASTS: &str = r"(() => {
    const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 })
        .getContext('2d', { willReadFrequently: true });
    const light = (colour) => {
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b] = Array.from(pen.getImageData(0, 0, 1, 1).data, (part) =>
            part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => {
        const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
    };
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    const found = {};
    for (const [ink, ...grounds] of [['text', 'ground', 'raised', 'bar'], ['muted', 'ground', 'raised', 'bar'],
        ['accent', 'ground', 'raised', 'bar'], ['error', 'ground', 'raised'], ['flame-match', 'ground', 'raised'],
        ['flame-match-text', 'flame-match'], ['flame-dim-text', 'flame-dim']]) {
        for (const ground of grounds) found[`${ink} on ${ground}`] = contrast(value(ink), value(ground));
    }
    let boxes = Infinity;
    for (const hue of HUES) {
        for (const turn of [-4, 0, 4]) {
            for (const shade of [-2, 2]) {
                const fill = `hsl(${hue + turn} ${value('flame-saturation')} ${parseFloat(value('flame-lightness')) + shade}%)`;
                boxes = Math.min(boxes, contrast(value('flame-text'), fill));
            }
        }
    }
    for (const share of [-1, -0.5, 0, 0.5, 1]) {
        const colours = new Colours({ names: [] });
        boxes = Math.min(boxes, contrast(...colours.change(share, colours.palette())));
    }
    found['text on boxes'] = boxes;
    return found;
})()";

#[test]
fn names_are_shown_as_text_not_as_markup() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let name = "</script x></script><img src=x onerror=alert(1)><!--<script>&amp;{{script}}";
    let mut profile = fixture::profile(&format!("{0};leaf 3\n{0} 1", name.replace(';', "\\s")));
    profile.comments = vec![name.into()];
    let options = PageOptions { title: Some(name.into()), ..PageOptions::default() };
    open(&mut browser, directory.path(), &profile, &options);
    assert_eq!(browser.value("document.title"), json!(name));
    assert_eq!(browser.text("#title"), name);
    assert_eq!(browser.text("#comments li"), name);
    let names = browser
        .value("Array.from(document.querySelectorAll('#top td:last-child'), (cell) => cell.textContent)");
    assert_eq!(names, json!(["leaf", name]));
    assert_eq!(browser.value("document.images.length"), json!(0));
    assert_eq!(browser.value("document.scripts.length"), json!(2));
    browser.assert_quiet();
}

#[test]
fn odd_and_huge_names_do_not_affect_other_text() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let huge = format!("a::b<{}>::last({})", "x".repeat(1 << 20), "y".repeat(1 << 20));
    let image = "\"><img src=x onerror=alert(1)>";
    let mut profile = fixture::profile(&format!("\u{202e}back\u{2066} 4\nnul\0l 3\n{huge} 2\n{image} 1"));
    profile.comments = vec!["\u{202e}back".into()];
    let options = PageOptions { title: Some("\u{202e}back".into()), ..PageOptions::default() };
    browser.resize(800, 600, "light");
    open(&mut browser, directory.path(), &profile, &options);
    assert_eq!(browser.text("#title"), "\u{fffd}back");
    assert_eq!(browser.text("#comments li"), "\u{fffd}back");
    let rows = rows_of(&mut browser, "#top");
    let names: Vec<&str> = rows.iter().map(|row| row.rsplit_once('\t').expect("cells").1).collect();
    assert_eq!([names[0], names[1], names[3]], ["\u{fffd}back\u{fffd}", "nul\u{fffd}l", image]);
    // Only the visible part of a huge name is laid out; it has the function.
    assert!(names[2].contains("…last(yyy") && names[2].len() < 2000, "{}", names[2].len());
    assert_eq!(browser.value("document.documentElement.scrollWidth"), json!(800));
    // The complete name is shown for the selected function, in a box that scrolls.
    browser.click_on("#top tbody tr:nth-child(3) button");
    assert_eq!(
        browser.value("document.getElementById('function-heading').textContent.length"),
        json!(huge.len())
    );
    assert_eq!(browser.value("document.getElementById('function-heading').clientHeight < 150"), json!(true));
    assert_eq!(browser.value("document.images.length"), json!(0));
    browser.assert_quiet();
}

#[test]
fn long_names_and_deep_stacks_keep_the_layout() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let name = |function: &str| {
        format!(
            "acme::storage::engine::Index<std::basic_string<char>, std::vector<long, std::allocator<long> > >::{function}\
             (std::function<void (std::basic_string<char> const&, long&)> const&, unsigned long) const"
        )
    };
    let trunk: Vec<String> = (0..30).map(|depth| format!("common{depth}")).collect();
    let deep: Vec<String> = (0..60).map(|depth| name(&format!("level{depth}"))).collect();
    let profile = fixture::profile(&format!(
        "{0};{1};{2} 3\n{0};{3} 2\n{0} 1",
        trunk.join(";"),
        deep.join(";"),
        name("insert_or_assign"),
        name("lower_bound")
    ));
    for (width, height) in [(1280, 800), (1920, 1080), (800, 600), (400, 800)] {
        browser.resize(width, height, "light");
        open(&mut browser, directory.path(), &profile, &PageOptions::default());
        browser.settle();
        assert_eq!(browser.value("document.documentElement.scrollWidth"), json!(width));
        // The first screen shows a part of the table, and the graph's frame at which chains part.
        let top = browser.value("document.getElementById('top-heading').getBoundingClientRect().top");
        assert!(top.as_f64().expect("a number") < f64::from(height) - 20.0, "{top} of {height}");
        if width > 1000 {
            let third = "document.querySelectorAll('#top tbody tr')[2].getBoundingClientRect().bottom";
            let third = browser.value(third);
            assert!(third.as_f64().expect("a number") < f64::from(height), "{third} of {height}");
        }
        let label = "(() => { const box = document.getElementById('flame'); const area = box.getBoundingClientRect(); \
            box.dispatchEvent(new PointerEvent('pointermove', { clientX: area.x + 40, clientY: area.y + 6 + 19 })); \
            return document.getElementById('flame-details').textContent; })()";
        assert_eq!(browser.value(label), json!("common29; 60ms, 100% of the total; 10ms of its own"));
        // A name has one line; the function is not cut off.
        let names = browser.value(
            "Array.from(document.querySelectorAll('#top .name'), (name) => { const least = name.querySelector('.least'); \
             return [name.title, least.textContent, least.scrollWidth <= least.clientWidth, name.clientHeight < 30, \
             name.getBoundingClientRect().right <= innerWidth]; })",
        );
        assert_eq!(names[0], json!([name("insert_or_assign"), "insert_or_assign", true, true, true]));
        assert_eq!(names[1], json!([name("lower_bound"), "lower_bound", true, true, true]));
        browser.screenshot(&format!("page-long-{width}.png"));
        // Nothing below moves when a frame is pointed at, selected or zoomed into.
        let place = "document.getElementById('top-heading').getBoundingClientRect().top + scrollY";
        let before = browser.value(place);
        browser.value("document.getElementById('flame').focus()");
        for key in ["ArrowDown", "ArrowDown", "Enter", "ArrowDown", "Enter", "Escape"] {
            browser.key(key);
            assert_eq!(browser.value(place), before, "{key} at {width}");
            // Names in the path are complete. The last one is the frame that fills the graph.
            let path = "(() => { const path = document.getElementById('path'); const last = path.lastElementChild; \
                return [path.scrollWidth <= path.clientWidth, last.scrollWidth <= last.clientWidth, \
                last.getAttribute('aria-current'), path.firstElementChild.textContent]; })()";
            assert_eq!(browser.value(path), json!([true, true, "true", "all"]), "{key} at {width}");
        }
        // The result of a search, or its error, has a fixed place.
        browser.key("/");
        for text in ["level", "("] {
            browser.type_text(text);
            assert_ne!(browser.text("#matches"), "");
            assert_eq!(browser.value(place), before, "{text} at {width}");
        }
        browser.key("Escape");
    }
    // A selection only changes two rows: the table may have ten thousand.
    let rows = "(() => { const rows = document.querySelectorAll('#top tbody tr'); \
        return [rows[0].kept === true, Array.from(rows, (row) => row.matches('.chosen:has([aria-current])')).indexOf(true), \
        document.querySelectorAll('.chosen').length]; })()";
    browser.value("document.querySelector('#top tbody tr').kept = true");
    for place in [2, 1] {
        browser.click_on(&format!("#top tbody tr:nth-child({place}) button"));
        assert_eq!(browser.value(rows), json!([true, place - 1, 1]));
    }
    // A copied row has the complete name.
    browser.resize(1280, 800, "light");
    let copied = browser.value(
        "(() => { getSelection().selectAllChildren(document.querySelector('#top tbody tr')); \
         const event = new ClipboardEvent('copy', { clipboardData: new DataTransfer(), bubbles: true, cancelable: true }); \
         document.body.dispatchEvent(event); getSelection().removeAllRanges(); \
         return event.clipboardData.getData('text/plain'); })()",
    );
    let copied = copied.as_str().expect("a text");
    assert!(copied.ends_with(&name("insert_or_assign")), "{copied}");
    // In print the graph is light and has all rows; then the state is restored.
    browser.resize(1280, 800, "dark");
    let look = "(() => { const b = document.getElementById('flame'); return [b.scrollHeight - b.clientHeight, b.scrollTop, \
        getComputedStyle(document.body).backgroundColor]; })()";
    let before = browser.value(look);
    assert!(before[0].as_f64().expect("a number") > 0.0 && before[2] == json!("rgb(20, 23, 27)"), "{before}");
    browser.value("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.value(look), json!([0, 0, "rgb(255, 255, 255)"]));
    browser.value("dispatchEvent(new Event('afterprint'))");
    assert_eq!(browser.value(look), before);
    // A button shows all rows of the graph.
    assert_eq!(browser.value("document.getElementById('flame').scrollHeight > innerHeight"), json!(true));
    browser.click_on("#taller");
    assert_eq!(
        browser.value("(() => { const b = document.getElementById('flame'); return b.scrollHeight - b.clientHeight; })()"),
        json!(0)
    );
    browser.click_on("#taller");
    assert_eq!(browser.value("document.getElementById('flame').clientHeight < 310"), json!(true));
    browser.assert_quiet();
}

#[test]
fn the_graph_begins_at_its_root_unless_common_rows_fill_half_of_it() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    browser.resize(1280, 800, "light");
    let tower: Vec<String> = (0..60).map(|depth| format!("tower{depth}")).collect();
    for (common, first) in [(5, 0), (20, 19)] {
        let trunk: Vec<String> = (0..common).map(|depth| format!("common{depth}")).collect();
        let profile = fixture::profile(&format!("{0};{1} 2\n{0};leaf 8", trunk.join(";"), tower.join(";")));
        open(&mut browser, directory.path(), &profile, &PageOptions::default());
        assert_eq!(
            browser.value("document.getElementById('flame').scrollTop"),
            json!(19 * first),
            "{common}"
        );
        // The same rows, from the other end.
        browser.click_on("#direction");
        let below = "(() => { const b = document.getElementById('flame'); \
            return b.scrollHeight - b.clientHeight - b.scrollTop; })()";
        assert_eq!(browser.value(below), json!(19 * first), "{common}");
    }
    browser.assert_quiet();
}

#[test]
fn a_function_without_a_symbol_keeps_its_offset() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut profile = fixture::profile("[liblong_name_of_a_library.so.5.4.1]+0x15ae0 2\nmain 1");
    let mut library = profile.mappings[0].clone();
    library.file = "/usr/lib/liblong_name_of_a_library.so.5.4.1".into();
    profile.mappings.push(library);
    profile.locations[0].mapping = Some(MappingId(1));
    browser.resize(400, 800, "light");
    open(
        &mut browser,
        directory.path(),
        &profile,
        &PageOptions { title: Some("x".into()), ..PageOptions::default() },
    );
    let offset = "(() => { const least = document.querySelector('#top .name .least:not(:empty)'); \
        return [least.textContent, least.scrollWidth <= least.clientWidth, \
        document.querySelector('#top tr:nth-child(1) .object') === null]; })()";
    assert_eq!(browser.value(offset), json!(["+0x15ae0", true, true]));
    browser.assert_quiet();
}

#[test]
fn the_content_security_policy_blocks_all_other_resources() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    open(&mut browser, directory.path(), &fixture::profile("a 1"), &PageOptions::default());
    browser.assert_quiet();
    // Shows that `assert_quiet` detects violations: each of these is blocked and reported.
    for breach in [
        "document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.broken = 1' }))",
        "document.body.append(Object.assign(document.createElement('img'), { src: 'http://127.0.0.1:9/x.png' }))",
        "document.body.setAttribute('style', 'color: red')",
        "fetch('http://127.0.0.1:9/x').catch(() => 0)",
        "document.body.append(Object.assign(document.createElement('iframe'), { src: 'http://127.0.0.1:9/x' }))",
        "document.body.setAttribute('onclick', 'window.broken = 1'); document.body.click()",
    ] {
        browser.events.clear();
        browser.value(&format!("{breach}; 0"));
        browser.wait_for_event("Content Security Policy", breach);
    }
    assert_eq!(browser.value("typeof window.broken"), json!("undefined"));
}

#[test]
fn a_hundred_thousand_stacks_need_few_drawing_operations() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    // A location for each of eight functions at twelve depths, and for 500 innermost ones.
    let names =
        |prefix: &str, count: u32| (0..count).map(|one| format!("{prefix}{one};")).collect::<String>();
    let mut profile = fixture::profile(&format!("main;{}{}end 1", names("f", 8 * 12), names("leaf", 500)));
    for stack in 0..100_000_u32 {
        let digits = stack.wrapping_mul(2_654_435_761);
        let calls = (0..12).map(|depth| LocationId(1 + 8 * depth + (digits >> (2 * depth) & 7)));
        let mut chain: Vec<LocationId> =
            [LocationId(0)].into_iter().chain(calls).chain([LocationId(97 + stack % 500)]).collect();
        chain.reverse();
        profile.samples.push(&chain, &[1, fixture::PERIOD * 1_000_000], LabelSetId(0));
    }
    browser.resize(1280, 900, "light");
    open(&mut browser, directory.path(), &profile, &PageOptions::default());
    assert!(browser.text("#top-summary").ends_with("1000.01s total"), "{}", browser.text("#top-summary"));
    let note = browser.text("#flame-note");
    assert!(note.contains("frames are too narrow to show (less than half a pixel)"), "{note}");
    // The work depends on the picture's size, not on the profile's: a row has at most one box for
    // each half pixel and a name for each 30 pixels, and hidden rows are not drawn.
    let drawn = browser.value(DRAWN);
    let number = |what: &str| drawn[what].as_f64().expect("a number");
    let rows = |what: &str| -> Vec<u64> {
        let rows = drawn[what].as_object().expect("rows").values();
        rows.map(|count| count.as_u64().expect("a number")).collect()
    };
    let (boxes, names) = (rows("fillRect"), rows("fillText"));
    // The top and the bottom row may be visible in part.
    assert!(boxes.len() as f64 <= number("height") / 19.0 + 2.0, "{drawn}");
    assert!(boxes.iter().all(|&count| count as f64 <= number("width") * 2.0), "{drawn}");
    assert!(names.iter().all(|&count| count as f64 <= number("width") / 30.0), "{drawn}");
    // Eight functions, and four times as many chains at each depth: the wide ones are drawn.
    assert!([8, 32, 128, 512, 2048].iter().all(|count| boxes.contains(count)), "{drawn}");
    assert!([8, 32].iter().all(|count| names.contains(count)), "{drawn}");
    let (x, y) = place_of(&mut browser, 2, 0.5);
    browser.click(x, y);
    assert!(browser.text("#path").contains("main"));
    browser.screenshot("page-large.png");
    browser.assert_quiet();
}

/// Draws the flame graph as at a step of scrolling. Returns its size, and the numbers of boxes and
/// names by their height in the picture.
const DRAWN: &str = r"(() => {
    const canvas = document.getElementById('flame-canvas');
    const pen = canvas.getContext('2d');
    const drawn = { width: canvas.clientWidth, height: canvas.clientHeight };
    for (const [name, place] of [['fillRect', 1], ['fillText', 2]]) {
        const rows = drawn[name] = {};
        pen[name] = (...values) => {
            rows[values[place]] = (rows[values[place]] ?? 0) + 1;
            CanvasRenderingContext2D.prototype[name].apply(pen, values);
        };
    }
    document.getElementById('flame').dispatchEvent(new Event('scroll'));
    delete pen.fillRect;
    delete pen.fillText;
    return drawn;
})()";

#[test]
fn a_function_has_the_same_colour_in_the_page_as_in_a_flame_graph() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let names = [
        "main",
        "<a::B<c> as d::E>::f",
        "encoding/json.(*decodeState).value",
        "std::sort",
        "x.part.0",
        "naïve::ü",
    ];
    let profile = fixture::profile(&format!("{} 1", names.join(";")));
    let svg = flamegraph::render(&profile, &flamegraph::FlamegraphOptions::default()).expect("it is drawn");
    let svg = String::from_utf8(svg).expect("it is text");
    open(&mut browser, directory.path(), &profile, &PageOptions::default());
    for name in names {
        let script = format!(
            "(() => {{ const profile = new Profile(JSON.parse(document.getElementById('data').textContent)); \
             const colours = new Colours(profile); colours.palette(); \
             const pen = document.createElement('canvas').getContext('2d'); \
             pen.fillStyle = colours.of(profile.names.indexOf({})); return pen.fillStyle; }})()",
            json!(name)
        );
        let hex = browser.value(&script);
        let parsed = |hex: &str| u32::from_str_radix(&hex[..6], 16).expect("a number").to_be_bytes();
        let in_page = parsed(&hex.as_str().expect("a colour")[1..]);
        let escaped = name.replace('<', "&lt;").replace('>', "&gt;");
        let after = svg.split(&format!("<title>{escaped} (")).nth(1).unwrap_or_else(|| panic!("no {name}"));
        let in_svg = parsed(after.split("fill=\"#").nth(1).expect("a colour"));
        // The browser rounds differently.
        assert!(
            in_svg.iter().zip(&in_page).all(|(a, b)| a.abs_diff(*b) <= 1),
            "{name}: {in_svg:?} {in_page:?}"
        );
    }
}

#[test]
fn the_same_profile_gives_the_same_page() {
    let profile = fixture::profile(STACKS);
    assert_eq!(render(&profile, &PageOptions::default()), render(&profile, &PageOptions::default()));
}
