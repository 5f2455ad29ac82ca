//! Shortening of names for narrow boxes. `short_name.js` has the same rules, for scripts.

/// Limit of nested brackets that are searched for a method's type.
const DEEPEST_TYPE: usize = 4;

pub(crate) const SCRIPT: &str = include_str!("short_name.js");

/// Shortens a name to `room` letters: without text in brackets, without first parts, or cut.
///
/// Parts are separated by `::`. Arguments are removed first, the end of the name last.
pub(crate) fn fitted(name: &str, room: usize) -> String {
    let length = |text: &str| text.encode_utf16().count();
    if length(name) <= room {
        return name.into();
    }
    if room < 3 {
        return String::new();
    }
    let NameParts { parts, least } = parts_of(name);
    // From the end, as far as they fit: linear in the number of parts.
    let mut taken = 0;
    let mut first = parts.len();
    while let Some(before) = first.checked_sub(1) {
        let gap = if first < parts.len() { "::".len() } else { 0 };
        taken += length(&parts[before]) + gap;
        if taken > room && parts.len() - first >= least {
            break;
        }
        first = before;
    }
    let short = parts[first..].join("::");
    if length(&short) <= room {
        return short;
    }
    let mut left = room - 1;
    let fits = |letter: &char| {
        let is_fit = letter.len_utf16() <= left;
        left = if is_fit { left - letter.len_utf16() } else { 0 };
        is_fit
    };
    short.chars().take_while(fits).chain(['…']).collect()
}

/// The parts of a name, and how many of the last identify the function.
#[derive(Debug, PartialEq, Eq)]
struct NameParts {
    parts: Vec<String>,
    least: usize,
}

fn parts_of(name: &str) -> NameParts {
    let letters: Vec<char> = name.chars().collect();
    scanned(&letters, 0)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter >= '\u{80}'
}

fn begins(letters: &[char], place: usize, text: &str) -> bool {
    let mut rest = letters.iter().skip(place);
    text.chars().all(|letter| rest.next() == Some(&letter))
}

fn has_parts(letters: &[char]) -> bool {
    letters
        .windows(2)
        .any(|two| two == [':', ':'] || (is_word(two[0]) || two[0] == '>') && "(<".contains(two[1]))
}

fn scanned(letters: &[char], level: usize) -> NameParts {
    let whole = || NameParts { parts: vec![letters.iter().collect()], least: 1 };
    let part = offset_in_object(letters)
        .or_else(|| if has_parts(letters) { None } else { package_and_function(letters) });
    if let Some(part) = part {
        return NameParts { parts: vec![part], least: 1 };
    }
    if !has_parts(letters) {
        return whole();
    }
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    // End of the current part, if brackets follow it.
    let mut end: Option<usize> = None;
    let (mut depth, mut braces) = (0_usize, 0_usize);
    // Start and end of the brackets that the part begins with.
    let (mut opened, mut closed): (Option<usize>, Option<usize>) = (None, None);
    let add = |parts: &mut Vec<String>, part: &mut String, opened, closed| match (opened, closed) {
        _ if !part.is_empty() => parts.push(std::mem::take(part)),
        (Some(opened), Some(closed)) if closed > opened && level < DEEPEST_TYPE => {
            parts.extend(type_parts(&letters[opened + 1..closed], level + 1));
        }
        _ => {}
    };
    let mut place = 0;
    while let Some(&letter) = letters.get(place) {
        let next = letters.get(place + 1).copied().unwrap_or('\0');
        let is_outside = depth == 0 && braces == 0;
        if is_outside
            && part.is_empty()
            && end.is_none()
            && begins(letters, place, "operator")
            && !letters.get(place + 8).is_some_and(|&letter| is_word(letter))
        {
            let mut after = place + 8;
            if begins(letters, after, "()") {
                after += 2;
            } else {
                while after < letters.len() && letters[after] != '(' && !begins(letters, after, " <") {
                    after += 1;
                }
            }
            part = letters[place..after].iter().collect();
            end = Some(after);
            place = after;
            continue;
        }
        if is_outside && begins(letters, place, "::") {
            add(&mut parts, &mut part, opened, closed);
            (end, opened, closed) = (None, None, None);
            place += 1;
        } else if is_outside
            && letter == ' '
            && !part.is_empty()
            && end.is_none_or(|end| letters.get(end) == Some(&'<'))
            && (next.is_ascii_alphabetic() || "_~{<".contains(next))
            && !begins(letters, place + 1, "const")
        {
            // The text so far was the return type.
            parts.clear();
            part.clear();
            end = None;
        } else if "<([".contains(letter) {
            if is_outside && part.is_empty() {
                opened = opened.or(Some(place));
            }
            if is_outside && !part.is_empty() {
                end = end.or(Some(place));
            }
            depth += 1;
        } else if ")]".contains(letter) || letter == '>' && (place == 0 || letters[place - 1] != '-') {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                closed = closed.or(Some(place));
            }
        } else if depth == 0 && end.is_none() {
            match letter {
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                _ => {}
            }
            part.push(letter);
        }
        place += 1;
    }
    let is_named = !part.is_empty();
    add(&mut parts, &mut part, opened, closed);
    if parts.is_empty() || !is_named {
        return whole();
    }
    // Closures and operators are identified by what contains them.
    let needs_more = |part: &String| {
        let is_operator = |rest: &str| !rest.starts_with(is_word);
        part.starts_with('{') || part.strip_prefix("operator").is_some_and(is_operator)
    };
    let last = parts.iter().rev().take_while(|part| needs_more(part)).count();
    let least = (last + 1).min(parts.len());
    NameParts { parts, least }
}

/// Returns the end of a name such as `[libc.so.6]+0x1234`, of functions without a symbol.
fn offset_in_object(letters: &[char]) -> Option<String> {
    let bracket = letters.iter().rposition(|&letter| letter == ']')?;
    let (object, offset) = letters.split_at(bracket + 1);
    let is_offset =
        offset.len() > 3 && begins(offset, 0, "+0x") && offset[3..].iter().all(char::is_ascii_hexdigit);
    (object[0] == '[' && is_offset).then(|| offset.iter().collect())
}

/// Returns a Go name without the path of the package.
fn package_and_function(letters: &[char]) -> Option<String> {
    let first = *letters.first()?;
    let is_path = first.is_ascii_alphanumeric() || "_.-".contains(first);
    if !is_path || letters.contains(&' ') {
        return None;
    }
    let bracket = letters.iter().position(|letter| "([".contains(*letter)).unwrap_or(letters.len());
    let slash = letters[..bracket].iter().rposition(|&letter| letter == '/')?;
    Some(letters[slash + 1..].iter().collect())
}

/// Returns the type in leading brackets: of `&mut a::B as c::D` it is `a::B`.
fn type_parts(letters: &[char], level: usize) -> Vec<String> {
    let is_for = begins(letters, 0, "impl ");
    let (mut from, mut to) = (0, letters.len());
    let mut depth = 0_i64;
    for (place, &letter) in letters.iter().enumerate() {
        if "<([".contains(letter) {
            depth += 1;
        } else if ")]".contains(letter) || letter == '>' && (place == 0 || letters[place - 1] != '-') {
            depth -= 1;
        } else if depth == 0 && is_for && begins(letters, place, " for ") {
            from = place + 5;
        } else if depth == 0 && !is_for && begins(letters, place, " as ") {
            to = to.min(place);
        }
    }
    let mut plain = &letters[from.min(to)..to];
    loop {
        let words = ["&", "*", "mut ", "const ", "dyn ", "impl "];
        let Some(word) = words.iter().find(|word| begins(plain, 0, word)) else { break };
        plain = &plain[word.len()..];
    }
    match plain.first() {
        Some(first) if first.is_ascii_alphabetic() || "_<".contains(*first) => scanned(plain, level).parts,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_function_of_a_name() {
        let long = "std::map<std::string, std::vector<int> >::lower_bound(std::string const&) const";
        let cases = [
            ("main", 4, "main"),
            ("read_line_by_line", 8, "read_li…"),
            ("main", 2, ""),
            ("naïve_𝒻𝓊𝓃𝒸", 9, "naïve_𝒻…"),
            (long, 100, long),
            (long, 40, "std::map::lower_bound"),
            (long, 20, "map::lower_bound"),
            (long, 12, "lower_bound"),
            (long, 8, "lower_b…"),
            ("<alloc::vec::Vec<u8> as core::ops::Drop>::drop", 30, "alloc::vec::Vec::drop"),
            ("<alloc::vec::Vec<u8> as core::ops::Drop>::drop", 10, "Vec::drop"),
            ("<&mut dyn std::io::Read as a::B<c>>::read", 12, "Read::read"),
            ("core::fmt::<impl a::Debug for b::C>::fmt", 8, "C::fmt"),
            ("a::b::run::{{closure}}", 16, "run::{{closure}}"),
            ("a::b::run::{closure#0}::{closure#1}", 4, "run…"),
            ("void acme::sort<int*>(int*, int*)", 20, "acme::sort"),
            ("std::vector<int> make<int>(int)", 10, "make"),
            ("run(int)::{lambda(long&)#1}::operator()(long&) const", 40, "run::{lambda#1}::operator()"),
            ("bool std::operator< <char>(a const&)", 20, "std::operator<"),
            ("a::operator new[](unsigned long)", 20, "a::operator new[]"),
            ("(anonymous namespace)::read(int)", 10, "read"),
            ("foo(std::function<void ()>) [clone .cold]", 20, "foo"),
            ("a::f() const::{lambda()#1}::g", 9, "g"),
            ("encoding/json.(*decodeState).value", 30, "json.(*decodeState).value"),
            ("github.com/a/b.Map[a/b.C]", 12, "b.Map[a/b.C]"),
            ("GC (full, of all that there is)", 10, "GC (full,…"),
            ("LazyCompile:~f /src/x.js:12", 20, "LazyCompile:~f /src…"),
            ("[libc.so.6]+0x123456789", 12, "+0x123456789"),
            ("[libc.so.6]+0x123456789", 9, "+0x12345…"),
            ("[a(b)::c]+0xf", 8, "+0xf"),
            ("[libc.so.6]+0x", 8, "[libc.s…"),
            ("a]+0x12345678", 8, "a]+0x12…"),
            ("a<b, c->d>::e", 6, "a::e"),
            ("::", 1, ""),
            ("a::b::", 5, "a::b…"),
            ("<<<<::>>>", 5, "<<<<…"),
        ];
        for (name, room, expected) in cases {
            assert_eq!(fitted(name, room), expected, "{name} in {room}");
        }
    }

    #[test]
    fn handles_long_and_malformed_names() {
        for piece in
            ["<", "(", ">", "::", "{", "}", "a::<", "<a as ", "operator", "operator<", " ", "-> ", "𝒻"]
        {
            let name = piece.repeat(100_000);
            assert!(fitted(&name, 10).encode_utf16().count() <= 10, "{piece}");
        }
    }
}
