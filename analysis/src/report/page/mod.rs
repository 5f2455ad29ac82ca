//! One page for a browser: flame graph, table, callers and callees, source.
//!
//! The page is a single file that loads nothing. Its own policy (`Content-Security-Policy`) lets no other script and no
//! other style run than those below, by their hashes, and no network be used; names of functions and files, and source
//! text, come as data that the script puts into text nodes.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `page.html` | the parts of the page |
//! | `page.css` | how they look |
//! | `model.js` | the profile, its sums, and how values are written |
//! | `../short_name.js` | names that are too long for their place |
//! | `flame.js` | the flame graph |
//! | `tables.js` | the table, callers and callees, source |
//! | `page.js` | what happens when something is chosen, typed or clicked |

mod data;
mod source;

use super::{SourcePaths, title};
use crate::profile::Profile;
use crate::text::{escaped, visible};
use data::Data;
use source::SourceExcerpts;

/// What the page shows.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is written at the top; None for the recorded command, or else the program's name.
    pub title: Option<String>,
    /// The total of each sample type that shares are of; None for those of the profile itself, as where no filter took
    /// samples out of it.
    pub totals: Option<Vec<i64>>,
    /// The filters that the profile went through.
    pub filters: Vec<String>,
    /// Where source files are looked for.
    pub source_paths: SourcePaths,
    /// How many bytes of source text the page holds at most; 0 for none.
    pub source_limit: usize,
}

impl Default for Options {
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

/// The page of a profile or of a [comparison](crate::profile::compare). The same profile, options and source files give the same bytes.
pub fn render(profile: &Profile, options: &Options) -> String {
    let title = options.title.clone().unwrap_or_else(|| title::of(profile, "CPU profile"));
    let title = visible(&title);
    let mut data = Data::new(profile, &title, options);
    data.embed(&SourceExcerpts::new(&options.source_paths, options.source_limit));

    let mut page = String::new();
    let mut rest = PAGE;
    // Each part stands in the page once, in this order; what is put in its place is not looked at again.
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

/// The total of each sample type, with every sample's value taken as positive: what shares are of. Of a comparison that of the
/// older profile.
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

/// What the page may do: run this one script, use this one style, and nothing else.
fn policy() -> String {
    let [script, style] = [SCRIPT, STYLE].map(|text| base64(&hmac_sha256::Hash::hash(text.as_bytes())));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    )
}

/// Bytes in the alphabet of RFC 4648, section 4.
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
    fn bytes_are_written_as_in_the_rfc() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
