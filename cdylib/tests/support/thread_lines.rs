//! The lines of `CPUPROFILE_STATISTICS` about threads.

use super::process::Finished;

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) id: u64,
    pub(crate) samples: u64,
    pub(crate) cpu_micros: Option<u64>,
    pub(crate) name: String,
}

/// The threads in the lines on stderr, in their order.
#[track_caller]
pub(crate) fn threads(finished: &Finished) -> Vec<Thread> {
    let lines = finished.stderr.lines().filter_map(|line| line.strip_prefix("sigprof: thread: "));
    let thread = |line: &str| {
        let (figures, name) = line.split_once(" name=").expect("a name");
        let figure = |name: &str| -> Option<u64> {
            let value = figures.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
            Some(value.parse().expect("a number"))
        };
        Thread {
            id: figure("thread").expect("its id"),
            samples: figure("samples").expect("its samples"),
            cpu_micros: figure("cpu_micros"),
            name: name.to_owned(),
        }
    };
    lines.map(thread).collect()
}

#[track_caller]
pub(crate) fn figure(finished: &Finished, name: &str) -> u64 {
    let line = finished.stderr.lines().find(|line| line.starts_with("sigprof: statistics: "));
    let value =
        line.and_then(|line| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')));
    value.unwrap_or_else(|| panic!("no {name}: {}", finished.stderr)).parse().expect("a number")
}
