//! The standard readers of CPU profiles, and their output.

use std::path::Path;

use super::process::{run, tool};

/// A table of functions as a reader printed it, in its order.
pub(crate) struct Report {
    rows: Vec<Row>,
    text: String,
}

struct Row {
    /// Share of samples in the function itself, in percent.
    own: f64,
    /// Share of samples in the function and its callees, in percent.
    total: f64,
    name: String,
}

impl Report {
    fn parse(text: String) -> Self {
        let rows = text.lines().filter_map(parse_row).collect();
        Self { rows, text }
    }

    /// Panics unless the first row is a function named `name` with at least `percent` flat.
    #[track_caller]
    pub(crate) fn expect_hottest(&self, name: &str, percent: f64) {
        let hottest = self.rows.first().unwrap_or_else(|| panic!("the report is empty:\n{}", self.text));
        assert!(
            hottest.name.contains(name) && hottest.own >= percent,
            "{name} is not on top:\n{}",
            self.text
        );
    }

    /// Panics unless a function named `name` has at least `percent`, including its callees.
    #[track_caller]
    pub(crate) fn expect_total(&self, name: &str, percent: f64) {
        let found = self.rows.iter().any(|row| row.name.contains(name) && row.total >= percent);
        assert!(found, "no row for {name} with {percent} % or more:\n{}", self.text);
    }

    /// Panics unless any function, even of a stripped program, has `percent` with its callees.
    #[track_caller]
    pub(crate) fn expect_any_total(&self, percent: f64) {
        self.expect_total("", percent);
    }
}

/// Parses `own own% sum% total total% name`, which both readers print.
fn parse_row(line: &str) -> Option<Row> {
    let mut columns = line.split_whitespace();
    let (_, own, _, _, total) =
        (columns.next()?, columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    let percent = |column: &str| column.strip_suffix('%')?.parse::<f64>().ok();
    let name = columns.collect::<Vec<_>>().join(" ");
    (!name.is_empty()).then_some(Row { own: percent(own)?, total: percent(total)?, name })
}

#[track_caller]
pub(crate) fn go_pprof_top(program: &Path, profile: &Path) -> Report {
    let options = ["-top", "-nodefraction=0", "-nodecount=1000"];
    Report::parse(go_pprof(&options, program, profile))
}

/// The callers of the function `name` that `go tool pprof -peek` shows.
#[track_caller]
pub(crate) fn callers_in_go_pprof(name: &str, program: &Path, profile: &Path) -> Vec<String> {
    let text = go_pprof(&["-peek", name, "-nodefraction=0", "-edgefraction=0"], program, profile);
    let mut callers = Vec::new();
    for line in text.lines() {
        let Some((figures, function)) = line.split_once('|') else { continue };
        if figures.split_whitespace().count() > 2 {
            // The row of the function itself; its callees follow.
            assert!(function.contains(name), "{name} is not what pprof shows:\n{text}");
            return callers;
        }
        callers.push(function.trim().to_owned());
    }
    panic!("pprof does not know {name}:\n{text}")
}

#[track_caller]
fn go_pprof(options: &[&str], program: &Path, profile: &Path) -> String {
    let mut command = tool("go");
    command.args(["tool", "pprof", "-symbolize=local"]).args(options).arg(program).arg(profile);
    run(&mut command).expect_success().text()
}

#[track_caller]
pub(crate) fn google_pprof_text(program: &Path, profile: &Path) -> Report {
    let finished = run(tool("google-pprof").arg("--text").arg(program).arg(profile)).expect_success();
    Report::parse(finished.text())
}
