//! Numbers as printf(3) prints them.

/// Returns a number right-aligned, with this number of decimals (`%8.2f`).
pub(super) fn fixed(value: f64, width: usize, decimals: usize) -> String {
    if value.is_nan() {
        // The sign that division of zero by zero has on x86.
        return format!("{:>width$}", "-nan");
    }
    format!("{value:width$.decimals$}")
}

/// Returns a number with six significant digits (`%g`).
pub(super) fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_nan() { "-nan".into() } else { format!("{value}") };
    }
    let text = format!("{value:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.into()
        }
    };
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_in_c() {
        assert_eq!(general(0.01), "0.01");
        assert_eq!(general(1.0 / 128.0), "0.0078125");
        assert_eq!(general(1.0 / 3.0), "0.333333");
        assert_eq!(general(1e-6), "1e-06");
        assert_eq!(general(123_456_789.0), "1.23457e+08");
        assert_eq!(general(100.0), "100");
        assert_eq!(fixed(2.675, 8, 2), "    2.67");
        assert_eq!(fixed(f64::NAN, 6, 2), "  -nan");
    }
}
