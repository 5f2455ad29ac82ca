//! Colours of frames. They depend on names only, so a function has the same colour in all pictures.
//!
//! A Rust crate, C++ namespace, Go package or object has a hue, as in the page's `page/flame.js`.

/// Mostly warm hues, as usual for flame graphs.
const HUES: [u16; 13] = [14, 28, 40, 50, 4, 34, 22, 75, 150, 190, 215, 265, 330];

/// Returns red, green and blue for a function of `package`; black text on it is readable.
pub(crate) fn of(name: &str, package: &str) -> [u8; 3] {
    let hue = HUES[hash(package) as usize % HUES.len()];
    let shade = hash(name);
    let hue = f64::from(hue) + f64::from((shade >> 4) % 9) - 4.0;
    let lightness = 0.75 + f64::from(shade % 5) / 100.0;
    rgb(hue, 0.68, lightness)
}

/// Returns the crate, namespace or package in a function's name; None if it has none, as in C.
pub(crate) fn package_of(name: &str) -> Option<&str> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$';
    let mut rest = name.trim_start_matches(['<', '&', '*', '(', '[', ' ']);
    while let Some(next) = ["dyn ", "impl ", "mut ", "const "].iter().find_map(|word| rest.strip_prefix(word))
    {
        rest = next;
    }
    let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
    if end > 0 && rest[end..].starts_with("::") {
        return Some(&rest[..end]);
    }
    // Go: a path, and a dot after its last slash. Suffixes of GCC and Clang also have a dot.
    let path = &name[..name.find(['(', '[', ' ']).unwrap_or(name.len())];
    let last = path.rfind('/').map_or(0, |slash| slash + 1);
    let (package, function) = path[last..].split_once('.')?;
    let is_suffix = ["part", "cold", "constprop", "isra", "lto_priv", "llvm", "localalias"]
        .iter()
        .any(|suffix| function.starts_with(suffix));
    let is_package = !package.is_empty() && package.chars().all(|letter| is_word(letter) || letter == '-');
    (is_package && !is_suffix).then(|| &name[..last + package.len()])
}

/// FNV-1a in 32 bits of the UTF-16 code units, as in the script.
fn hash(text: &str) -> u32 {
    text.encode_utf16().fold(0x811c_9dc5, |hash, unit| (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193))
}

/// Converts HSL: hue in degrees, saturation and lightness from 0 to 1, as in CSS.
fn rgb(hue: f64, saturation: f64, lightness: f64) -> [u8; 3] {
    let reach = saturation * lightness.min(1.0 - lightness);
    [0.0, 8.0, 4.0].map(|turn| {
        let place = (turn + hue.rem_euclid(360.0) / 30.0) % 12.0;
        let value = lightness - reach * (place - 3.0).min(9.0 - place).clamp(-1.0, 1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
        let part = (value * 255.0).round() as u8;
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_package_of_a_name() {
        let cases = [
            ("alloc::vec::Vec<T>::push", Some("alloc")),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", Some("alloc")),
            ("<&dyn core::fmt::Debug>::fmt", Some("core")),
            ("std::vector<int>::at", Some("std")),
            ("runtime.mallocgc", Some("runtime")),
            ("encoding/json.(*decodeState).value", Some("encoding/json")),
            ("github.com/a/b.c.func1", Some("github.com/a/b")),
            ("memcpy", None),
            ("inflate.part.0", None),
            ("main.cold", None),
            ("[libc.so.6]", None),
        ];
        for (name, package) in cases {
            assert_eq!(package_of(name), package, "{name}");
        }
    }

    #[test]
    fn converts_hsl_as_css_does() {
        assert_eq!(rgb(0.0, 1.0, 0.5), [255, 0, 0]);
        assert_eq!(rgb(120.0, 1.0, 0.25), [0, 128, 0]);
        assert_eq!(rgb(-120.0, 1.0, 0.5), [0, 0, 255]);
        assert_eq!(rgb(210.0, 0.5, 0.8), [179, 204, 230]);
    }
}
