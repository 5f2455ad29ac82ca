//! Units of values: conversion and formatting.

use crate::error::{Error, ErrorKind};

struct Unit {
    /// Its suffix of numbers.
    short: &'static str,
    /// Other names, without the plural `s`.
    aliases: &'static [&'static str],
    /// Multiple of the smallest unit of its family.
    factor: f64,
    /// It may be chosen automatically.
    is_natural: bool,
}

const fn unit(short: &'static str, aliases: &'static [&'static str], factor: f64) -> Unit {
    Unit { short, aliases, factor, is_natural: true }
}

/// Units that convert into each other, smallest first.
struct Family {
    units: &'static [Unit],
    /// Index of the unit for 0.
    default: usize,
}

const FAMILIES: [Family; 2] = [
    Family {
        units: &[
            unit("ns", &["nanosecond"], 1.0),
            unit("us", &["microsecond", "μs", "µs"], 1e3),
            unit("ms", &["millisecond"], 1e6),
            unit("s", &["sec", "second"], 1e9),
            Unit { short: "min", aliases: &["minute"], factor: 60e9, is_natural: false },
            unit("hrs", &["hour", "hr", "h"], 3600e9),
        ],
        default: 3,
    },
    Family {
        units: &[
            unit("B", &["byte"], 1.0),
            unit("kB", &["kbyte", "kilobyte"], 1024.0),
            unit("MB", &["mbyte", "megabyte"], 1_048_576.0),
            unit("GB", &["gbyte", "gigabyte"], 1_073_741_824.0),
            unit("TB", &["tbyte", "terabyte"], 1_099_511_627_776.0),
        ],
        default: 0,
    },
];

impl Family {
    fn find(&self, name: &str) -> Option<&'static Unit> {
        let name = name.to_lowercase();
        let name = name.strip_suffix('s').filter(|name| name.len() > 1).unwrap_or(&name);
        self.units.iter().find(|unit| {
            let short = unit.short.to_lowercase();
            short == name
                || short.strip_suffix('s') == Some(name) && name.len() > 1
                || unit.aliases.contains(&name)
        })
    }

    /// Returns the largest unit that is not greater than the value.
    fn natural(&self, value: f64) -> &'static Unit {
        let mut natural = self.units.iter().rev().filter(|unit| unit.is_natural);
        natural.find(|unit| value.abs() >= unit.factor).unwrap_or(&self.units[self.default])
    }
}

fn family(unit: &str) -> Option<(&'static Family, &'static Unit)> {
    FAMILIES.iter().find_map(|family| family.find(unit).map(|unit| (family, unit)))
}

/// Scale of a report: all rows have the same unit, for comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    factor: f64,
    suffix: &'static str,
}

impl Scale {
    /// Returns the scale for a `value` in `unit`.
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits behind the point")]
    pub fn natural(value: i64, unit: &str) -> Self {
        match family(unit) {
            None => Self { factor: 1.0, suffix: "" },
            Some((family, from)) => {
                let to = family.natural(value as f64 * from.factor);
                Self { factor: from.factor / to.factor, suffix: to.short }
            }
        }
    }

    /// Returns the scale of a report in `unit`: the least value, except 0, is shown as at least
    /// 0.01; if all values are similar, in the natural unit of the least.
    pub fn of_report(least: i64, largest: i64, unit: &str) -> Self {
        let (least, largest) = (least.saturating_abs(), largest.saturating_abs());
        let least = if least == 0 { largest } else { least };
        let own = Self::natural(least, unit);
        let hundredfold = least.saturating_mul(100);
        if own != Self::natural(largest, unit) && hundredfold < largest {
            Self::natural(hundredfold, unit)
        } else {
            own
        }
    }

    /// Returns the scale of unit `name`, for values of type `kind` in `unit`.
    ///
    /// # Errors
    /// If the unit is unknown, or the values do not convert to it.
    pub fn named(name: &str, kind: &str, unit: &str) -> Result<Self, Error> {
        let error = |reason| Error::new(ErrorKind::Request, reason);
        let known = "the units are auto, ns, us, ms, s, min, hour, count, B, kB, MB, GB and TB";
        if name == "count" || family(name).is_none() {
            return match family(unit) {
                None if name == "count" => Ok(Self { factor: 1.0, suffix: "" }),
                Some(_) if name == "count" => {
                    Err(error(format!("values of type {kind} are in {unit}, not a count"))
                        .advise("choose a sample type with counts by --sample-type"))
                }
                _ => Err(error(format!("unknown unit `{name}`")).advise(known)),
            };
        }
        let (from_family, from) = family(unit)
            .ok_or_else(|| error(format!("values of type {kind} are in {unit}, which is not {name}")))?;
        let to = from_family
            .find(name)
            .ok_or_else(|| error(format!("values of type {kind} are in {unit}, which is not {name}")))?;
        Ok(Self { factor: from.factor / to.factor, suffix: to.short })
    }

    /// Formats a value with its unit and at most two decimals; 0 has no unit.
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits behind the point")]
    pub fn format(&self, value: i64) -> String {
        let number = format!("{:.2}", value as f64 * self.factor);
        let number = number.strip_suffix(".00").unwrap_or(&number);
        if number == "0" || number == "-0" { "0".into() } else { format!("{number}{}", self.suffix) }
    }

    /// As [`format`](Self::format), but returns a point for 0.
    pub fn format_or_point(&self, value: i64) -> String {
        if value == 0 { ".".into() } else { self.format(value) }
    }
}

/// Formats a value in its natural unit.
pub fn natural(value: i64, unit: &str) -> String {
    Scale::natural(value, unit).format(value)
}

/// Converts a value; returns also the unit, the family's default if `to` is not in the family.
/// Values without a known unit convert to any.
#[expect(clippy::cast_precision_loss, reason = "compared with what a person typed")]
pub fn convert<'a>(value: i64, from: &str, to: &'a str) -> (f64, &'a str) {
    match family(from) {
        None => (value as f64, to),
        Some((family, from)) => {
            let to = family.find(to).unwrap_or(&family.units[family.default]);
            (value as f64 * from.factor / to.factor, to.short)
        }
    }
}

/// Returns the factors that convert both units to the finer one; None if they do not convert.
pub fn factors_to_finer(one: &str, other: &str) -> Option<(i64, i64)> {
    if one == other {
        return Some((1, 1));
    }
    let ((family, one), (other_family, other)) = (family(one)?, family(other)?);
    #[expect(clippy::cast_possible_truncation, reason = "each unit is a multiple of those before it")]
    let factor = |unit: &Unit| (unit.factor / one.factor.min(other.factor)) as i64;
    std::ptr::eq(family, other_family).then(|| (factor(one), factor(other)))
}

/// Formats a percentage: with two decimals from 1 % on, two significant digits below.
#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
pub fn percent(value: i64, total: i64) -> String {
    let share = if total == 0 { 0.0 } else { value as f64 / total as f64 * 100.0 };
    let size = share.abs();
    if (99.95..=100.05).contains(&size) {
        format!("{}100%", if share < 0.0 { "-" } else { "" })
    } else if size >= 1.0 {
        format!("{share:.2}%")
    } else if size == 0.0 {
        "0%".into()
    } else {
        let places = (1.0 - size.log10().floor()).clamp(1.0, 15.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1 to 15")]
        let number = format!("{share:.*}", places as usize);
        format!("{}%", number.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_values_in_one_unit() {
        let seconds = Scale::of_report(10_000_000, 3_200_000_000, "nanoseconds");
        assert_eq!(seconds.format(3_200_000_000), "3.20s");
        assert_eq!(seconds.format(10_000_000), "0.01s");
        assert_eq!(seconds.format(-1_000_000_000), "-1s");
        assert_eq!(seconds.format(-1), "0");
        assert_eq!(Scale::of_report(10_000_000, 90_000_000, "nanoseconds").format(90_000_000), "90ms");
        assert_eq!(Scale::of_report(1, 7, "count").format(7), "7");
        assert_eq!(natural(1536, "bytes"), "1.50kB");
        assert_eq!(natural(0, "nanoseconds"), "0");
        assert_eq!(natural(90_000_000_000, "nanoseconds"), "90s");
        assert_eq!(natural(i64::MIN, "nanoseconds"), "-2562047.79hrs");
    }

    #[test]
    fn finds_units_by_several_names() {
        for (name, text) in [
            ("ns", "90000000000ns"),
            ("nanoseconds", "90000000000ns"),
            ("us", "90000000us"),
            ("ms", "90000ms"),
            ("s", "90s"),
            ("seconds", "90s"),
            ("min", "1.50min"),
            ("hour", "0.03hrs"),
            ("hours", "0.03hrs"),
        ] {
            assert_eq!(
                Scale::named(name, "cpu", "nanoseconds").unwrap().format(90_000_000_000),
                text,
                "{name}"
            );
        }
        for name in ["count", "kB", "furlongs"] {
            assert!(Scale::named(name, "cpu", "nanoseconds").is_err(), "{name}");
        }
        assert_eq!(Scale::named("count", "samples", "count").unwrap().format(7), "7");
        assert!(Scale::named("ms", "samples", "count").is_err());
    }

    #[test]
    fn returns_factors_to_the_finer_unit() {
        for (one, other, factors) in [
            ("nanoseconds", "nanoseconds", Some((1, 1))),
            ("nanoseconds", "ns", Some((1, 1))),
            ("milliseconds", "nanoseconds", Some((1_000_000, 1))),
            ("seconds", "minutes", Some((1, 60))),
            ("bytes", "megabytes", Some((1, 1 << 20))),
            ("count", "count", Some((1, 1))),
            ("furlongs", "furlongs", Some((1, 1))),
            ("furlongs", "count", None),
            ("bytes", "nanoseconds", None),
            ("count", "bytes", None),
        ] {
            assert_eq!(factors_to_finer(one, other), factors, "{one} {other}");
        }
        let all = FAMILIES.iter().flat_map(|family| family.units.windows(2));
        assert!(all.clone().all(|pair| pair[1].factor % pair[0].factor == 0.0) && all.count() > 8);
    }

    #[test]
    fn formats_percentages_with_significant_digits() {
        for (value, total, text) in [
            (1, 0, "0%"),
            (0, 5, "0%"),
            (9_996, 10_000, "100%"),
            (-10_000, 10_000, "-100%"),
            (1, 3, "33.33%"),
            (-1, 8, "-12.50%"),
            (1, 200, "0.5%"),
            (1, 300, "0.33%"),
            (3, 10_000, "0.03%"),
            (1, 30_000, "0.0033%"),
        ] {
            assert_eq!(percent(value, total), text, "{value} of {total}");
        }
    }
}
