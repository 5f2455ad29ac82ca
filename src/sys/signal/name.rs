//! Signals by number or name, as users write them.

use core::ops::RangeInclusive;

/// Returns the number of a signal such as `12`, `SIGUSR2` or `USR2`.
pub(crate) fn number(name: &[u8]) -> Option<i32> {
    use core::str::FromStr;
    let name = core::str::from_utf8(name).ok()?.trim();
    if let Ok(number) = name.parse::<i32>() {
        return (1..=libc::SIGRTMAX()).contains(&number).then_some(number);
    }
    if let Some(number) = real_time_number(name) {
        return Some(number);
    }
    let mut full = [0u8; 16];
    let prefix: &[u8] = if name.len() > 3 && name.get(..3).is_some_and(|p| p.eq_ignore_ascii_case("SIG")) {
        b""
    } else {
        b"SIG"
    };
    let length = prefix.len() + name.len();
    full.get_mut(..prefix.len())?.copy_from_slice(prefix);
    full.get_mut(prefix.len()..length)?.copy_from_slice(name.as_bytes());
    full.make_ascii_uppercase();
    let full = core::str::from_utf8(full.get(..length)?).ok()?;
    nix::sys::signal::Signal::from_str(full).ok().map(|signal| signal as i32)
}

/// Returns the real-time signals for applications, without those that the C library reserves.
pub(crate) fn real_time() -> RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

/// Parses a distance from `SIGRTMIN` or `SIGRTMAX`, such as `SIGRTMIN+3`.
fn real_time_number(name: &str) -> Option<i32> {
    let upper = name.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let distance = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i32>().ok() };
    let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(rest), _) if rest.is_empty() || rest.starts_with('+') => {
            libc::SIGRTMIN().checked_add(distance(rest)?)?
        }
        (_, Some(rest)) if rest.is_empty() || rest.starts_with('-') => {
            libc::SIGRTMAX().checked_add(distance(rest)?)?
        }
        _ => return None,
    };
    real_time().contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_numbers_and_names() {
        for name in ["12", "SIGUSR2", "USR2", "usr2", " SIGUSR2 "] {
            assert_eq!(number(name.as_bytes()), Some(libc::SIGUSR2), "{name}");
        }
        let [least, most] = [libc::SIGRTMIN(), libc::SIGRTMAX()];
        for (name, expected) in
            [("SIGRTMIN", least), ("rtmin+3", least + 3), ("SIGRTMAX-2", most - 2), ("RTMAX", most)]
        {
            assert_eq!(number(name.as_bytes()), Some(expected), "{name}");
        }
        for name in ["RTMIN-1", "RTMIN+31", "RTMAX+1", "RTMIN+", "RTMIN++1", "RTMAX-31", "RTMINx"] {
            assert_eq!(number(name.as_bytes()), None, "{name}");
        }
        for name in ["", "0", "-1", "65", "SIG", "NOSUCH", "SIGSIGUSR2", "12x", "a name that is far too long"]
        {
            assert_eq!(number(name.as_bytes()), None, "{name}");
        }
    }
}
