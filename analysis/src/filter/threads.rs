//! Filters by thread and process.

use super::labels::keep_sets;
use crate::{
    error::{Error, ErrorKind},
    profile::{Label, LabelValue, Profile, label},
};
use regex::Regex;

/// Filters of threads and processes.
#[derive(Clone, Debug, Default)]
pub struct ThreadFilter {
    /// Keep the samples of threads with a name that matches.
    pub thread: Option<Regex>,
    /// Keep the samples of the thread with this ID.
    pub thread_id: Option<i64>,
    /// Keep the samples of processes with a name that matches.
    pub process: Option<Regex>,
    /// Keep the samples of the process with this ID.
    pub process_id: Option<i64>,
}

impl ThreadFilter {
    /// Applies the filters. Returns the names of those that matched nothing.
    ///
    /// # Errors
    /// If no sample has a label that a filter needs: the profile has no threads or processes.
    pub fn apply(&self, profile: &mut Profile) -> Result<Vec<&'static str>, Error> {
        let mut is_kept = vec![true; profile.label_sets.len()];
        let mut idle = Vec::new();
        let mut judge = |option: &'static str, key: &str, matches: &dyn Fn(&LabelValue) -> bool| {
            let of_key = |labels: &[Label]| labels.iter().find(|label| *label.key == *key).cloned();
            if !profile.label_sets.iter().any(|labels| of_key(labels).is_some()) {
                return Err(missing(option, key));
            }
            let mut is_idle = true;
            for (labels, is_kept) in profile.label_sets.iter().zip(&mut is_kept) {
                let is_match = of_key(labels).is_some_and(|label| matches(&label.value));
                is_idle &= !is_match;
                *is_kept &= is_match;
            }
            idle.extend(is_idle.then_some(option));
            Ok(())
        };
        let text = |expression: &Regex, value: &LabelValue| match value {
            LabelValue::Text(text) => expression.is_match(text),
            LabelValue::Number(..) => false,
        };
        let number =
            |wanted: i64, value: &LabelValue| matches!(value, LabelValue::Number(own, _) if *own == wanted);
        if let Some(expression) = &self.thread {
            judge("thread", label::THREAD, &|value| text(expression, value))?;
        }
        if let Some(id) = self.thread_id {
            judge("tid", label::THREAD_ID, &|value| number(id, value))?;
        }
        if let Some(expression) = &self.process {
            judge("process", label::PROCESS, &|value| text(expression, value))?;
        }
        if let Some(id) = self.process_id {
            judge("pid", label::PROCESS_ID, &|value| number(id, value))?;
        }
        if is_kept.contains(&false) {
            keep_sets(profile, &is_kept);
        }
        Ok(idle)
    }
}

fn missing(option: &str, key: &str) -> Error {
    let what = if matches!(key, label::PROCESS | label::PROCESS_ID) { "process" } else { "thread" };
    let reason = format!("--{option}: samples of this profile have no {what}");
    Error::new(ErrorKind::Request, reason)
        .advise("profiles of `sigprof record` have processes and threads; the CPU profile format does not")
}
