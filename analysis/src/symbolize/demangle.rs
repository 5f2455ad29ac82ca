//! Names as a person writes them.

/// A Rust name without its hash, a C++ name with its parameters, any other as it is.
pub(super) fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    // `cpp_demangle` also takes a bare type, so it would turn the C function `f` into `float`.
    let is_cpp = name.starts_with("_Z") || name.starts_with("___Z");
    let cpp = is_cpp.then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok());
    cpp.flatten().unwrap_or_else(|| name.to_owned())
}

/// True for names that a compiler has mangled: those of the linker, with more in them than the function's own.
pub(super) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

/// Keeps a name or a path, which comes from a file that may hold anything, from being more than text to a terminal, and from
/// being longer than anybody reads.
pub(super) fn printable(text: &[u8]) -> String {
    const MOST: usize = 1 << 16;
    let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
    if text.contains(char::is_control) {
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    } else {
        text.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_what_was_written() {
        let cases = [
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN5shape4areaEdi", "shape::area(double, int)"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("f", "f"),
            ("_Zgarbage", "_Zgarbage"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(demangle(name), expected);
        }
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(printable(b"a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(printable(&[b'x'; 1 << 17]).len(), 1 << 16);
    }
}
