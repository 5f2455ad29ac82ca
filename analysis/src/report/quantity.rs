//! Values with units, as pprof writes them: `370ms`, `3.03s`.

/// A value with the largest unit of which it is one or more, with two decimals where they are not zero. A count has no unit.
pub(crate) fn label(value: i64, unit: &str) -> String {
    let units: &[(&str, f64)] = match unit {
        "nanoseconds" => &[("hrs", 3.6e12), ("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)],
        "microseconds" => &[("hrs", 3.6e9), ("s", 1e6), ("ms", 1e3), ("us", 1.0)],
        "milliseconds" => &[("hrs", 3.6e6), ("s", 1e3), ("ms", 1.0)],
        "seconds" => &[("hrs", 3600.0), ("s", 1.0)],
        "bytes" => &[("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)],
        "count" => &[("", 1.0)],
        other => return if value == 0 { "0".into() } else { format!("{value}{other}") },
    };
    if value == 0 {
        return "0".into();
    }
    let size = value.unsigned_abs() as f64;
    let (name, factor) = units.iter().find(|(_, factor)| size >= *factor).unwrap_or(&units[units.len() - 1]);
    let number = format!("{:.2}", value as f64 / factor);
    format!("{}{name}", number.strip_suffix(".00").unwrap_or(&number))
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn a_value_has_the_largest_unit_that_fits() {
        let cases = [
            (0, "nanoseconds", "0"),
            (999, "nanoseconds", "999ns"),
            (1_500, "nanoseconds", "1.50us"),
            (370_000_000, "nanoseconds", "370ms"),
            (-3_030_000_000, "nanoseconds", "-3.03s"),
            (5_400_000_000_000, "nanoseconds", "1.50hrs"),
            (303, "count", "303"),
            (1536, "bytes", "1.50kB"),
            (7, "widgets", "7widgets"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(label(value, unit), text);
        }
    }
}
