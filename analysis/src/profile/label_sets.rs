//! Interning of sets of labels.

use super::{Label, LabelSetId, LabelValue};
use foldhash::fast::RandomState;
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    sync::Arc,
};

/// Interns sets of labels by content.
///
/// A long text may be in many sets, so its bytes are compared only once. The text is kept so that
/// its address is not reused; later the address leads directly to the first equal text. The sets
/// contain first texts only, so two sets are equal if the addresses are.
#[derive(Debug, Default)]
pub(crate) struct LabelSets {
    first: HashSet<Arc<str>, RandomState>,
    /// By address: the text at that address, and the first equal text.
    copies: HashMap<usize, (Arc<str>, Arc<str>), RandomState>,
    known: HashTable<u32>,
    hashes: RandomState,
    /// The set to look up, as first texts.
    wanted: Vec<Label>,
}

impl LabelSets {
    /// Returns the ID of a set, and adds a new one to `sets`, which is the same list in each call.
    pub(crate) fn intern(&mut self, sets: &mut Vec<Vec<Label>>, labels: &[Label]) -> LabelSetId {
        if labels.is_empty() {
            return LabelSetId(0);
        }
        self.wanted.clear();
        for Label { key, value } in labels {
            let value = match value {
                LabelValue::Text(text) => LabelValue::Text(self.first(text)),
                LabelValue::Number(number, unit) => LabelValue::Number(*number, self.first(unit)),
            };
            let key = self.first(key);
            self.wanted.push(Label { key, value });
        }
        let Self { known, hashes, wanted, .. } = self;
        let hash = |set: &[Label]| {
            let mut hasher = hashes.build_hasher();
            set.iter().for_each(|label| identity(label).hash(&mut hasher));
            hasher.finish()
        };
        let is_equal =
            |&place: &u32| sets[place as usize].iter().map(identity).eq(wanted.iter().map(identity));
        match known.entry(hash(wanted), is_equal, |&place| hash(&sets[place as usize])) {
            Entry::Occupied(known) => LabelSetId(*known.get()),
            Entry::Vacant(vacant) => {
                let id = LabelSetId::at(sets.len());
                vacant.insert(id.0);
                sets.push(wanted.clone());
                id
            }
        }
    }

    /// Returns the first text that is equal to `text`.
    fn first(&mut self, text: &Arc<str>) -> Arc<str> {
        let Self { first, copies, .. } = self;
        let compare = || {
            let known = first.get(text).cloned().unwrap_or_else(|| text.clone());
            first.insert(known.clone());
            (text.clone(), known)
        };
        copies.entry(address(text)).or_insert_with(compare).1.clone()
    }

    /// Releases the texts that are in no set. Later calls compare each of their texts again.
    pub(super) fn forget_copies(&mut self) {
        self.copies.clear();
    }
}

fn address(text: &Arc<str>) -> usize {
    text.as_ptr().addr()
}

/// Addresses of the texts and the number: equal for equal labels if each text has one copy.
fn identity(label: &Label) -> (usize, usize, Option<i64>) {
    let (other, number) = match &label.value {
        LabelValue::Text(text) => (text, None),
        LabelValue::Number(number, unit) => (unit, Some(*number)),
    };
    (address(&label.key), address(other), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_sets_by_content() {
        let set = |key: &str, value: LabelValue| vec![Label { key: key.into(), value }];
        let text = |text: &str| LabelValue::Text(text.into());
        let sets = [
            vec![],
            set("a", text("b")),
            set("a", LabelValue::Number(0, "b".into())),
            set("a", text("b")),
            set("b", text("a")),
            set("a", LabelValue::Number(1, "b".into())),
            set("a", LabelValue::Number(0, "b".into())),
            [set("a", text("b")), set("b", text("a"))].concat(),
            vec![],
        ];
        let (mut known, mut list) = (LabelSets::default(), vec![Vec::new()]);
        let numbers = sets.each_ref().map(|set| known.intern(&mut list, set).0);
        assert_eq!(numbers, [0, 1, 2, 1, 3, 4, 2, 5, 0]);
        assert_eq!(list, [0, 1, 2, 4, 5, 7].map(|place| sets[place].clone()));
    }

    #[test]
    fn finds_sets_after_text_copies_were_released() {
        let (mut known, mut list) = (LabelSets::default(), vec![Vec::new()]);
        for round in 0..3 {
            for number in 0..100 {
                let text = LabelValue::Text(format!("{number:04}").into());
                let id = known.intern(&mut list, &[Label { key: "key".into(), value: text }]);
                assert_eq!(id.0, number + 1, "in round {round}");
            }
            assert_eq!((known.first.len(), known.copies.len()), (101, 200));
            known.forget_copies();
        }
    }

    #[test]
    fn distinguishes_texts_that_reuse_a_freed_address() {
        let (mut known, mut list) = (LabelSets::default(), vec![Vec::new()]);
        for number in 0..1000 {
            let text = LabelValue::Text(format!("{number:04}").into());
            let id = known.intern(&mut list, &[Label { key: "key".into(), value: text }]);
            assert_eq!(id.0, number + 1);
        }
    }
}
