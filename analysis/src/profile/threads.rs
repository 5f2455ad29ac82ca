//! Threads of a profile, from the labels of its samples.

use super::{Label, LabelSetId, LabelValue, Profile, label};
use std::collections::HashMap;

/// A thread and its process, as far as labels have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Thread {
    pub(crate) rank: Option<i64>,
    pub(crate) process_id: Option<i64>,
    pub(crate) process: Option<String>,
    pub(crate) id: Option<i64>,
    name: Option<String>,
}

impl Thread {
    fn of(labels: &[Label]) -> Self {
        let mut thread = Self::default();
        for Label { key, value } in labels {
            match (&**key, value) {
                (label::RANK, LabelValue::Number(rank, _)) => thread.rank = Some(*rank),
                (label::PROCESS_ID, LabelValue::Number(id, _)) => thread.process_id = Some(*id),
                (label::THREAD_ID, LabelValue::Number(id, _)) => thread.id = Some(*id),
                (label::PROCESS, LabelValue::Text(name)) if !name.is_empty() => {
                    thread.process = Some(name.to_string());
                }
                (label::THREAD, LabelValue::Text(name)) if !name.is_empty() => {
                    thread.name = Some(name.to_string());
                }
                _ => {}
            }
        }
        if thread.process.is_none() && thread.id.is_some() && thread.id == thread.process_id {
            thread.process.clone_from(&thread.name);
        }
        thread
    }

    /// Returns its name, or `thread 17`; None if only its process is known.
    pub(crate) fn name(&self) -> Option<String> {
        self.name.clone().or_else(|| self.id.map(|id| format!("thread {id}")))
    }

    /// Returns its name and ID, and process and rank if `has_process`: `worker (17), server (15)`.
    fn title(&self, has_process: bool) -> Option<String> {
        let part = |name: &Option<String>, id: Option<i64>, kind: &str| match (name, id) {
            (Some(name), Some(id)) => Some(format!("{name} ({id})")),
            (Some(name), None) => Some(name.clone()),
            (None, Some(id)) => Some(format!("{kind} {id}")),
            (None, None) => None,
        };
        let thread = part(&self.name, self.id, "thread");
        let process = part(&self.process, self.process_id, "process").filter(|_| has_process);
        let rank = self.rank.filter(|_| has_process).map(|rank| format!("rank {rank}"));
        let parts: Vec<String> = [thread, process, rank].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The threads that have samples, and the thread of each set of labels.
///
/// A thread is identified by rank, process and thread ID, or in a comparison, where IDs differ, by
/// names.
/// Names are the last ones; a process without a name has that of its first thread.
#[derive(Debug)]
pub(crate) struct Threads {
    threads: Vec<Thread>,
    of_sets: Vec<Option<usize>>,
    has_processes: bool,
}

impl Threads {
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut has_samples = vec![false; profile.label_sets.len()];
        profile.samples.iter().for_each(|sample| has_samples[sample.labels.index()] = true);
        let is_comparison = profile.base_sets().is_some();
        let mut last: HashMap<Thread, Thread> = HashMap::new();
        let mut processes: HashMap<i64, String> = HashMap::new();
        let keys: Vec<Option<Thread>> = profile
            .label_sets
            .iter()
            .zip(has_samples)
            .map(|(labels, has_samples)| {
                let mut thread = has_samples.then(|| Thread::of(labels))?;
                if is_comparison {
                    thread.process_id.take_if(|_| thread.process.is_some());
                    thread.id.take_if(|_| thread.name.is_some());
                }
                if let (Some(id), Some(name)) = (thread.process_id, &thread.process) {
                    processes.insert(id, name.clone());
                }
                let mut key = thread.clone();
                if key.id.is_some() {
                    (key.process, key.name) = (None, None);
                }
                let before = last.entry(key.clone()).or_default();
                let name = thread.name.take().or_else(|| before.name.take());
                *before = Thread { name, ..thread };
                Some(key)
            })
            .collect();
        for thread in last.values_mut() {
            thread.process =
                thread.process_id.and_then(|id| processes.get(&id).cloned()).or(thread.process.take());
        }
        let mut sorted: Vec<(&Thread, &Thread)> = last.iter().collect();
        sorted.sort_unstable_by_key(|&(key, thread)| (thread, key));
        let places: HashMap<&Thread, usize> =
            sorted.iter().enumerate().map(|(place, &(key, _))| (key, place)).collect();
        let of_sets = keys.iter().map(|key| key.as_ref().map(|key| places[key])).collect();
        let threads: Vec<Thread> = sorted.iter().map(|&(_, thread)| thread.clone()).collect();
        let process = |thread: &Thread| (thread.rank, thread.process_id, thread.process.clone());
        let has_processes = threads.iter().any(|thread| process(thread) != process(&threads[0]));
        Self { threads, of_sets, has_processes }
    }

    /// Returns the index of the thread of samples with these labels.
    ///
    /// # Panics
    /// If no sample has these labels.
    pub(crate) fn place(&self, labels: LabelSetId) -> usize {
        self.of_sets[labels.index()].expect("a sample has these labels")
    }

    /// Iterates over threads and titles (None if unnamed), sorted by process and ID.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Thread, Option<String>)> {
        self.threads.iter().map(|thread| (thread, thread.title(self.has_processes)))
    }

    /// Returns the indices of the samples of each thread.
    pub(crate) fn samples(&self, profile: &Profile) -> Vec<Vec<usize>> {
        let mut samples = vec![Vec::new(); self.threads.len()];
        for (place, sample) in profile.samples.iter().enumerate() {
            samples[self.place(sample.labels)].push(place);
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Builder, compare};
    use std::path::Path;

    /// A sample for each process ID and name, thread ID and name; 0 and empty if unknown.
    fn profile(threads: &[(i64, &str, i64, &str)]) -> Profile {
        let mut builder = Builder::new(Profile::cpu_types());
        for (count, &(process_id, process, id, name)) in (1..).zip(threads) {
            let number = |key: &str, value: i64| {
                (value > 0).then(|| Label { key: key.into(), value: LabelValue::Number(value, "".into()) })
            };
            let text =
                |key: &str, value: &str| Label { key: key.into(), value: LabelValue::Text(value.into()) };
            let mut labels = vec![text(label::PROCESS, process), text(label::THREAD, name)];
            labels.extend(number(label::PROCESS_ID, process_id));
            labels.extend(number(label::THREAD_ID, id));
            let labels = builder.label_set(&labels);
            builder.profile.samples.push(&[], &[count, count * 10], labels);
        }
        builder.finish()
    }

    fn titles(profile: &Profile) -> Vec<String> {
        Threads::of(profile).iter().map(|(_, title)| title.unwrap_or_else(|| "-".into())).collect()
    }

    #[test]
    fn shows_a_renamed_thread_once_with_its_last_name() {
        let before = [(15, "sh", 15, "sh"), (15, "sh", 16, "old")];
        let after = [(15, "perl", 15, "perl"), (15, "", 17, "new"), (15, "", 17, "")];
        let profile = profile(&[&before[..], &after].concat());
        assert_eq!(titles(&profile), ["perl (15)", "old (16)", "new (17)"]);
        let threads = Threads::of(&profile);
        assert_eq!(threads.samples(&profile), [vec![0, 2], vec![1], vec![3, 4]]);
        assert!(threads.iter().all(|(thread, _)| thread.process.as_deref() == Some("perl")));
    }

    #[test]
    fn names_the_process_if_there_are_several() {
        let two = profile(&[(15, "a", 17, "worker"), (16, "a", 17, ""), (16, "a", 0, ""), (0, "", 0, "")]);
        assert_eq!(titles(&two), ["-", "worker (17), a (15)", "a (16)", "thread 17, a (16)"]);
        let main = profile(&[(15, "", 15, "main"), (15, "", 17, "worker"), (16, "", 17, "")]);
        assert_eq!(
            titles(&main),
            ["main (15), main (15)", "worker (17), main (15)", "thread 17, process 16"]
        );
        assert_eq!(titles(&profile(&[(15, "a", 0, "")])), ["-"]);
        assert_eq!(titles(&profile(&[(15, "a", 0, "worker"), (15, "a", 17, "")])), ["worker", "thread 17"]);
        assert_eq!(titles(&profile(&[])), [""; 0]);
    }

    #[test]
    fn threads_of_different_ranks_are_different() {
        let mut builder = Builder::new(Profile::cpu_types());
        for rank in [1, 0, 1] {
            let number = |key: &str, value: i64| Label {
                key: key.into(),
                value: LabelValue::Number(value, "".into()),
            };
            let labels = builder.label_set(&[number(label::RANK, rank), number(label::THREAD_ID, 7)]);
            builder.profile.samples.push(&[], &[1, 10], labels);
        }
        let profile = builder.finish();
        assert_eq!(titles(&profile), ["thread 7, rank 0", "thread 7, rank 1"]);
        assert_eq!(Threads::of(&profile).samples(&profile), [vec![1], vec![0, 2]]);
    }

    #[test]
    fn identifies_threads_of_a_comparison_by_name() {
        let new = profile(&[(15, "a", 17, "worker"), (15, "a", 18, ""), (15, "a", 19, "worker")]);
        let old = profile(&[(25, "a", 27, "worker"), (25, "a", 18, "")]);
        let both = compare((Path::new("new"), new), (Path::new("old"), old)).unwrap();
        assert_eq!(titles(&both), ["worker", "thread 18"]);
        assert_eq!(Threads::of(&both).samples(&both), [vec![0, 2, 3], vec![1, 4]]);
    }
}
