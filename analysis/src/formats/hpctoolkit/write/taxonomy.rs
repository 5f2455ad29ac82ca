//! The texts of a database: which metrics a viewer shows, and descriptions.

use super::metrics::{MetricName, SCOPES};

/// Contents of FORMATS.md.
pub(super) const FORMATS: &str = "# Format\n
This directory is a database in the format of HPCToolkit, version 4.0, converted by sigprof. The
format is documented in the file FORMATS.md of HPCToolkit (https://hpctoolkit.org).

- `meta.db`: metrics, modules, files, functions, and the tree of calling contexts
- `profile.db`: the values of each thread, by context
- `cct.db`: the same values, by context and then thread
- `metrics/default.yaml`: which metrics hpcviewer shows
- `src/`: copies of sources
";

/// Contents of metrics/METRICS.yaml.ex.
pub(super) const METRICS: &str =
    "# Files of this format list the metrics that a viewer shows. The format is documented in the file
# METRICS.yaml of HPCToolkit (https://hpctoolkit.org).
";

/// Name, formula and combination of each statistic, for the inputs.
const INPUTS: [(&str, &str, &str); 5] = [
    ("sum", "$$", "sum"),
    ("count", "1", "sum"),
    ("squares", "($$^2)", "sum"),
    ("min", "$$", "min"),
    ("max", "$$", "max"),
];

/// Returns the contents of metrics/default.yaml.
pub(super) fn default_yaml(metrics: &[MetricName]) -> String {
    let mut text = "%YAML 1.2\n---\nversion: 0\ninputs:\n".to_owned();
    for (number, metric) in metrics.iter().enumerate() {
        for (scope, ..) in SCOPES.into_iter().filter(|(scope, ..)| *scope != "point") {
            for (name, formula, combine) in INPUTS {
                text.push_str(&format!(
                    "  - &m{number}-{scope}-{name}\n    metric: {}\n    scope: {scope}\n    formula: {formula}\n    combine: {combine}\n",
                    quoted(&metric.name)
                ));
            }
        }
    }
    text.push_str("roots:\n");
    for (number, metric) in metrics.iter().enumerate() {
        let name = quoted(&metric.name);
        text.push_str(&format!("  - name: {name}\n    description: {name}\n    variants:\n"));
        for (variant, render, formula) in VARIANTS {
            let of = |scope: &str| formula.replace('@', &format!("*m{number}-{scope}-"));
            text.push_str(&format!(
                "      {variant}:\n        render: {render}\n        formula:\n          inclusive:\n            standard: {}\n          exclusive:\n            custom: {}\n            standard: {}\n",
                of("execution"),
                of("lex_aware"),
                of("function"),
            ));
        }
    }
    text
}

/// Name, rendering and formula of each variant; `@` begins the name of an input.
const VARIANTS: [(&str, &str, &str); 5] = [
    ("Sum", "[number, percent]", "@sum"),
    ("Mean", "number", "[@sum, /, @count]"),
    ("Min", "number", "@min"),
    ("Max", "number", "@max"),
    ("StdDev", "number", "[sqrt: [[@squares, /, @count, '-', [@sum, /, @count], ^, 2]]]"),
];

/// Returns a text as a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
