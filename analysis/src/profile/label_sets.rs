//! Sets of labels: equal sets are kept once.

use super::{Label, LabelSetId, LabelValue};
use foldhash::fast::RandomState;
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    sync::Arc,
};

/// Finds the number of a set of labels by what is in it.
///
/// A long text may be in each of many sets, so its bytes are compared only once. It is kept, so that no other text gets its
/// address, and the address then leads to the first text that was equal to it. The sets consist of first texts: two sets are equal
/// if the addresses are.
#[derive(Debug, Default)]
pub(crate) struct LabelSets {
    first: HashSet<Arc<str>, RandomState>,
    /// By address: the text that has it, and the first text that is equal.
    copies: HashMap<usize, (Arc<str>, Arc<str>), RandomState>,
    /// Places in the profile's list of sets.
    known: HashTable<u32>,
    hashes: RandomState,
    /// The set that is looked up, of first texts.
    wanted: Vec<Label>,
}

impl LabelSets {
    /// The number of a set in `sets`, to which it is added if it is new. Each call gets the same list; its first set is empty.
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

    /// The first text that is equal to `text`.
    fn first(&mut self, text: &Arc<str>) -> Arc<str> {
        let Self { first, copies, .. } = self;
        let compare = || {
            let known = first.get(text).cloned().unwrap_or_else(|| text.clone());
            first.insert(known.clone());
            (text.clone(), known)
        };
        copies.entry(address(text)).or_insert_with(compare).1.clone()
    }

    /// Releases the texts that are in no set. The next call compares each of its texts again.
    pub(super) fn forget_copies(&mut self) {
        self.copies.clear();
    }
}

fn address(text: &Arc<str>) -> usize {
    text.as_ptr().addr()
}

/// Equal for equal labels if each of their texts has one copy: the addresses of the texts, and the number.
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
    fn sets_are_equal_by_what_their_texts_are() {
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
    fn sets_are_found_when_the_copies_of_their_texts_were_forgotten() {
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

    /// Texts are freed, and others take their addresses.
    #[test]
    fn what_was_freed_is_not_taken_for_what_has_its_address() {
        let (mut known, mut list) = (LabelSets::default(), vec![Vec::new()]);
        for number in 0..1000 {
            let text = LabelValue::Text(format!("{number:04}").into());
            let id = known.intern(&mut list, &[Label { key: "key".into(), value: text }]);
            assert_eq!(id.0, number + 1);
        }
    }
}
