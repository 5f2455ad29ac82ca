//! The tables of `docs/signal-safety.md`: targets, the entries that reach them, and reasons.

use std::collections::{BTreeMap, BTreeSet};

/// A row of three columns: names, the entries that reach them, and the reason.
pub(crate) struct Row {
    line: usize,
    pub(crate) names: Vec<String>,
    from: BTreeSet<String>,
    pub(crate) reason: String,
}

/// The rows of the tables in `document` with first column `title`.
pub(crate) fn rows(document: &str, title: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut is_inside = false;
    for (number, line) in document.lines().enumerate() {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            is_inside = false;
            continue;
        };
        let cells: Vec<&str> = cells.split(" | ").collect();
        if cells[0] == title {
            is_inside = true;
        } else if is_inside && !cells[0].starts_with("---") {
            let [names, from, reason] = cells[..] else {
                panic!("line {}: {} cells", number + 1, cells.len())
            };
            rows.push(Row::read(number + 1, names, from, reason));
        }
    }
    assert!(!rows.is_empty(), "the document has no table of `{title}`");
    rows
}

impl Row {
    fn read(line: usize, names: &str, from: &str, reason: &str) -> Self {
        let plain = quoted(names);
        let system = names.ends_with(", by system call");
        let names = plain
            .map(|name| if system { format!("{name}, by system call") } else { name.to_owned() })
            .collect();
        let from = from.split(", ").map(str::to_owned).collect();
        assert!(reason.len() > 3, "line {line} gives no reason");
        Self { line, names, from, reason: reason.to_owned() }
    }
}

/// The parts of `text` between backticks.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Differences between the rows and `found`, which has the way to each name from each entry.
pub(crate) fn differences(rows: &[Row], found: &BTreeMap<(String, &str), String>) -> Vec<String> {
    let is_listed = |name: &str, from: &str| {
        rows.iter().any(|row| row.from.contains(from) && row.names.iter().any(|listed| listed == name))
    };
    let unlisted = found
        .iter()
        .filter(|((name, from), _)| !is_listed(name, from))
        .map(|((name, from), way)| format!("`{name}` is not listed, and reached from {from}:\n{way}"));
    let unreached = rows.iter().flat_map(|row| {
        let has = |name: &str, from: &str| found.keys().any(|(own, other)| own == name && *other == from);
        let names = row.names.iter().filter(move |name| !row.from.iter().any(|from| has(name, from)));
        let names = names.map(|name| format!("line {}: `{name}` is not reached any more", row.line));
        let places = row.from.iter().filter(move |from| !row.names.iter().any(|name| has(name, from)));
        names.chain(
            places.map(|from| format!("line {}: nothing of it is reached from {from} any more", row.line)),
        )
    });
    unlisted.chain(unreached).collect()
}
