//! Functions of `.symtab` and `.dynsym`.
//!
//! One pass over the table looks all addresses up; symbols without samples are not stored.

use super::{image::Image, texts::Texts};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SymbolKind, elf::SHF_EXECINSTR,
};
use std::{collections::HashMap, ops::Range, sync::Arc};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// The linker name, without a version such as `@@GLIBC_2.14`.
    pub(super) name: Arc<str>,
    /// Its code; without a size, up to the next symbol or the section's end.
    pub(super) range: Range<u64>,
    /// It is not local.
    pub(super) is_public: bool,
}

impl Symbol {
    fn of(candidate: &Candidate<'_>, end: u64, texts: &Texts) -> Self {
        let (name, is_public) = (texts.get(plain_name(candidate.name)), !candidate.is_local);
        Self { name, range: candidate.start..end, is_public }
    }
}

#[derive(Clone, Copy)]
struct Candidate<'data> {
    start: u64,
    end: u64,
    is_local: bool,
    name: &'data [u8],
}

impl Candidate<'_> {
    /// Orders candidates: the highest start, then the longest range, then the plainest name.
    fn preference(&self) -> impl Ord + use<'_> {
        let underscores = leading_underscores(self.name);
        (u64::MAX - self.start, u64::MAX - self.end, self.is_local, underscores, self.name.len(), self.name)
    }

    fn is_better_than(&self, other: Option<Self>) -> bool {
        other.is_none_or(|other| self.preference() < other.preference())
    }
}

/// Counts leading underscores: more mean a more internal name.
pub(super) fn leading_underscores(name: &[u8]) -> usize {
    name.iter().take_while(|&&byte| byte == b'_').count()
}

/// Best symbols for an address.
#[derive(Clone)]
struct NearestSymbol<'data> {
    /// The best sized symbol that contains the address.
    sized: Option<Candidate<'data>>,
    /// The best label (symbol without size) between the previous address and this one.
    label: Option<(Candidate<'data>, u64)>,
    /// The highest and lowest start of symbols between the previous address and this one.
    highest: u64,
    lowest: u64,
}

/// Looks up sorted `addresses` in both tables of the file.
pub(super) fn find(image: &Image, texts: &Texts, addresses: &[u64]) -> Vec<Option<Symbol>> {
    let none = NearestSymbol { sized: None, label: None, highest: 0, lowest: u64::MAX };
    // Another element for symbols after the last address.
    let mut found = vec![none; addresses.len() + 1];
    let Some(elf) = image.elf() else { return vec![None; addresses.len()] };
    let mut code: HashMap<usize, Option<u64>> = HashMap::new();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        // `SymbolKind::Unknown` is an assembly label without a type.
        if !matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown) {
            continue;
        }
        let Some(section) = symbol.section_index() else { continue };
        let section_end = code.entry(section.0).or_insert_with(|| {
            let section = elf.section_by_index(section).ok()?;
            let SectionFlags::Elf { sh_flags } = section.flags() else { return None };
            let is_code = sh_flags & u64::from(SHF_EXECINSTR) != 0;
            is_code.then(|| section.address().saturating_add(section.size()))
        });
        let (Some(section_end), Ok(name)) = (*section_end, symbol.name_bytes()) else { continue };
        if name.is_empty() || is_mapping_symbol(name) {
            continue;
        }
        let start = symbol.address();
        let end = start.saturating_add(symbol.size());
        let candidate = Candidate { start, end, is_local: symbol.is_local(), name };
        let first = addresses.partition_point(|&address| address < start);
        let place = &mut found[first];
        place.highest = place.highest.max(start);
        place.lowest = place.lowest.min(start);
        if start == end {
            if candidate.is_better_than(place.label.map(|(label, _)| label)) {
                place.label = Some((candidate, section_end));
            }
            continue;
        }
        for (place, _) in found[first..].iter_mut().zip(&addresses[first..]).take_while(|(_, at)| **at < end)
        {
            if candidate.is_better_than(place.sized) {
                place.sized = Some(candidate);
            }
        }
    }
    choose(&found, texts, addresses)
}

/// Chooses symbols. A label extends to the next symbol, unless it is inside a function.
fn choose(found: &[NearestSymbol<'_>], texts: &Texts, addresses: &[u64]) -> Vec<Option<Symbol>> {
    let mut nexts = vec![u64::MAX; found.len()];
    for place in (1..found.len()).rev() {
        nexts[place - 1] = nexts[place].min(found[place].lowest);
    }
    let (mut label, mut highest) = (None, 0);
    let mut symbols = Vec::with_capacity(addresses.len());
    for (place, &address) in addresses.iter().enumerate() {
        highest = highest.max(found[place].highest);
        label = found[place].label.or(label);
        symbols.push(if let Some(sized) = found[place].sized {
            Some(Symbol::of(&sized, sized.end, texts))
        } else {
            label.and_then(|(label, section_end)| {
                let end = nexts[place].min(section_end);
                let is_around = label.start >= highest && address < end;
                is_around.then(|| Symbol::of(&label, end, texts))
            })
        });
    }
    symbols
}

/// True for Arm's mapping symbols: `$a`, `$d`, `$t` or `$x`, with an optional suffix after a dot
/// (ELF for the Arm Architecture, "Mapping symbols"). Swift names also begin with `$`.
fn is_mapping_symbol(name: &[u8]) -> bool {
    matches!(name, [b'$', b'a' | b'd' | b't' | b'x'] | [b'$', b'a' | b'd' | b't' | b'x', b'.', ..])
}

fn plain_name(name: &[u8]) -> &[u8] {
    // A leading @ is not a version, and `@plt` marks a PLT entry.
    let version = name.iter().skip(1).position(|&byte| byte == b'@').filter(|_| !name.ends_with(b"@plt"));
    &name[..version.map_or(name.len(), |before| before + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_arm_mapping_symbols_from_swift_names() {
        for name in ["$a", "$d", "$t", "$x", "$x.12", "$d.realdata"] {
            assert!(is_mapping_symbol(name.as_bytes()), "{name}");
        }
        for name in ["$s4demo6crunchyyF", "$a1", "$x_", "$xa.b", "$", "$b", "x", "$S", "$data"] {
            assert!(!is_mapping_symbol(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn removes_versions_from_names() {
        let cases = [
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("memcpy@GLIBC_2.2.5", "memcpy"),
            ("memcpy@plt", "memcpy@plt"),
            ("@start", "@start"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(plain_name(name.as_bytes()), expected.as_bytes());
        }
    }
}
