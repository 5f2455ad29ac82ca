//! Writer of pprof's protobuf. One part is in memory at a time; the string table is at the end.

use super::{field, wire::Fields};
use crate::profile::{Label, LabelValue, Location, Mapping, Profile, ValueType};
use flate2::{Compression, write::GzEncoder};
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    io::{self, Write},
    sync::Arc,
};

/// Writes a profile compressed by gzip, as pprof expects in files and from servers.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, out: impl Write) -> io::Result<()> {
    let mut packed = GzEncoder::new(out, Compression::fast());
    write_unpacked(profile, &mut packed)?;
    packed.finish()?.flush()
}

/// Writes an uncompressed profile.
///
/// # Errors
/// Those of `out`.
pub fn write_unpacked(profile: &Profile, out: impl Write) -> io::Result<()> {
    let mut writer = MessageWriter {
        out: io::BufWriter::with_capacity(64 << 10, out),
        places: HashMap::default(),
        texts: Vec::new(),
        part: Fields::default(),
        inner: Fields::default(),
        label: Fields::default(),
    };
    // The first string is empty.
    writer.text(&"".into());
    writer.profile(profile)
}

struct MessageWriter<W: Write> {
    out: io::BufWriter<W>,
    places: HashMap<Arc<str>, i64, RandomState>,
    texts: Vec<Arc<str>>,
    part: Fields,
    inner: Fields,
    label: Fields,
}

impl<W: Write> MessageWriter<W> {
    fn profile(&mut self, profile: &Profile) -> io::Result<()> {
        for sample_type in &profile.sample_types {
            self.value_type(field::SAMPLE_TYPE, sample_type)?;
        }
        let label_sets: Vec<Vec<u8>> = profile.label_sets.iter().map(|set| self.label_set(set)).collect();
        for sample in profile.samples.iter() {
            self.part.clear();
            let ids = sample.chain.iter().map(|id| u64::from(id.0) + 1);
            self.part.packed(1, ids, &mut self.inner);
            self.part.packed(2, sample.values.iter().map(|&value| value as u64), &mut self.inner);
            self.part.bytes.extend_from_slice(&label_sets[sample.labels.index()]);
            self.put(field::SAMPLE)?;
        }
        for (place, mapping) in profile.mappings.iter().enumerate() {
            self.mapping(place, mapping)?;
        }
        for (place, location) in profile.locations.iter().enumerate() {
            self.location(place, location)?;
        }
        for (place, function) in profile.functions.iter().enumerate() {
            let texts = [&function.name, &function.system_name, &function.file].map(|text| self.text(text));
            self.part.clear();
            self.part.number(1, place as u64 + 1);
            for (number, text) in (2..).zip(texts) {
                self.part.signed(number, text);
            }
            self.part.signed(5, function.start_line);
            self.put(field::FUNCTION)?;
        }
        if let Some(period_type) = &profile.period_type {
            self.value_type(field::PERIOD_TYPE, period_type)?;
        }
        self.single(profile)?;
        let texts = std::mem::take(&mut self.texts);
        for text in &texts {
            self.part.clear();
            self.part.bytes(field::STRING, text.as_bytes());
            self.out.write_all(&self.part.bytes)?;
        }
        self.out.flush()
    }

    fn single(&mut self, profile: &Profile) -> io::Result<()> {
        let comments: Vec<i64> = profile.comments.iter().map(|text| self.text(text)).collect();
        let default = profile.sample_types.get(profile.default_type).map(|chosen| self.text(&chosen.kind));
        let numbers = [
            (field::DROP_FRAMES, self.text(&profile.drop_frames)),
            (field::KEEP_FRAMES, self.text(&profile.keep_frames)),
            (field::TIME_NANOS, profile.time_nanos),
            (field::DURATION_NANOS, profile.duration_nanos),
            (field::PERIOD, profile.period),
            (field::DEFAULT_SAMPLE_TYPE, default.unwrap_or(0)),
            (field::DOC_URL, self.text(&profile.doc_url)),
        ];
        self.part.clear();
        for (number, value) in numbers {
            self.part.signed(number, value);
        }
        let comments = comments.into_iter().map(|place| place as u64);
        self.part.packed(field::COMMENT, comments, &mut self.inner);
        self.out.write_all(&self.part.bytes)
    }

    fn put(&mut self, number: u32) -> io::Result<()> {
        self.inner.clear();
        self.inner.prefix(number, self.part.bytes.len());
        self.out.write_all(&self.inner.bytes)?;
        self.out.write_all(&self.part.bytes)
    }

    fn text(&mut self, text: &Arc<str>) -> i64 {
        if let Some(&place) = self.places.get(text) {
            return place;
        }
        let place = self.texts.len() as i64;
        self.places.insert(text.clone(), place);
        self.texts.push(text.clone());
        place
    }

    fn value_type(&mut self, number: u32, value_type: &ValueType) -> io::Result<()> {
        let (kind, unit) = (self.text(&value_type.kind), self.text(&value_type.unit));
        self.part.clear();
        self.part.signed(1, kind);
        self.part.signed(2, unit);
        self.put(number)
    }

    fn label_set(&mut self, labels: &[Label]) -> Vec<u8> {
        let mut set = Fields::default();
        for label in labels {
            let key = self.text(&label.key);
            self.label.clear();
            self.label.signed(1, key);
            match &label.value {
                LabelValue::Text(text) => {
                    let text = self.text(text);
                    self.label.signed(2, text);
                }
                LabelValue::Number(number, unit) => {
                    let unit = self.text(unit);
                    self.label.signed(3, *number);
                    self.label.signed(4, unit);
                }
            }
            set.bytes(3, &self.label.bytes);
        }
        set.bytes
    }

    fn mapping(&mut self, place: usize, mapping: &Mapping) -> io::Result<()> {
        let mut file = mapping.file.to_string_lossy().into_owned();
        if mapping.is_deleted {
            file.push_str(" (deleted)");
        }
        let (file, build_id) = (self.text(&file.into()), self.text(&mapping.build_id));
        let has = mapping.has;
        self.part.clear();
        self.part.number(1, place as u64 + 1);
        self.part.number(2, mapping.start);
        self.part.number(3, mapping.end);
        self.part.number(4, mapping.file_offset);
        self.part.signed(5, file);
        self.part.signed(6, build_id);
        for (number, flag) in (7..).zip([has.functions, has.files, has.lines, has.inlines]) {
            self.part.number(number, u64::from(flag));
        }
        self.put(field::MAPPING)
    }

    fn location(&mut self, place: usize, location: &Location) -> io::Result<()> {
        self.part.clear();
        self.part.number(1, place as u64 + 1);
        self.part.number(2, location.mapping.map_or(0, |id| u64::from(id.0) + 1));
        self.part.number(3, location.address);
        for line in &location.lines {
            self.inner.clear();
            self.inner.number(1, u64::from(line.function.0) + 1);
            self.inner.signed(2, line.line);
            self.inner.signed(3, line.column);
            self.part.bytes(4, &self.inner.bytes);
        }
        self.part.number(5, u64::from(location.is_folded));
        self.put(field::LOCATION)
    }
}
