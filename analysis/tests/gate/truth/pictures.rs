//! Neighbours, source lines, graphs, and stacks for other viewers, compared with pprof.

use super::{Same, blocks, cases, data, each, output, pprof, sigprof};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

#[test]
fn peek_matches_pprof() {
    for (profile, functions) in [
        ("recursion", "odd|leaf"),
        ("containers", "^main$|sort"),
        ("inlining", "fold|write"),
        ("labels", "fillMap|sortSome"),
    ] {
        let theirs = blocks(&pprof(&format!("-peek={functions}"), &[], profile));
        let ours = blocks(&sigprof("peek", &[functions], profile));
        assert!(!theirs.is_empty(), "{profile} {functions}");
        assert_eq!(ours, theirs, "{profile} {functions}");
    }
}

/// The values of lines. Those of functions are not compared: for recursive functions, pprof 1.19
/// counts a sample once for each of their lines in it.
#[test]
fn source_lines_have_the_values_of_pprof() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let programs = programs.to_str().unwrap();
    let lines = |text: &str| -> BTreeSet<String> {
        let is_line = |line: &&str| line.split_whitespace().nth(2).is_some_and(|word| word.ends_with(':'));
        text.lines().filter(is_line).map(str::to_owned).collect()
    };
    for (profile, functions) in
        [("recursion", "odd|leaf|^main$"), ("containers", "^main$"), ("inlining", "inlining::")]
    {
        let theirs = [&format!("-source_path={programs}"), "-trim_path=/src"];
        let theirs = lines(&pprof(&format!("-list={functions}"), &theirs, profile));
        let ours = lines(&sigprof("list", &[functions, "--source-path", programs], profile));
        assert!(theirs.len() > 8, "{profile} {functions}: {theirs:#?}");
        assert_eq!(ours, theirs, "{profile} {functions}");
    }
}

/// An arrow: caller, callee, value, whether it is inlined, whether it skips functions.
type Arrow = (String, String, String, bool, bool);

/// Returns a graph's boxes, with their values, and arrows.
fn graph(text: &str) -> (BTreeSet<[String; 3]>, BTreeSet<Arrow>) {
    let (mut names, mut boxes, mut arrows) =
        (BTreeMap::<String, String>::new(), BTreeSet::new(), BTreeSet::new());
    let quoted = |line: &str, key: &str| {
        let rest = line.split_once(key).unwrap_or_else(|| panic!("{key} in {line}")).1;
        let end = rest.match_indices('"').find(|&(at, _)| !rest[..at].ends_with('\\')).unwrap().0;
        rest[..end].to_owned()
    };
    for line in text.lines() {
        let Some((id, attributes)) = line.split_once(" [") else { continue };
        let is_node = |id: &str| id.len() > 1 && id[1..].bytes().all(|byte| byte.is_ascii_digit());
        if let Some((caller, callee)) = id.split_once(" -> ") {
            if is_node(caller) && is_node(callee) {
                let label = quoted(attributes, "label=\"");
                let value = label.split_whitespace().next().unwrap().trim_end_matches("\\n").to_owned();
                let is_residual = attributes.contains("style=");
                let [caller, callee] = [caller, callee].map(|id| names[id].clone());
                arrows.insert((caller, callee, value, label.contains("(inline)"), is_residual));
            }
        } else if is_node(id) && attributes.contains("tooltip=\"") {
            let name: String = quoted(attributes, "tooltip=\"");
            // pprof adds the value to the name.
            let is_theirs = id.starts_with('N');
            let name = if is_theirs { name.rsplit_once(" (").unwrap().0.to_owned() } else { name };
            let label = quoted(attributes, "label=\"").replace(" of ", "\\nof ");
            let value = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
            let lines: Vec<&str> = label.split("\\n").collect();
            let (flat, cum) = match lines[..] {
                [.., flat, cum] if cum.starts_with("of ") => (value(flat), value(&cum[3..])),
                [.., both] => (value(both), value(both)),
                [] => unreachable!("a split text has a part"),
            };
            names.insert(id.to_owned(), name.clone());
            boxes.insert([name, flat, cum]);
        }
    }
    (boxes, arrows)
}

#[test]
fn graphs_have_the_boxes_and_arrows_that_pprof_draws() {
    let options: [Same; 3] = [
        (&[], &[]),
        (&["-nodecount=10"], &["--nodecount=10"]),
        (&["-nodecount=25", "-hide=sort"], &["--nodecount=25", "--hide=sort"]),
    ];
    each(
        &cases(&["recursion", "containers", "inlining", "python"], &options),
        |(profile, (theirs, ours))| {
            let ours = [&["--format=dot"], *ours].concat();
            let (theirs, ours_graph) =
                (graph(&pprof("-dot", theirs, profile)), graph(&sigprof("callgraph", &ours, profile)));
            assert!(theirs.0.len() > 4 && theirs.1.len() > 3, "{theirs:#?}");
            assert_eq!(ours_graph, theirs, "{profile} {ours:?}");
        },
    );
}

/// Returns the stacks of pprof's traces, outermost first, with their sums.
fn stacks(traces: &str) -> BTreeMap<Vec<String>, i64> {
    let mut stacks = BTreeMap::new();
    for block in traces.split("-----------+-------------------------------------------------------\n").skip(1)
    {
        let is_frame = |line: &&str| !line.trim_start().split(' ').next().unwrap_or_default().ends_with(':');
        let mut lines = block.lines().filter(is_frame);
        let Some((value, innermost)) = lines.next().and_then(|line| line.trim_start().split_once(' ')) else {
            continue;
        };
        let name = |line: &str| line.trim().trim_end_matches(" (inline)").to_owned();
        let mut stack: Vec<String> = std::iter::once(innermost).chain(lines).map(name).collect();
        stack.reverse();
        *stacks.entry(stack).or_default() += value.trim_end_matches("ns").parse::<i64>().unwrap();
    }
    stacks
}

/// Reads a speedscope file (`file-format-spec.ts`): a sample's frames are indices, outermost first.
fn stacks_of_speedscope(file: &serde_json::Value) -> BTreeMap<Vec<String>, i64> {
    let mut stacks = BTreeMap::new();
    let array = |value: &serde_json::Value| value.as_array().unwrap().clone();
    for profile in array(&file["profiles"]) {
        for (sample, weight) in array(&profile["samples"]).iter().zip(array(&profile["weights"])) {
            let name = |frame: &serde_json::Value| {
                let frame = usize::try_from(frame.as_u64().unwrap()).unwrap();
                file["shared"]["frames"][frame]["name"].as_str().unwrap().to_owned()
            };
            *stacks.entry(array(sample).iter().map(name).collect()).or_default() += weight.as_i64().unwrap();
        }
    }
    stacks
}

/// Reads a Firefox Profiler file (`src/types/profile.ts`): a sample has the index of its innermost
/// frame in a table, in which each frame has its caller's index.
fn stacks_of_firefox(file: &serde_json::Value) -> BTreeMap<Vec<String>, i64> {
    let mut stacks = BTreeMap::new();
    let millis = file["meta"]["interval"].as_f64().unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "whole microseconds")]
    let nanos = (millis * 1e6).round() as i64;
    let at = |column: &serde_json::Value, place: usize| {
        column[place].as_u64().map(|value| usize::try_from(value).unwrap())
    };
    for thread in file["threads"].as_array().unwrap() {
        let strings = [&thread["stringArray"], &file["shared"]["stringArray"]]
            .into_iter()
            .find(|array| array.is_array());
        for sample in 0..usize::try_from(thread["samples"]["length"].as_u64().unwrap()).unwrap() {
            let mut stack = Vec::new();
            let mut next = at(&thread["samples"]["stack"], sample);
            while let Some(place) = next {
                let frame = at(&thread["stackTable"]["frame"], place).unwrap();
                let function = at(&thread["frameTable"]["func"], frame).unwrap();
                let name = at(&thread["funcTable"]["name"], function).unwrap();
                stack.push(strings.unwrap()[name].as_str().unwrap().to_owned());
                next = at(&thread["stackTable"]["prefix"], place);
            }
            stack.reverse();
            let weight = thread["samples"]["weight"][sample].as_i64().unwrap() * nanos;
            if weight != 0 {
                *stacks.entry(stack).or_default() += weight;
            }
        }
    }
    stacks
}

#[test]
fn speedscope_and_firefox_files_have_the_stacks_of_pprof() {
    for profile in ["recursion", "inlining", "labels"] {
        let expected = stacks(&pprof("-traces", &[], profile));
        assert!(
            expected.len() > 10 && expected.keys().any(|stack| stack.len() > 5),
            "{profile}: {expected:?}"
        );
        let converted = |format: &str| -> serde_json::Value {
            let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
            let text = output(command.args(["convert", "--to", format, "-o", "-"]).arg(data(profile)));
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(stacks_of_speedscope(&converted("speedscope")), expected, "{profile}");
        assert_eq!(stacks_of_firefox(&converted("firefox")), expected, "{profile}");
    }
}
