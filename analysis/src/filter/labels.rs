//! Filters by labels of samples, and frames made of labels.

use super::{expression, retain};
use crate::{
    error::Error,
    profile::{Function, Label, LabelSetId, LabelValue, Line, Location, LocationId, Profile, label},
    units,
};
use regex::Regex;
use std::collections::HashMap;

/// Filters of labels.
#[derive(Clone, Debug, Default)]
pub struct LabelFilter {
    /// Keep samples with a label that matches.
    pub focus: Option<LabelMatch>,
    /// Drop samples with a label that matches.
    pub ignore: Option<LabelMatch>,
    /// Drops labels with a key that does not match.
    pub show: Option<Regex>,
    /// Drops labels with a key that matches.
    pub hide: Option<Regex>,
}

/// An expression or range that matches labels.
#[derive(Clone, Debug)]
pub struct LabelMatch {
    /// The key to match; None for all.
    key: Option<String>,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    /// A range of numbers, with their unit or an empty string.
    Numbers { first: f64, last: f64, unit: String },
    /// Expressions.
    Texts(Vec<Regex>),
}

impl LabelMatch {
    /// Parses pprof's syntax: an optional `KEY=`, then a number or range such as `5`, `1kb:`,
    /// `:2mb`, `1kb:2mb`, or comma-separated expressions. Without a key, all expressions must match
    /// `KEY:VALUE`; with a key, any.
    ///
    /// # Errors
    /// If an expression is invalid.
    pub fn parse(option: &str, text: &str) -> Result<Self, Error> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (Some(key.to_owned()), value),
            None => (None, text),
        };
        let values = match parse_range(value) {
            Some(range) => range,
            None => {
                Values::Texts(value.split(',').map(|one| expression(option, one)).collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { key, values })
    }

    fn matches(&self, labels: &[Label]) -> bool {
        let mine = || labels.iter().filter(|label| self.key.as_ref().is_none_or(|key| **key == *label.key));
        let texts = || {
            mine().filter_map(|label| match &label.value {
                LabelValue::Text(text) => Some((&label.key, text)),
                LabelValue::Number(..) => None,
            })
        };
        match &self.values {
            Values::Numbers { first, last, unit } => mine().any(|label| match &label.value {
                LabelValue::Number(value, own_unit) => {
                    let own_unit = if own_unit.is_empty() { unit_of_key(&label.key) } else { own_unit };
                    let (value, own_unit) = units::convert(*value, own_unit, unit);
                    own_unit == unit && *first <= value && value <= *last
                }
                LabelValue::Text(_) => false,
            }),
            Values::Texts(all) if self.key.is_none() => {
                all.iter().all(|one| texts().any(|(key, text)| one.is_match(&format!("{key}:{text}"))))
            }
            Values::Texts(any) => texts().any(|(_, text)| any.iter().any(|one| one.is_match(text))),
        }
    }
}

/// Returns the unit of a label without one, as in Go's heap profiles and pprof.
fn unit_of_key(key: &str) -> &str {
    if matches!(key, "alignment" | "request") { "bytes" } else { key }
}

/// Parses a number with a unit, or two separated by a colon; one may be missing.
fn parse_range(text: &str) -> Option<Values> {
    let number = |text: &str| {
        let digits = text.len()
            - text.trim_start_matches(['+', '-']).trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (value, unit) = text.split_at(digits);
        let is_unit = unit.chars().all(|c| c.is_ascii_alphabetic());
        value.parse::<i64>().ok().filter(|_| is_unit).map(|value| (value, unit.to_owned()))
    };
    let scaled = |(value, unit): (i64, String), to: &str| {
        let (value, unit) = units::convert(value, &unit, to);
        (value, unit.to_owned())
    };
    let (first, last) = match text.split_once(':') {
        None => (number(text)?, number(text)?),
        Some((first, "")) => (number(first)?, (i64::MAX, String::new())),
        Some(("", last)) => ((i64::MIN, String::new()), number(last)?),
        Some((first, last)) => (number(first)?, number(last)?),
    };
    let unit = if first.1.is_empty() { last.1.clone() } else { first.1.clone() };
    let open = |value: i64| value == i64::MAX || value == i64::MIN;
    let (is_from_start, is_to_end) = (open(first.0), open(last.0));
    let (from, from_unit) = scaled(first, &unit);
    let (to, to_unit) = scaled(last, &unit);
    let unit = if is_from_start { to_unit } else { from_unit };
    let (from, to) =
        (if is_from_start { f64::NEG_INFINITY } else { from }, if is_to_end { f64::INFINITY } else { to });
    Some(Values::Numbers { first: from, last: to, unit })
}

impl LabelFilter {
    /// Applies the filters. Returns the names of those that matched nothing.
    pub fn apply(&self, profile: &mut Profile) -> Vec<&'static str> {
        let mut idle = Vec::new();
        let sets = profile.label_sets.len();
        let mut is_kept = vec![true; sets];
        let mut judge = |matcher: &Option<LabelMatch>, name: &'static str, keeps: bool| {
            let Some(matcher) = matcher else { return };
            let matches: Vec<bool> =
                profile.label_sets.iter().map(|labels| matcher.matches(labels)).collect();
            if !matches.contains(&true) {
                idle.push(name);
            }
            for (is_kept, matches) in is_kept.iter_mut().zip(matches) {
                *is_kept &= matches == keeps;
            }
        };
        judge(&self.focus, "tagfocus", true);
        judge(&self.ignore, "tagignore", false);
        if is_kept.contains(&false) {
            keep_sets(profile, &is_kept);
        }
        self.drop_labels(profile, &mut idle);
        idle
    }

    fn drop_labels(&self, profile: &mut Profile, idle: &mut Vec<&'static str>) {
        let (mut has_shown, mut has_hidden) = (self.show.is_none(), self.hide.is_none());
        for labels in &mut profile.label_sets {
            labels.retain(|label| {
                let is_shown = self.show.as_ref().is_none_or(|show| show.is_match(&label.key));
                let is_hidden = self.hide.as_ref().is_some_and(|hide| hide.is_match(&label.key));
                has_shown |= is_shown;
                has_hidden |= is_hidden;
                // Without this label, the two sides of a comparison would be mixed.
                is_shown && !is_hidden || *label.key == *label::BASE
            });
        }
        idle.extend((!has_shown).then_some("tagshow"));
        idle.extend((!has_hidden).then_some("taghide"));
    }
}

pub(super) fn keep_sets(profile: &mut Profile, is_kept: &[bool]) {
    let samples = std::mem::take(&mut profile.samples);
    let keep = |sample: crate::profile::SampleRef<'_>, chain: &mut Vec<LocationId>| {
        chain.extend_from_slice(sample.chain);
        is_kept[sample.labels.index()]
    };
    retain(profile, keep, &samples);
}

/// Makes frames of labels: the keys of `roots` become the outermost frames, those of `leaves` the
/// innermost, each list from outermost to innermost. Returns the options without a matching label.
pub fn add_label_frames(profile: &mut Profile, roots: &[String], leaves: &[String]) -> Vec<&'static str> {
    let mut made: HashMap<(String, String), LocationId> = HashMap::new();
    let mut is_found = [roots.is_empty(), leaves.is_empty()];
    let mut frames_of = |profile: &mut Profile, set: LabelSetId, keys: &[String], is_found: &mut bool| {
        let mut frames = Vec::new();
        for key in keys.iter().rev() {
            let name = values_of(profile.labels(set), key);
            *is_found |= !name.is_empty();
            frames.push(*made.entry((name, key.clone())).or_insert_with_key(|(name, key)| {
                let text: std::sync::Arc<str> = name.as_str().into();
                let file = key.as_str().into();
                profile.functions.push(Function {
                    name: text.clone(),
                    system_name: text,
                    file,
                    start_line: 0,
                });
                let function = crate::profile::FunctionId::at(profile.functions.len() - 1);
                let lines = vec![Line { function, line: 0, column: 0 }];
                profile.locations.push(Location { lines, ..Location::default() });
                LocationId::at(profile.locations.len() - 1)
            }));
        }
        frames
    };
    let mut added: Vec<(Vec<LocationId>, Vec<LocationId>)> = Vec::new();
    for set in 0..profile.label_sets.len() {
        let set = LabelSetId::at(set);
        let outside = frames_of(profile, set, roots, &mut is_found[0]);
        let inside = frames_of(profile, set, leaves, &mut is_found[1]);
        added.push((outside, inside));
    }
    if !roots.is_empty() || !leaves.is_empty() {
        let samples = std::mem::take(&mut profile.samples);
        let add = |sample: crate::profile::SampleRef<'_>, chain: &mut Vec<LocationId>| {
            let (outside, inside) = &added[sample.labels.index()];
            for part in [&inside[..], sample.chain, &outside[..]] {
                chain.extend_from_slice(part);
            }
            true
        };
        retain(profile, add, &samples);
    }
    let names = ["tagroot", "tagleaf"];
    names.into_iter().zip(is_found).filter_map(|(name, is_found)| (!is_found).then_some(name)).collect()
}

/// Returns the values of the labels with one key, strings first.
fn values_of(labels: &[Label], key: &str) -> String {
    let mine = || labels.iter().filter(|label| *label.key == *key);
    let texts = mine().filter_map(|label| match &label.value {
        LabelValue::Text(text) => Some(text.to_string()),
        LabelValue::Number(..) => None,
    });
    let numbers = mine().filter_map(|label| match &label.value {
        LabelValue::Number(value, unit) => Some(units::natural(*value, unit)),
        LabelValue::Text(_) => None,
    });
    texts.chain(numbers).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: &str, value: &str) -> Label {
        Label { key: key.into(), value: LabelValue::Text(value.into()) }
    }

    fn number(key: &str, value: i64, unit: &str) -> Label {
        Label { key: key.into(), value: LabelValue::Number(value, unit.into()) }
    }

    #[test]
    fn matches_labels_by_text_number_and_range() {
        let labels = [
            text("thread", "worker-3"),
            text("path", "/a"),
            number("bytes", 2048, "bytes"),
            number("tid", 7, ""),
        ];
        for (wanted, is_match) in [
            ("worker", true),
            ("thread:w", true),
            ("thread:w,path:/a", true),
            ("thread:w,path:/b", false),
            ("thread=^worker", true),
            ("thread=x,worker", true),
            ("path=worker", false),
            ("tid=7", true),
            ("tid=8", false),
            ("7", true),
            ("2kb", true),
            ("bytes=1kb:", true),
            ("bytes=:1kb", false),
            ("bytes=1kb:1mb", true),
            ("bytes=3kb:1mb", false),
            ("bytes=1s:2s", false),
        ] {
            assert_eq!(matches(wanted, &labels), is_match, "{wanted}");
        }
        assert!(LabelMatch::parse("--tagfocus", "a,(").is_err());
    }

    /// Go's heap profiles have labels without units.
    #[test]
    fn number_without_a_unit_has_the_unit_of_its_key() {
        let labels = [number("bytes", 512, ""), number("request", 4096, "")];
        let shown = ["bytes=:1kb", "bytes=512b", "request=4kb", "1kb:8kb"];
        // As in pprof, a number without a unit matches no size.
        let hidden = ["bytes=1kb:", "bytes=512", "request=4mb"];
        assert_eq!(shown.map(|wanted| matches(wanted, &labels)), [true; 4]);
        assert_eq!(hidden.map(|wanted| matches(wanted, &labels)), [false; 3]);
    }

    fn matches(wanted: &str, labels: &[Label]) -> bool {
        LabelMatch::parse("--tagfocus", wanted).unwrap().matches(labels)
    }
}
