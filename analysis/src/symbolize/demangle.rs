//! Demangling.

use std::fmt::{self, Write as _};

/// Suffix of symbols of PLT entries.
const JUMP: &str = "@plt";
/// Begin of a suffix of function parts and copies.
const CLONE: &str = " [clone ";
/// Limit of nested types, because each uses stack; longer names stay mangled.
const MAX_DEPTH: u32 = 96;
/// Limit of bytes of a name, because repeated types double with every few letters.
const MAX_BYTES: usize = 1 << 16;

/// Returns a Rust name without its hash, a C++ name with its parameters, or an OCaml name with its
/// modules. Other and invalid names are unchanged. Suffixes of function parts and copies, such as
/// `.cold` and `.constprop.0`, are removed.
pub(super) fn demangle(name: &str) -> String {
    // A PLT entry, which jumps to the function.
    match name.strip_suffix(JUMP) {
        Some(function) => readable(function) + JUMP,
        None => readable(name),
    }
}

fn readable(name: &str) -> String {
    let without_clones = |mut text: String| {
        text.truncate(text.find(CLONE).unwrap_or(text.len()));
        text
    };
    let readable = rust(name).or_else(|| cpp(name).map(without_clones)).or_else(|| ocaml(name));
    readable.unwrap_or_else(|| name.to_owned())
}

/// Returns a Rust or C++ name as GNU's tools print it: with suffixes of parts and copies, such as
/// `f(int) [clone .cold]`.
pub(crate) fn demangle_keeping_clones(name: &str) -> String {
    rust(name).or_else(|| cpp(name)).unwrap_or_else(|| name.to_owned())
}

fn rust(name: &str) -> Option<String> {
    // v0 names contain no dots; legacy names end with a hash and an E.
    let end = if name.starts_with("_R") { name.find('.') } else { name.rfind("E.").map(|place| place + 1) };
    let whole = &name[..end.unwrap_or(name.len())];
    let demangled =
        rustc_demangle::try_demangle(whole).or_else(|_| rustc_demangle::try_demangle(name)).ok()?;
    let mut out = Bounded::of(name);
    // Beyond its own limits, the demangler writes a note instead.
    write!(out, "{demangled:#}").ok()?;
    (!out.text.ends_with(" limit reached}")).then_some(out.text)
}

fn cpp(name: &str) -> Option<String> {
    // `cpp_demangle` also accepts a bare type: it would convert the C function `f` to `float`.
    if !name.starts_with("_Z") && !name.starts_with("___Z") {
        return None;
    }
    if let Some((words, function)) = thunk(name) {
        return cpp(&format!("_Z{function}")).map(|function| format!("{words} to {function}"));
    }
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let write = cpp_demangle::DemangleOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::BorrowedSymbol::with_tail_and_options(name.as_bytes(), &parse).ok();
    let (symbol, _) = symbol.filter(|(_, tail)| tail.is_empty())?;
    let mut out = Bounded::of(name);
    symbol.structured_demangle(&mut out, &write).ok()?;
    Some(out.text)
}

/// Demangles an OCaml name: `camlStdlib__List__map_310`, or since OCaml 5.2
/// `camlStdlib__List.map_310`. The number distinguishes functions of the same name; it is kept for
/// functions without a name. `$` and two hexadecimal digits encode other characters than letters,
/// digits and `_`.
fn ocaml(name: &str) -> Option<String> {
    let path = name.strip_prefix("caml").filter(|path| path.starts_with(|c: char| c.is_ascii_uppercase()))?;
    let separator = path.rfind("__").into_iter().chain(path.rfind('.')).max()?;
    let path = match path.rsplit_once('_') {
        Some((function, number))
            if !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && function.len() > separator + 1
                && !function[separator..].trim_start_matches(['_', '.']).eq("fun") =>
        {
            function
        }
        _ => path,
    };
    let mut readable = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(next) = rest.chars().next() {
        let escaped = rest.strip_prefix('$').and_then(|digits| u8::from_str_radix(digits.get(..2)?, 16).ok());
        if let Some(letter) = escaped.filter(u8::is_ascii_graphic) {
            readable.push(letter.into());
            rest = &rest[3..];
        } else if let Some(after) = rest.strip_prefix("__").filter(|after| !after.is_empty()) {
            readable.push('.');
            rest = after;
        } else {
            readable.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(readable)
}

/// Splits the name of a thunk, which adjusts `this` and jumps to a function, into its kind and the
/// function's name without `_Z`. `cpp_demangle` has another notation.
fn thunk(name: &str) -> Option<(&'static str, &str)> {
    let rest = name.strip_prefix("_ZT")?;
    let (words, rest) = match rest.as_bytes().first()? {
        b'h' => ("non-virtual thunk", call_offset(rest)?),
        b'v' => ("virtual thunk", call_offset(rest)?),
        b'c' => ("covariant return thunk", call_offset(call_offset(&rest[1..])?)?),
        _ => return None,
    };
    // A thunk of a thunk does not occur; many would exhaust the stack.
    (!rest.starts_with('T')).then_some((words, rest))
}

/// Skips a `<call-offset>` of the mangling: h and a number, or v and two.
fn call_offset(text: &str) -> Option<&str> {
    let numbers = match text.as_bytes().first()? {
        b'h' => 1,
        b'v' => 2,
        _ => return None,
    };
    (0..numbers).try_fold(&text[1..], |rest, _| {
        let digits = rest.strip_prefix('n').unwrap_or(rest);
        digits.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix('_')
    })
}

/// Limit of growth. A C++ name refers to earlier parts by number, so every few bytes can double the
/// result. Nested templates grow twentyfold; names that exceed the limit stay mangled.
const MAX_GROWTH: usize = 32;
/// Growth that is always allowed, for short names.
const ALWAYS: usize = 1 << 10;

struct Bounded {
    text: String,
    most: usize,
}

impl Bounded {
    fn of(name: &str) -> Self {
        Self { text: String::new(), most: (MAX_GROWTH * name.len() + ALWAYS).min(MAX_BYTES) }
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.text.len() + more.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// True for names mangled by a compiler, which contain more than the function's own name.
pub(super) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demangles_names() {
        let cases = [
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN5shape4areaEdi", "shape::area(double, int)"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("_ZThn16_N5shape6Circle4drawEv", "non-virtual thunk to shape::Circle::draw()"),
            ("_ZTv0_n24_N5shape6CircleD1Ev", "virtual thunk to shape::Circle::~Circle()"),
            ("_ZTch0_v0_n24_N5shape6Circle5cloneEv", "covariant return thunk to shape::Circle::clone()"),
            ("f", "f"),
            ("_Zgarbage", "_Zgarbage"),
            ("_ZTh", "_ZTh"),
            ("_ZThé", "_ZThé"),
            ("_ZN5shape4areaEdi and more", "_ZN5shape4areaEdi and more"),
            ("camlStdlib__List__map_310", "Stdlib.List.map"),
            ("camlStdlib__List.map_310", "Stdlib.List.map"),
            ("camlStdlib__$40_146", "Stdlib.@"),
            ("camlStdlib__Array.$2b$2e_9", "Stdlib.Array.+."),
            ("camlDune__exe__Main__fun_1234", "Dune.exe.Main.fun_1234"),
            ("camlMain__entry", "Main.entry"),
            ("camlMain__step_2_7", "Main.step_2"),
            ("camlMain__$e9_1", "Main.$e9"),
            // Functions of the OCaml runtime are C.
            ("caml_alloc_small", "caml_alloc_small"),
            ("camlMain", "camlMain"),
            // Swift and D.
            ("$s4demo6crunchyyF", "$s4demo6crunchyyF"),
            ("_D4main3fooFZv", "_D4main3fooFZv"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(demangle(name), expected);
        }
    }

    /// Nested pairs: each level contains the previous one twice, in ten bytes.
    #[test]
    fn keeps_a_name_that_doubles_with_each_part() {
        // S_ is a, S0_ the template p, S1_ the first pair, and each other the previous pair.
        let levels = |count: usize| {
            let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
            let more = digits[1..=count].iter().map(|&digit| format!("S0_IS{0}_S{0}_E", char::from(digit)));
            format!("_Z1f1a1pIS_S_E{}", more.collect::<String>())
        };
        assert_eq!(demangle(&levels(1)), "f(a, p<a, a>, p<p<a, a>, p<a, a> >)");
        let name = levels(30);
        assert_eq!(demangle(&name), name);
    }

    #[test]
    fn removes_suffixes_of_parts_and_copies() {
        let suffixes =
            ["cold", "part.0", "isra.0", "constprop.0.isra.1.cold", "llvm.1234567890", "lto_priv.0", "avx2"];
        let names = [
            ("_ZN5shape4areaEdi", "shape::area(double, int)"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ];
        for (name, expected) in names {
            for suffix in suffixes {
                assert_eq!(demangle(&format!("{name}.{suffix}")), expected, "{suffix}");
            }
        }
        // In a C name, a dot has no defined meaning.
        assert_eq!(demangle("f.cold"), "f.cold");
        assert_eq!(demangle("_Zgarbage.cold"), "_Zgarbage.cold");
        assert_eq!(demangle("_ZN5shape4areaEdi@plt"), "shape::area(double, int)@plt");
        assert_eq!(demangle("f@plt"), "f@plt");
    }

    /// Deeply nested names, and short names with huge results.
    #[test]
    fn keeps_hostile_names_mangled() {
        let many = 50_000;
        let deep = ["P", "1AI", "K", "F", "DpT_", "N1A", "sr", "Z1fE", "U1xI", "cvT_", "A_", "M1A"];
        let mut names: Vec<String> = deep.iter().map(|one| format!("_Z1f{}i", one.repeat(many))).collect();
        names.extend(["_ZTh0_", "_Z", "_ZN", "_ZZ", "_R", "_RNv", "_RMC0", "_RINvC1a1bT"].map(|one| {
            let (start, again) = one.split_at(1);
            start.to_owned() + &again.repeat(many)
        }));
        names.push(format!("_RMC0{}u", "R".repeat(many)));
        // Each type contains the previous one twice.
        let mut doubles = "_Z1f1AIiiE".to_owned();
        for digit in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars() {
            doubles += &format!("S_IS{digit}_S{digit}_E");
        }
        names.push(doubles);
        let mut doubles = "_RMC0".to_owned();
        for _ in 0..40 {
            doubles += "TB5_";
        }
        names.push(doubles + &"E".repeat(40));
        names.push(JUMP.repeat(many));
        for name in names {
            assert_eq!(demangle(&name), name, "{} bytes", name.len());
        }
    }
}
