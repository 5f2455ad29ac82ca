//! Values of environment variables, and warnings about invalid ones.

use super::{DEFAULT_MAX_MEMORY, LARGEST_MAX_MEMORY, SMALLEST_MAX_MEMORY};

/// True as in gperftools: empty, or begins with t, T, y, Y or 1.
pub(super) fn is_true(value: &[u8]) -> bool {
    value.first().is_none_or(|first| b"tTyY1".contains(first))
}

/// Reads a number from 1 to the maximum; the default if it is invalid, the maximum if it is larger.
pub(super) fn number(
    name: &str,
    value: Option<&[u8]>,
    (default, maximum): (u32, u32),
    unit: &str,
    warnings: &mut Vec<String>,
) -> u32 {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return default };
    let text = String::from_utf8_lossy(value);
    let digits = text.trim();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // `parse` fails only for numbers that are too large.
    let number = if is_number { digits.parse::<u64>().unwrap_or(u64::MAX) } else { 0 };
    if (1..=u64::from(maximum)).contains(&number) {
        return number as u32;
    }
    let (wrong, used) = if number > 0 {
        ("is above the maximum".into(), maximum)
    } else {
        (format!("is not a number from 1 to {maximum}"), default)
    };
    warnings.push(format!("{name}={} {wrong}; using {used} {unit}", shown(value)));
    used
}

/// Reads bytes, with an optional suffix K, M or G; clamps them; the default if it is not a number.
pub(super) fn max_memory(value: Option<&[u8]>, warnings: &mut Vec<String>) -> usize {
    const NAME: &str = "CPUPROFILE_MAX_MEMORY";
    let Some(value) = value.filter(|value| !value.is_empty()) else { return DEFAULT_MAX_MEMORY };
    let text = String::from_utf8_lossy(value);
    let trimmed = text.trim();
    let shift = match trimmed.bytes().next_back().map(|letter| letter.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = if shift > 0 { trimmed.get(..trimmed.len() - 1).unwrap_or_default() } else { trimmed };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let default = DEFAULT_MAX_MEMORY >> 20;
        warnings
            .push(format!("{NAME}={} is not a number of bytes (K, M, G); using {default}M", shown(value)));
        return DEFAULT_MAX_MEMORY;
    }
    // `parse` fails only for numbers that are too large.
    let bytes = digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1 << shift);
    let (least, most) = (SMALLEST_MAX_MEMORY as u64, LARGEST_MAX_MEMORY as u64);
    let used = bytes.clamp(least, most);
    if used != bytes {
        let wrong = if bytes < least { "is below the minimum" } else { "is above the maximum" };
        warnings.push(format!("{NAME}={} {wrong}; using {}M", shown(value), used >> 20));
    }
    used as usize
}

/// Returns a value for a message: control characters are escaped, and a long value is truncated.
pub(super) fn shown(value: &[u8]) -> String {
    const MOST: usize = 80;
    let text = String::from_utf8_lossy(value);
    let mut shown = String::new();
    for (i, character) in text.chars().enumerate() {
        match character {
            _ if i == MOST => {
                shown.push_str("...");
                break;
            }
            _ if character.is_control() => shown.extend(character.escape_default()),
            _ => shown.push(character),
        }
    }
    shown
}
