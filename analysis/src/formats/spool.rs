//! Reader of spools: the samples of a process that was killed, or has not written its profile yet.

use super::chains::Chains;
use crate::{
    error::{Error, ErrorKind},
    profile::{Label, LabelSetId, LabelValue, Profile, label},
    rank,
};
use sigprof::{
    Thread,
    recover::{RecoverError, Spool},
};
use std::{
    collections::HashMap,
    time::{Duration, UNIX_EPOCH},
};

const MAGIC: &[u8] = b"sigprofS";

pub(super) fn is_spool(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads the samples of a spool, labelled with process and, if recorded, thread.
///
/// # Errors
/// If the process still runs, or the spool cannot be read or is being recovered.
pub fn read(spool: &Spool) -> Result<Profile, Error> {
    let samples = spool.samples().map_err(fails)?;
    let mappings = spool.mappings().map_err(fails)?;
    let mut chains = Chains::new(micros(spool.period()));
    chains.reserve(samples.len(), samples.iter().map(|sample| sample.pcs.len()).sum());
    let program = spool.program().file_name().unwrap_or_default().to_string_lossy();
    let id = LabelValue::Number(i64::from(spool.process()), "".into());
    let mut common = vec![
        Label { key: label::PROCESS.into(), value: LabelValue::Text(program.into()) },
        Label { key: label::PROCESS_ID.into(), value: id },
    ];
    common.extend(rank::in_target(spool.target()).map(rank::label));
    let mut threads = ThreadLabels::new(common);
    for sample in samples {
        let labels = threads.get(&mut chains, sample.thread);
        chains.push(sample.count, sample.pcs.into_iter(), labels);
    }
    let mut profile = chains.finish(&mappings, Some(spool.process()));
    let started = spool.started().duration_since(UNIX_EPOCH).unwrap_or_default();
    profile.time_nanos = i64::try_from(started.as_nanos()).unwrap_or(0);
    Ok(profile)
}

pub(super) fn fails(error: RecoverError) -> Error {
    Error::new(ErrorKind::Format, error.to_string()).caused_by(error)
}

#[derive(Debug)]
pub(super) struct ThreadLabels {
    common: Vec<Label>,
    known: HashMap<Option<Thread>, LabelSetId>,
}

impl ThreadLabels {
    pub(super) fn new(common: Vec<Label>) -> Self {
        Self { common, known: HashMap::new() }
    }

    /// Returns the labels of a thread, or of samples of unknown threads.
    pub(super) fn get(&mut self, chains: &mut Chains, thread: Option<Thread>) -> LabelSetId {
        *self.known.entry(thread).or_insert_with(|| {
            let mut labels = self.common.clone();
            if let Some(thread) = thread {
                let name = LabelValue::Text(thread.name.to_string().into());
                let id = LabelValue::Number(i64::from(thread.id), "".into());
                labels.push(Label { key: label::THREAD.into(), value: name });
                labels.push(Label { key: label::THREAD_ID.into(), value: id });
            }
            chains.labels(&labels)
        })
    }
}

/// A period in microseconds, the unit of the CPU profile format.
pub(super) fn micros(period: Duration) -> u64 {
    u64::try_from(period.as_micros()).unwrap_or(u64::MAX)
}
