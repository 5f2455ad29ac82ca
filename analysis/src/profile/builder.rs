//! Builder of profiles, which returns the existing ID for an equal item.

use super::{
    Function, FunctionId, Label, LabelSetId, LabelSets, Location, LocationId, Mapping, MappingId, Profile,
    ValueType,
};
use foldhash::fast::RandomState;
use std::{collections::HashMap, sync::Arc};

/// A profile under construction.
#[derive(Debug)]
pub struct Builder {
    /// The profile so far. The methods here do not find what was pushed into it directly.
    pub profile: Profile,
    /// By address: mappings of a process do not overlap.
    locations: HashMap<(u64, Option<MappingId>), LocationId, RandomState>,
    functions: HashMap<Function, FunctionId, RandomState>,
    label_sets: LabelSets,
    strings: HashMap<Arc<str>, (), RandomState>,
}

impl Builder {
    /// Creates a builder of a profile without samples.
    pub fn new(sample_types: Vec<ValueType>) -> Self {
        let profile = Profile::new(sample_types);
        let (locations, functions, label_sets, strings) = Default::default();
        Self { profile, locations, functions, label_sets, strings }
    }

    /// Returns the ID of the location at `address` in `mapping`; a new one has no lines.
    pub fn location(&mut self, mapping: Option<MappingId>, address: u64) -> LocationId {
        let locations = &mut self.profile.locations;
        *self.locations.entry((address, mapping)).or_insert_with(|| {
            locations.push(Location { mapping, address, ..Location::default() });
            LocationId::at(locations.len() - 1)
        })
    }

    /// Returns the ID of an equal function, or of the added one.
    pub fn function(&mut self, function: Function) -> FunctionId {
        let functions = &mut self.profile.functions;
        *self.functions.entry(function).or_insert_with_key(|function| {
            functions.push(function.clone());
            FunctionId::at(functions.len() - 1)
        })
    }

    /// Returns the ID of a set of labels.
    ///
    /// Keeps a reference to each text: pass shared copies from [`string`](Self::string).
    pub fn label_set(&mut self, labels: &[Label]) -> LabelSetId {
        self.label_sets.intern(&mut self.profile.label_sets, labels)
    }

    /// Releases copies of labels' texts, after each of many profiles.
    pub(super) fn forget_label_texts(&mut self) {
        self.label_sets.forget_copies();
    }

    /// Returns the shared copy of a text.
    pub fn string(&mut self, text: &str) -> Arc<str> {
        if let Some((known, ())) = self.strings.get_key_value(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.strings.insert(new.clone(), ());
        new
    }

    /// Adds a mapping and returns its ID.
    pub fn mapping(&mut self, mapping: Mapping) -> MappingId {
        self.profile.mappings.push(mapping);
        MappingId::at(self.profile.mappings.len() - 1)
    }

    /// Returns the profile.
    pub fn finish(self) -> Profile {
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::LabelValue;

    #[test]
    fn returns_the_same_id_for_equal_items() {
        let mut builder = Builder::new(Profile::cpu_types());
        let first = builder.location(None, 1);
        assert_ne!(builder.location(Some(MappingId(0)), 1), first);
        assert_eq!(builder.location(None, 1), first);

        let name = builder.string("main");
        assert!(Arc::ptr_eq(&name, &builder.string("main")));
        let function = Function { name: name.clone(), system_name: name.clone(), file: name, start_line: 3 };
        let id = builder.function(function.clone());
        assert_eq!(builder.function(function.clone()), id);
        assert_ne!(builder.function(Function { start_line: 4, ..function }), id);

        assert_eq!(builder.label_set(&[]), LabelSetId(0));
        let label = Label { key: "tid".into(), value: LabelValue::Number(7, "".into()) };
        assert_eq!(builder.label_set(std::slice::from_ref(&label)), LabelSetId(1));
        assert_eq!(builder.label_set(&[label]), LabelSetId(1));
        assert_eq!((builder.finish().locations.len()), 2);
    }
}
