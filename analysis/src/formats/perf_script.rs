//! Reader of `perf script` output: a header line for each sample, then a line for each frame.
//!
//! ```text
//! worker 4711/4713 [001] 1234.567890:    1000000 cpu-clock:u:
//!             55d3c0a1b2c3 parse+0x13 (/usr/bin/prog)
//!             7f0c0d029d90 __libc_start_call_main+0x80 (/usr/lib/x86_64-linux-gnu/libc.so.6)
//!                                                     <- an empty line
//! ```
//!
//! Without call stacks, the only frame is at the end of the first line. Source: perf-script(1).

use crate::{
    error::{Error, ErrorKind},
    profile::{
        Builder, Function, Known, Label, LabelSetId, LabelValue, Line, Location, LocationId, Mapping,
        MappingId, Profile, ValueType, label,
    },
};
use foldhash::fast::RandomState;
use regex::bytes::Regex;
use std::{collections::HashMap, ffi::OsStr, os::unix::ffi::OsStrExt as _};

/// Events that count nanoseconds of CPU time: perf_event_open(2), `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_TIME: [&[u8]; 2] = [b"cpu-clock", b"task-clock"];
/// Limit; a recording has a few events.
const MAX_EVENTS: usize = 16;

/// True if the first non-empty line is the first line of a sample.
pub(super) fn may_be_perf_script(bytes: &[u8]) -> bool {
    let first = lines(bytes).find(|(_, line)| !line.is_empty());
    first.is_some_and(|(_, line)| line.len() < 4096 && Headers::new().parse(line).is_some())
}

/// Reads the default fields of `perf script`, with or without period and processor.
///
/// A sample has the value 1, and the period of its event: nanoseconds for `cpu-clock` and
/// `task-clock`, otherwise a count.
///
/// # Errors
/// If a line is neither of a sample nor of a frame, or there are too many different events.
pub fn read(bytes: &[u8]) -> Result<Profile, Error> {
    let headers = Headers::new();
    let events = events(bytes, &headers)?;
    let mut types = vec![ValueType::new("samples", "count")];
    types.extend(events.iter().map(|event| value_type(event)));
    let mut reader = Reader {
        builder: Builder::new(types),
        mappings: HashMap::default(),
        locations: HashMap::default(),
        label_sets: HashMap::default(),
        chain: Vec::new(),
        values: vec![0; events.len() + 1],
        labels: LabelSetId(0),
        is_open: false,
    };
    reader.builder.profile.default_type = usize::from(!events.is_empty());
    let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
    for (number, line) in lines(bytes) {
        if line.is_empty() {
            reader.close();
        } else if line.starts_with(b"\t") && reader.is_open {
            reader.frame(line);
        } else if let Some(header) = headers.parse(line) {
            reader.close();
            if let Some(time) = header.time {
                (first, last) = (first.min(time), last.max(time));
            }
            reader.open(&header, &events);
        } else if line.starts_with(b" ") && reader.is_open {
            reader.frame(line);
        } else {
            let reason = format!("line {number} is neither a sample nor a frame of `perf script`");
            return Err(Error::new(ErrorKind::Format, reason)
                .advise("print the default fields: `perf script` without -F"));
        }
    }
    reader.close();
    let mut profile = reader.builder.finish();
    if last > first {
        profile.duration_nanos = ((last - first) * 1e9) as i64;
    }
    profile.is_clamped |= profile.samples.add_up_equal();
    Ok(profile)
}

/// Iterates over all lines, with their numbers from 1; comments are empty.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).enumerate();
    lines.map(|(place, line)| (place + 1, if line.starts_with(b"#") { &line[..0] } else { line }))
}

/// Returns the events that have periods, in the order of the file.
fn events<'a>(bytes: &'a [u8], headers: &Headers) -> Result<Vec<&'a [u8]>, Error> {
    let mut events: Vec<&[u8]> = Vec::new();
    for (number, line) in lines(bytes).filter(|(_, line)| !line.starts_with(b"\t")) {
        let Some(header) = headers.parse(line) else { continue };
        if header.period.is_some() && !events.contains(&header.event) {
            if events.len() == MAX_EVENTS {
                let reason = format!("line {number}: there are more than {MAX_EVENTS} events");
                return Err(Error::new(ErrorKind::Format, reason)
                    .advise("print some of them: `perf script --event EVENT`, if this is perf's output"));
            }
            events.push(header.event);
        }
    }
    Ok(events)
}

fn value_type(event: &[u8]) -> ValueType {
    if CPU_TIME.contains(&event) {
        ValueType::new("cpu", "nanoseconds")
    } else {
        ValueType::new(&String::from_utf8_lossy(event), "count")
    }
}

/// The first line of a sample.
struct Header<'a> {
    name: &'a [u8],
    process: Option<i64>,
    thread: Option<i64>,
    time: Option<f64>,
    period: Option<i64>,
    /// Without modifiers such as `:u`.
    event: &'a [u8],
    /// The frame, if it is on this line.
    rest: &'a [u8],
}

struct Headers(Regex);

impl Headers {
    fn new() -> Self {
        let pattern = r"(?x-u) ^\s*(?<name>\S.*?) \s+ (?:(?<pid>\d+)/)? (?<tid>-?\d+) \s+ (?:\[\d+\]\s+)?
            (?<time>\d+\.\d+):\s+ (?:(?<period>\d+)\s+)? (?<event>[^\s:][^\s]*):(?:\s+(?<rest>.*))?$";
        Self(Regex::new(pattern).expect("the pattern is valid"))
    }

    fn parse<'a>(&self, line: &'a [u8]) -> Option<Header<'a>> {
        let found = self.0.captures(line)?;
        let part = |name: &str| found.name(name).map(|part| part.as_bytes());
        let text = |name: &str| part(name).and_then(|part| std::str::from_utf8(part).ok());
        let number = |name: &str| text(name).and_then(|text| text.parse().ok());
        let event = part("event")?;
        // Modifiers are letters after a colon; a tracepoint has a colon in its name.
        let name = match event.iter().rposition(|&byte| byte == b':') {
            Some(place) if event[place + 1..].iter().all(|byte| b"ukhGHpPSDWe".contains(byte)) => {
                &event[..place]
            }
            _ => event,
        };
        Some(Header {
            name: part("name")?,
            process: number("pid"),
            thread: number("tid"),
            time: text("time").and_then(|time| time.parse().ok()),
            period: number("period"),
            event: name,
            rest: part("rest").unwrap_or_default(),
        })
    }
}

struct Reader<'a> {
    builder: Builder,
    /// By file.
    mappings: HashMap<&'a [u8], MappingId, RandomState>,
    /// By address, symbol and file.
    locations: HashMap<(u64, &'a [u8], &'a [u8]), LocationId, RandomState>,
    label_sets: HashMap<ThreadKey<'a>, LabelSetId, RandomState>,
    /// Frames of the current sample, innermost first.
    chain: Vec<LocationId>,
    values: Vec<i64>,
    labels: LabelSetId,
    is_open: bool,
}

/// Name, thread ID, process ID.
type ThreadKey<'a> = (&'a [u8], Option<i64>, Option<i64>);

impl<'a> Reader<'a> {
    fn open(&mut self, header: &Header<'a>, events: &[&[u8]]) {
        self.is_open = true;
        self.values.fill(0);
        self.values[0] = 1;
        let place = events.iter().position(|&event| event == header.event);
        if let (Some(place), Some(period)) = (place, header.period) {
            self.values[place + 1] = period;
        }
        let Header { name, thread, process, .. } = *header;
        self.labels = *self.label_sets.entry((name, thread, process)).or_insert_with(|| {
            let name = LabelValue::Text(String::from_utf8_lossy(name).into());
            let mut labels = vec![Label { key: label::THREAD.into(), value: name }];
            for (key, number) in [(label::THREAD_ID, thread), (label::PROCESS_ID, process)] {
                let value = number.map(|number| LabelValue::Number(number, "".into()));
                labels.extend(value.map(|value| Label { key: key.into(), value }));
            }
            self.builder.label_set(&labels)
        });
        if !header.rest.is_empty() {
            self.frame(header.rest);
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.builder.profile.samples.push(&self.chain, &self.values, self.labels);
        }
        self.chain.clear();
    }

    /// Adds a frame: an address, a symbol and offset, and the file in parentheses.
    fn frame(&mut self, line: &'a [u8]) {
        let line = line.trim_ascii();
        let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        let digits = std::str::from_utf8(&line[..end]).ok();
        let Some(address) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else {
            // A source line, which `perf script -F +srcline` prints after a frame.
            return;
        };
        let (symbol, file) = split_file(line[end..].trim_ascii());
        let id = match self.locations.get(&(address, symbol, file)) {
            Some(&id) => id,
            None => {
                let id = self.location(address, symbol, file);
                self.locations.insert((address, symbol, file), id);
                id
            }
        };
        self.chain.push(id);
    }

    fn location(&mut self, address: u64, symbol: &'a [u8], file: &'a [u8]) -> LocationId {
        let is_known_file = !file.is_empty() && file != b"[unknown]" && file != b"inlined";
        let mapping = is_known_file.then(|| match self.mappings.get(file) {
            Some(&id) => id,
            None => {
                let id = self.builder.mapping(mapping(file));
                self.mappings.insert(file, id);
                id
            }
        });
        let short = file.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let name = match without_distance(symbol) {
            b"" | b"[unknown]" if is_known_file => {
                format!("[{}]", String::from_utf8_lossy(short).trim_matches(['[', ']']))
            }
            b"" => "[unknown]".into(),
            name => String::from_utf8_lossy(name).into_owned(),
        };
        let (name, file) = (self.builder.string(&name), self.builder.string(""));
        let function =
            self.builder.function(Function { name: name.clone(), system_name: name, file, start_line: 0 });
        let lines = vec![Line { function, line: 0, column: 0 }];
        let locations = &mut self.builder.profile.locations;
        locations.push(Location { mapping, address, lines, is_folded: false });
        LocationId::at(locations.len() - 1)
    }
}

/// A mapping with only a file; its symbols have names already.
fn mapping(file: &[u8]) -> Mapping {
    let (file, is_deleted) = file.strip_suffix(b" (deleted)").map_or((file, false), |file| (file, true));
    Mapping {
        start: 0,
        end: 0,
        file_offset: 0,
        file: OsStr::from_bytes(file).into(),
        build_id: "".into(),
        is_deleted,
        is_moved: false,
        process: None,
        has: Known { functions: true, files: true, lines: true, inlines: true },
    }
}

/// Splits a frame's text into symbol and file, without the parentheses.
fn split_file(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(inside) = text.strip_suffix(b")") else { return (text, b"") };
    // Paths may contain parentheses, such as ` (deleted)`: find the one that matches the last.
    let mut depth = 1;
    for (place, byte) in inside.iter().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return (inside[..place].trim_ascii_end(), &inside[place + 1..]);
        }
    }
    (text, b"")
}

/// Returns a symbol without an offset such as `+0x1f`.
fn without_distance(symbol: &[u8]) -> &[u8] {
    let is_distance = |text: &[u8]| text.len() > 3 && text[3..].iter().all(u8::is_ascii_hexdigit);
    match symbol.windows(3).rposition(|part| part == b"+0x") {
        Some(place) if is_distance(&symbol[place..]) => &symbol[..place],
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# captured on: Fri Nov 27 2026
some name 4711/4713 [001] 100.500000:    1000000 cpu-clock:u:
\t    55d3c0a1b2c3 parse(int, char (*)()) const+0x13 (/usr/bin/a prog)
\t    55d3c0a1b2c9 [unknown] (/usr/bin/a prog)
\t    7f0c0d029d90 main+0x80 (/lib/libc.so.6 (deleted))

some name 4711/4713 [000] 102.000000:    3000000 cpu-clock:u:
\t    55d3c0a1b2c3 parse(int, char (*)()) const+0x13 (/usr/bin/a prog)
\t    55d3c0a1b2c9 [unknown] (/usr/bin/a prog)
\t    7f0c0d029d90 main+0x80 (/lib/libc.so.6 (deleted))

other 4711/4712 [000] 101.000000:          7 cycles: 
\t               0 [unknown] ([unknown])

";

    fn names(profile: &Profile, sample: usize) -> Vec<&str> {
        let name = |id: &LocationId| &*profile.function(profile.location(*id).lines[0].function).name;
        profile.samples.get(sample).chain.iter().map(name).collect()
    }

    #[test]
    fn reads_frames_values_and_threads() {
        assert!(may_be_perf_script(TEXT.as_bytes()));
        let profile = read(TEXT.as_bytes()).unwrap();
        assert_eq!(profile.check(), Ok(()));
        let kinds: Vec<_> = profile.sample_types.iter().map(|kind| (&*kind.kind, &*kind.unit)).collect();
        assert_eq!(kinds, [("samples", "count"), ("cpu", "nanoseconds"), ("cycles", "count")]);
        assert_eq!((profile.default_type, profile.duration_nanos), (1, 1_500_000_000));
        assert_eq!(profile.samples.len(), 2, "equal samples are added up");
        assert_eq!(profile.samples.get(0).values, [2, 4_000_000, 0]);
        assert_eq!(profile.samples.get(1).values, [1, 0, 7]);
        assert_eq!(names(&profile, 0), ["parse(int, char (*)()) const", "[a prog]", "main"]);
        assert_eq!(names(&profile, 1), ["[unknown]"]);
        let files: Vec<_> =
            profile.mappings.iter().map(|one| (one.file.to_str().unwrap(), one.is_deleted)).collect();
        assert_eq!(files, [("/usr/bin/a prog", false), ("/lib/libc.so.6", true)]);
        let labels = profile.labels(profile.samples.get(0).labels);
        assert_eq!(labels[0].value, LabelValue::Text("some name".into()));
        assert_eq!(labels[1], Label { key: "tid".into(), value: LabelValue::Number(4713, "".into()) });
        assert_eq!(labels[2], Label { key: "pid".into(), value: LabelValue::Number(4711, "".into()) });
    }

    #[test]
    fn reads_a_frame_on_the_line_of_the_sample() {
        let text =
            "           perl  77 12.345678: 250000 task-clock:ppp:  55d3 Perl_pp_add+0x1 (/usr/bin/perl)\n";
        let profile = read(text.as_bytes()).unwrap();
        assert_eq!(names(&profile, 0), ["Perl_pp_add"]);
        assert_eq!(profile.samples.get(0).values, [1, 250_000]);
        let text = "perl 77 12.345678: sched:sched_switch: 55d3 f (/x)\n";
        let profile = read(text.as_bytes()).unwrap();
        assert_eq!(profile.samples.get(0).values, [1], "no period, so only samples are known");
    }

    #[test]
    fn error_has_the_line_number() {
        let error = read(format!("{TEXT}nonsense\n").as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 15 is neither"), "{error}");
        let many: String = (0..17).map(|event| format!("p 1 1.0: 1 e{event}: 1 f (x)\n")).collect();
        let error = read(many.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 17: there are more than 16 events"), "{error}");
    }

    #[test]
    fn refuses_other_text() {
        for text in ["", "main;a 1", "perl 77", "{\"a\": 12.5: x}", "# nothing\n"] {
            assert!(!may_be_perf_script(text.as_bytes()), "{text}");
        }
    }
}
