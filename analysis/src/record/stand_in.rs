//! Until the formats have them: a spool as a profile, and profiles as one.

use crate::{
    Error,
    error::ErrorKind,
    profile::{Builder, Known, Label, LabelValue, Mapping, MappingId, Profile, ValueType, label},
};
use sigprof::recover::Spool;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

pub(super) fn read(spool: &Spool) -> Result<Profile, Error> {
    let fails =
        |error: sigprof::recover::RecoverError| Error::new(ErrorKind::Io, error.to_string()).caused_by(error);
    let samples = spool.samples().map_err(fails)?;
    let mut builder = Builder::new(Profile::cpu_types());
    let nanos = spool.period().as_nanos() as i64;
    builder.profile.period = nanos;
    builder.profile.period_type = Some(ValueType::new("cpu", "nanoseconds"));
    let mut places: Vec<(u64, u64, MappingId)> = Vec::new();
    for mapping in spool.mappings().map_err(fails)? {
        let id = builder.mapping(Mapping {
            start: mapping.start,
            end: mapping.end,
            file_offset: mapping.offset,
            file: PathBuf::from(OsStr::from_bytes(&mapping.path)),
            build_id: "".into(),
            is_deleted: false,
            process: Some(spool.process()),
            has: Known::default(),
        });
        places.push((mapping.start, mapping.end, id));
    }
    let text = |key: &str, text: &str| Label { key: key.into(), value: LabelValue::Text(text.into()) };
    let number =
        |key: &str, n: u32| Label { key: key.into(), value: LabelValue::Number(n.into(), "".into()) };
    let name = spool.program().file_name().unwrap_or_default().to_string_lossy().into_owned();
    for sample in samples {
        let chain: Vec<_> = sample
            .pcs
            .iter()
            .enumerate()
            .map(|(depth, &pc)| {
                let address = if depth == 0 { pc } else { pc - 1 };
                let place =
                    places.iter().find(|place| (place.0..place.1).contains(&address)).map(|place| place.2);
                builder.location(place, address)
            })
            .collect();
        let mut labels = vec![text(label::PROCESS, &name), number(label::PROCESS_ID, spool.process())];
        if let Some(thread) = sample.thread {
            labels.push(text(label::THREAD, &thread.name.to_string()));
            labels.push(number(label::THREAD_ID, thread.id));
        }
        let labels = builder.label_set(labels);
        builder.profile.samples.push(&chain, &[sample.count as i64, sample.count as i64 * nanos], labels);
    }
    Ok(builder.finish())
}

pub(super) fn merge(profiles: Vec<Profile>) -> Result<Profile, Error> {
    let mut builder = Builder::new(Profile::cpu_types());
    for profile in profiles {
        builder.profile.period = profile.period;
        builder.profile.period_type.clone_from(&profile.period_type);
        let first = builder.profile.mappings.len();
        builder.profile.mappings.extend(profile.mappings.iter().cloned());
        for sample in profile.samples.iter() {
            let chain: Vec<_> = sample
                .chain
                .iter()
                .map(|id| {
                    let location = profile.location(*id);
                    builder.location(
                        location.mapping.map(|id| MappingId::at(id.index() + first)),
                        location.address,
                    )
                })
                .collect();
            let labels = builder.label_set(profile.labels(sample.labels).to_vec());
            builder.profile.samples.push(&chain, sample.values, labels);
        }
    }
    Ok(builder.finish())
}
