//! The samples of each thread, for formats that show threads one by one.

use crate::profile::{Label, LabelValue, Profile, label};
use std::collections::BTreeMap;

/// A thread, or all samples of whose thread nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadKey {
    pub(super) process_id: Option<i64>,
    pub(super) process: Option<String>,
    pub(super) id: Option<i64>,
    pub(super) name: Option<String>,
}

impl ThreadKey {
    fn of(labels: &[Label]) -> Self {
        let mut key = Self::default();
        for Label { key: what, value } in labels {
            match (&**what, value) {
                (label::PROCESS_ID, LabelValue::Number(id, _)) => key.process_id = Some(*id),
                (label::THREAD_ID, LabelValue::Number(id, _)) => key.id = Some(*id),
                (label::PROCESS, LabelValue::Text(name)) => key.process = Some(name.to_string()),
                (label::THREAD, LabelValue::Text(name)) => key.name = Some(name.to_string()),
                _ => {}
            }
        }
        key
    }

    /// As `worker (17)`, with the process before it where there is one.
    pub(super) fn title(&self) -> String {
        let part = |name: &Option<String>, id: Option<i64>| match (name, id) {
            (Some(name), Some(id)) => format!("{name} ({id})"),
            (Some(name), None) => name.clone(),
            (None, Some(id)) => id.to_string(),
            (None, None) => String::new(),
        };
        let (process, thread) = (part(&self.process, self.process_id), part(&self.name, self.id));
        match (process.is_empty(), thread.is_empty()) {
            (true, true) => "all threads".into(),
            (true, false) => thread,
            (false, true) => process,
            (false, false) => format!("{process}: {thread}"),
        }
    }
}

/// The places of the samples of each thread, by process and id.
pub(super) fn samples_by_thread(profile: &Profile) -> BTreeMap<ThreadKey, Vec<usize>> {
    let mut threads: Vec<(ThreadKey, Vec<usize>)> = Vec::new();
    let mut numbers: BTreeMap<ThreadKey, usize> = BTreeMap::new();
    let of_set: Vec<usize> = profile
        .label_sets
        .iter()
        .map(|labels| {
            let key = ThreadKey::of(labels);
            *numbers.entry(key.clone()).or_insert_with(|| {
                threads.push((key, Vec::new()));
                threads.len() - 1
            })
        })
        .collect();
    for (place, sample) in profile.samples.iter().enumerate() {
        threads[of_set[sample.labels.index()]].1.push(place);
    }
    threads.into_iter().filter(|(_, samples)| !samples.is_empty()).collect()
}
