//! Decimal numbers without a formatter, for signal context.

/// Writes `number` to the end of `digits`; returns its digits. Signal-safe: arithmetic.
pub(super) fn decimal(digits: &mut [u8; 20], mut number: u64) -> &[u8] {
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    digits.get(digits.len() - used..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_the_smallest_and_largest_numbers() {
        let numbers = [0, 9, 10, 40_960, u64::MAX];
        let written =
            numbers.map(|number| String::from_utf8(decimal(&mut [0; 20], number).to_vec()).unwrap());
        assert_eq!(written, numbers.map(|number| number.to_string()));
    }
}
