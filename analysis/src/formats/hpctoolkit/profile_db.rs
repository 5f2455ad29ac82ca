//! profile.db: the values of each thread, by context.

use super::{
    file::{Array, DbFile},
    layout::{
        ContextIndex, IS_SUMMARY, IdTuple, Identifier, MetricValue, PROFILE, Profiles, Record, ThreadProfile,
    },
};
use crate::error::{Error, ErrorKind};

/// The contents of profile.db.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileDb<'a> {
    pub(super) file: DbFile<'a>,
    pub(super) profiles: Array<'a, ThreadProfile>,
}

impl<'a> ProfileDb<'a> {
    /// # Errors
    /// If it is another file, or the list of profiles is damaged.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let file = DbFile::new(PROFILE, bytes)?;
        let head: Profiles = file.head("ProfileInfos")?;
        let profiles = file.array(head.profiles, head.count.into(), head.size.into())?;
        Ok(Self { file, profiles })
    }

    /// Returns the identifiers of a thread: none for a summary of all.
    pub(super) fn identifiers(&self, profile: &ThreadProfile) -> Result<Vec<Identifier>, Error> {
        if profile.id_tuple == 0 {
            return Ok(Vec::new());
        }
        let tuple: IdTuple = self.file.record(profile.id_tuple)?;
        let start = profile.id_tuple.saturating_add(IdTuple::SIZE as u64);
        Ok(self.file.array::<Identifier>(start, tuple.count.into(), Identifier::SIZE)?.iter().collect())
    }

    /// Calls `add` with each context that has values, and these.
    ///
    /// # Errors
    /// If the profile is damaged, and those of `add`.
    pub(super) fn for_each_context(
        &self,
        profile: &ThreadProfile,
        mut add: impl FnMut(u32, &mut dyn Iterator<Item = MetricValue>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let values: Array<'_, MetricValue> =
            self.file.array(profile.values, profile.value_count, MetricValue::SIZE)?;
        let contexts: Array<'_, ContextIndex> =
            self.file.array(profile.contexts, profile.context_count.into(), ContextIndex::SIZE)?;
        for (place, context) in contexts.iter().enumerate() {
            let is_last = place + 1 == contexts.len();
            let end = if is_last { profile.value_count } else { contexts.get(place + 1).start };
            if context.start > end || end > profile.value_count {
                let reason =
                    format!("context {} has values from {} to {end}", context.context_id, context.start);
                return Err(Error::new(ErrorKind::Format, reason).at_offset(contexts.offset(place)));
            }
            // Both are at most the number of records in memory.
            let range = context.start as usize..end as usize;
            add(context.context_id, &mut range.map(|place| values.get(place)))?;
        }
        Ok(())
    }
}

impl ProfileDb<'_> {
    /// Calls `add` with each value of contexts below `end`, from the index `cursor` on. Returns the
    /// index of the first other context.
    ///
    /// # Errors
    /// If the profile is damaged.
    pub(super) fn contexts_below(
        &self,
        profile: &ThreadProfile,
        cursor: usize,
        end: u32,
        mut add: impl FnMut(u32, MetricValue),
    ) -> Result<usize, Error> {
        let values: Array<'_, MetricValue> =
            self.file.array(profile.values, profile.value_count, MetricValue::SIZE)?;
        let contexts: Array<'_, ContextIndex> =
            self.file.array(profile.contexts, profile.context_count.into(), ContextIndex::SIZE)?;
        for place in cursor..contexts.len() {
            let context = contexts.get(place);
            if context.context_id >= end {
                return Ok(place);
            }
            let is_last = place + 1 == contexts.len();
            let end = if is_last { profile.value_count } else { contexts.get(place + 1).start };
            (context.start as usize..end as usize)
                .for_each(|place| add(context.context_id, values.get(place)));
        }
        Ok(contexts.len())
    }
}

pub(super) fn is_summary(profile: &ThreadProfile) -> bool {
    profile.flags & IS_SUMMARY != 0
}
