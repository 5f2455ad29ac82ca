//! Names as a person writes them.

use std::fmt::{self, Write as _};

/// What stands behind the name of a function for a jump to it.
const JUMP: &str = "@plt";
/// Types in each other in one name, beyond which it stays mangled: each takes some of the stack.
const MAX_DEPTH: u32 = 96;
/// Bytes of a name, beyond which it stays mangled: types that repeat each other double with each few letters.
const MAX_BYTES: usize = 1 << 16;

/// A Rust name without its hash, a C++ name with its parameters, an OCaml name with its modules, any other as it is, and so one
/// that cannot be read. Pieces and copies of a function, as `.cold` and `.constprop.0`, have its name.
pub(super) fn demangle(name: &str) -> String {
    // A jump of the linker's to the function, and not the function.
    match name.strip_suffix(JUMP) {
        Some(function) => readable(function) + JUMP,
        None => readable(name),
    }
}

fn readable(name: &str) -> String {
    // `cpp_demangle` also takes a bare type, so it would turn the C function `f` into `float`.
    let is_cpp = name.starts_with("_Z") || name.starts_with("___Z");
    let readable = rust(name).or_else(|| is_cpp.then(|| cpp(name))?).or_else(|| ocaml(name));
    readable.unwrap_or_else(|| name.to_owned())
}

fn rust(name: &str) -> Option<String> {
    // Names of the newer kind have no dots in them, those of the older end in a hash and an E.
    let end = if name.starts_with("_R") { name.find('.') } else { name.rfind("E.").map(|place| place + 1) };
    let whole = &name[..end.unwrap_or(name.len())];
    let demangled =
        rustc_demangle::try_demangle(whole).or_else(|_| rustc_demangle::try_demangle(name)).ok()?;
    let mut out = Bounded::of(name);
    // It has limits of its own, and puts words in the place of what is beyond them.
    write!(out, "{demangled:#}").ok()?;
    (!out.text.ends_with(" limit reached}")).then_some(out.text)
}

fn cpp(name: &str) -> Option<String> {
    if let Some((words, function)) = thunk(name) {
        return cpp(&format!("_Z{function}")).map(|function| format!("{words} to {function}"));
    }
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let write = cpp_demangle::DemangleOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::BorrowedSymbol::with_tail_and_options(name.as_bytes(), &parse).ok();
    let (symbol, _) = symbol.filter(|(_, tail)| tail.is_empty())?;
    let mut out = Bounded::of(name);
    symbol.structured_demangle(&mut out, &write).ok()?;
    let mut text = out.text;
    text.truncate(text.find(" [clone ").unwrap_or(text.len()));
    Some(text)
}

/// The modules and the function of an OCaml name: `camlStdlib__List__map_310`, or since OCaml 5.2 `camlStdlib__List.map_310`. The
/// number distinguishes functions of one name, and is kept for functions without a name. Characters other than letters, digits
/// and `_` are written as `$` and two hexadecimal digits.
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

/// What adjusts `this` and goes on to a function: what it is, and the function's name without `_Z`. `cpp_demangle` writes them in
/// a way of its own.
fn thunk(name: &str) -> Option<(&'static str, &str)> {
    let rest = name.strip_prefix("_ZT")?;
    let (words, rest) = match rest.as_bytes().first()? {
        b'h' => ("non-virtual thunk", call_offset(rest)?),
        b'v' => ("virtual thunk", call_offset(rest)?),
        b'c' => ("covariant return thunk", call_offset(call_offset(&rest[1..])?)?),
        _ => return None,
    };
    // A thunk of a thunk would be of no use, and many of them a way to exhaust the stack.
    (!rest.starts_with('T')).then_some((words, rest))
}

/// What is behind a `<call-offset>` of the mangling: h and a number, or v and two.
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

/// A C++ name says by a number what it has said before, so that each few bytes of it can double what it becomes. Those of templates in
/// templates become twenty times as long; what goes on is left as the linker has it.
const MAX_GROWTH: usize = 32;
/// What a short one may become in any case.
const ALWAYS: usize = 1 << 10;

/// A text that refuses to become too long.
struct Bounded {
    text: String,
    most: usize,
}

impl Bounded {
    /// Of a name of so many bytes.
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

/// True for names that a compiler has mangled: those of the linker, with more in them than the function's own.
pub(super) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
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
            // Functions of the runtime are C's.
            ("caml_alloc_small", "caml_alloc_small"),
            ("camlMain", "camlMain"),
            // Of Swift and D.
            ("$s4demo6crunchyyF", "$s4demo6crunchyyF"),
            ("_D4main3fooFZv", "_D4main3fooFZv"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(demangle(name), expected);
        }
    }

    /// A pair of pairs of pairs: each level names the one before twice, in ten bytes.
    #[test]
    fn a_name_that_doubles_with_each_part_stays_as_it_is() {
        // S_ is a, S0_ the template p, S1_ the first pair, and each other the pair before it.
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
    fn pieces_and_copies_of_a_function_have_its_name() {
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
        // Nobody says that a dot in a C name begins anything.
        assert_eq!(demangle("f.cold"), "f.cold");
        assert_eq!(demangle("_Zgarbage.cold"), "_Zgarbage.cold");
        assert_eq!(demangle("_ZN5shape4areaEdi@plt"), "shape::area(double, int)@plt");
        assert_eq!(demangle("f@plt"), "f@plt");
    }

    /// What nests deeply, and what is short and stands for names that no memory holds, stays as it is.
    #[test]
    fn hostile_names_stay_mangled() {
        let many = 50_000;
        let deep = ["P", "1AI", "K", "F", "DpT_", "N1A", "sr", "Z1fE", "U1xI", "cvT_", "A_", "M1A"];
        let mut names: Vec<String> = deep.iter().map(|one| format!("_Z1f{}i", one.repeat(many))).collect();
        names.extend(["_ZTh0_", "_Z", "_ZN", "_ZZ", "_R", "_RNv", "_RMC0", "_RINvC1a1bT"].map(|one| {
            let (start, again) = one.split_at(1);
            start.to_owned() + &again.repeat(many)
        }));
        names.push(format!("_RMC0{}u", "R".repeat(many)));
        // Each type is twice the one before.
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
