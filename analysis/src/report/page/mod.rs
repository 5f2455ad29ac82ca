//! HTML page with flame graph, table, callers and callees, and source.
//!
//! The page is a single file that loads nothing. Its policy (`Content-Security-Policy`) permits
//! only the scripts and styles below, by their hashes, and no network access. Names and source text
//! are data that the script puts into text nodes.
//!
//! | file | contents |
//! | --- | --- |
//! | `page.html` | structure |
//! | `page.css` | styles |
//! | `model.js` | the profile, its sums, and formatting of values |
//! | `../short_name.js` | shortening of names |
//! | `flame.js` | the flame graph |
//! | `tables.js` | the table, callers and callees, source |
//! | `page.js` | event handlers |

mod data;
mod source;

use super::{SourcePaths, title};
use crate::profile::Profile;
use crate::text::{escaped, visible};
use data::Data;
use source::SourceExcerpts;

/// Contents of the page.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// Title; None for the recorded command, or the program's name.
    pub title: Option<String>,
    /// Base of percentages for each sample type; None to compute it from an unfiltered profile.
    pub totals: Option<Vec<i64>>,
    /// The applied filters.
    pub filters: Vec<String>,
    /// Search paths of source files.
    pub source_paths: SourcePaths,
    /// Maximum bytes of source text; 0 for none.
    pub source_limit: usize,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            title: None,
            totals: None,
            filters: Vec::new(),
            source_paths: SourcePaths::default(),
            source_limit: 1 << 20,
        }
    }
}

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(
    include_str!("model.js"),
    include_str!("../short_name.js"),
    include_str!("flame.js"),
    include_str!("tables.js"),
    include_str!("page.js")
);

/// Renders the page of a profile or [comparison](crate::profile::compare), reproducibly.
pub fn render(profile: &Profile, options: &PageOptions) -> String {
    let title = options.title.clone().unwrap_or_else(|| title::of(profile, "CPU profile"));
    let title = visible(&title);
    let mut data = Data::new(profile, &title, options);
    data.embed(&SourceExcerpts::new(&options.source_paths, options.source_limit));

    let mut page = String::new();
    let mut rest = PAGE;
    // Each mark occurs once, in this order; inserted text is not searched for marks.
    for (mark, part) in [
        ("{{policy}}", policy()),
        ("{{title}}", escaped(&title)),
        ("{{style}}", STYLE.into()),
        ("{{data}}", data.to_json()),
        ("{{script}}", SCRIPT.into()),
    ] {
        let (before, after) = rest.split_once(mark).expect("the page has a mark for each part");
        page.push_str(before);
        page.push_str(&part);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Returns the base of percentages for each type: the sum of absolute values, as in text reports.
pub fn totals(profile: &Profile) -> Vec<i64> {
    let is_base = profile.base_sets();
    let mut totals = vec![0_i64; profile.sample_types.len()];
    for sample in profile.samples.iter() {
        if is_base.as_ref().is_some_and(|is_base| !is_base[sample.labels.index()]) {
            continue;
        }
        for (total, value) in totals.iter_mut().zip(sample.values) {
            *total = total.saturating_add(value.saturating_abs());
        }
    }
    totals
}

fn policy() -> String {
    let [script, style] = [SCRIPT, STYLE].map(|text| base64(&hmac_sha256::Hash::hash(text.as_bytes())));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    )
}

/// Encodes base64 as in RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = char::from(ALPHABET[(word >> (18 - 6 * place) & 63) as usize]);
            text.push(if place <= group.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_base64_as_in_the_rfc() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
