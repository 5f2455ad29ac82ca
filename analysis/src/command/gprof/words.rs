//! Letters and values in the words of a command, as getopt(3) separates them.

use std::ffi::OsString;

/// Options with a value in the same word, such as `-pmain`, or without one.
const WITH_OPTIONAL_VALUE: &str = "pPqQCZAJ";
/// Options with a value in the same or the next word.
const WITH_VALUE: &str = "kneEfFNwOImt";

/// Separates letters and values as getopt(3) does: `-bpmain` becomes `-b -p=main`.
pub(in crate::command) fn separate(words: Vec<OsString>) -> Vec<OsString> {
    let mut separated = Vec::new();
    let mut words = words.into_iter();
    separated.extend(words.by_ref().take(2));
    while let Some(word) = words.next() {
        let letters = word.to_str().and_then(|word| word.strip_prefix('-'));
        let Some(letters) = letters.filter(|rest| !rest.is_empty() && !rest.starts_with('-')) else {
            let is_last = word == "--";
            separated.push(word);
            if is_last {
                separated.extend(words);
                break;
            }
            continue;
        };
        for (place, letter) in letters.char_indices() {
            let rest = &letters[place + letter.len_utf8()..];
            if WITH_OPTIONAL_VALUE.contains(letter) {
                separated.push(
                    if rest.is_empty() { format!("-{letter}") } else { format!("-{letter}={rest}") }.into(),
                );
                break;
            }
            separated.push(format!("-{letter}").into());
            if WITH_VALUE.contains(letter) {
                if rest.is_empty() {
                    separated.extend(words.next());
                } else {
                    separated.push(rest.into());
                }
                break;
            }
        }
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_letters_and_values() {
        for (typed, separated) in [
            ("-bpmain -z prog", "-b -p=main -z prog"),
            ("-p -qa/b prog -- -p", "-p -q=a/b prog -- -p"),
            ("-ka/b -n f -zw40 -O bsd", "-k a/b -n f -z -w 40 -O bsd"),
            ("--flat-profile=main -bp=x -", "--flat-profile=main -b -p==x -"),
        ] {
            let words =
                ["sigprof", "gprof"].into_iter().chain(typed.split(' ')).map(OsString::from).collect();
            let words: Vec<String> =
                separate(words).into_iter().skip(2).map(|word| word.into_string().expect("text")).collect();
            assert_eq!(words.join(" "), separated);
        }
    }
}
