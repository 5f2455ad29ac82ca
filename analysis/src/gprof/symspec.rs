//! Symspecs: functions by name, file and line, as options name them.
//!
//! Source: GNU gprof manual, section 4.5.

use super::symbols::Symbol;

/// Functions of a name, in a file, or that begin at a line. A part that is None matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symspec {
    /// All of the text, which can be a name with dots and colons. None for GNU gprof.
    whole: Option<String>,
    file: Option<String>,
    function: Option<String>,
    line: Option<u64>,
}

impl Symspec {
    /// Parses `[file:]function`, `[file:]line` or `file`. A word without a colon is a file if it has
    /// a dot, a line if it begins with a digit, and otherwise a function.
    pub(super) fn parse(text: &str, is_compatible: bool) -> Self {
        // For GNU gprof, the rest of a path is the callee of an arc.
        let text = if is_compatible { text.split('/').next().unwrap_or(text) } else { text };
        let some = |part: &str| (!part.is_empty()).then(|| part.to_owned());
        let (file, rest) = match text.rsplit_once(':') {
            Some((file, rest)) => (some(file), rest),
            None if text.contains('.') => (some(text), ""),
            None => (None, text),
        };
        let whole = some(text).filter(|_| !is_compatible);
        let digits = rest.split(|character: char| !character.is_ascii_digit()).next().unwrap_or("");
        let line = (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX));
        let function = if line.is_none() { some(rest) } else { None };
        Self { whole, file, function, line }
    }

    /// True for a function with the linker's name, or the printed `name` with or without parameters.
    /// The file can have directories. GNU gprof only knows linker's names, and files without them.
    pub(super) fn matches(&self, symbol: &Symbol, name: &str, is_compatible: bool) -> bool {
        let without_parameters = name.split('(').next().unwrap_or(name);
        let is_named = |wanted: &String| {
            *wanted == symbol.name || !is_compatible && (wanted == name || wanted == without_parameters)
        };
        let source = symbol.source.as_ref();
        let is_in = |wanted: &String| {
            let rest = source.and_then(|source| source.file.strip_suffix(wanted.as_str()));
            let rest = rest.filter(|_| !is_compatible || !wanted.contains('/'));
            rest.is_some_and(|directory| directory.is_empty() || directory.ends_with('/'))
        };
        let matches_parts = self.function.as_ref().is_none_or(is_named)
            && self.file.as_ref().is_none_or(is_in)
            && self.line.is_none_or(|line| source.is_some_and(|source| source.line == line));
        matches_parts || self.whole.as_ref().is_some_and(is_named)
    }
}

/// Calls between functions that two symspecs name.
#[derive(Clone, Debug)]
pub(super) struct ArcSpec {
    pub(super) from: Symspec,
    pub(super) to: Symspec,
}

impl ArcSpec {
    /// Parses `from/to`.
    pub(super) fn parse(text: &str, is_compatible: bool) -> Option<Self> {
        let (from, to) = text.split_once('/')?;
        Some(Self { from: Symspec::parse(from, is_compatible), to: Symspec::parse(to, is_compatible) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolize::SourceLine;

    #[track_caller]
    fn matches(text: &str, is_compatible: bool) -> bool {
        let symbol = Symbol {
            name: "_ZN2ns1fEi".into(),
            start: 0,
            end: 1,
            function_end: 1,
            is_function: true,
            is_line: false,
            is_static: false,
            source: Some(SourceLine { file: "/src/lib/file.cc".into(), line: 12 }),
        };
        Symspec::parse(text, is_compatible).matches(&symbol, "ns::f(int)", is_compatible)
    }

    #[test]
    fn functions_files_and_lines() {
        // For GNU gprof, the last one is empty, and matches all.
        let both = [
            "_ZN2ns1fEi",
            "file.cc",
            "file.cc:_ZN2ns1fEi",
            "file.cc:12",
            "12",
            ":12",
            "file.cc:",
            "/src/lib/file.cc",
        ];
        let ours = ["ns::f", "ns::f(int)", "lib/file.cc", "lib/file.cc:12"];
        let none = ["f", "ile.cc", "file.cc:13", "13", "1", "ns", "ns::g", "other.cc:_ZN2ns1fEi", "cc"];
        for (texts, as_gnu, as_ours) in
            [(&both[..], true, true), (&ours[..], false, true), (&none[..], false, false)]
        {
            for text in texts {
                assert_eq!(matches(text, true), as_gnu, "{text} for GNU gprof");
                assert_eq!(matches(text, false), as_ours, "{text}");
            }
        }
    }

    #[test]
    fn arcs_have_a_slash() {
        let arc = ArcSpec::parse("a.c:f/b.c:g", true).expect("an arc");
        assert_eq!((arc.from, arc.to), (Symspec::parse("a.c:f", true), Symspec::parse("b.c:g", true)));
        assert!(ArcSpec::parse("f", true).is_none());
    }
}
