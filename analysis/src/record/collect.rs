//! Collection of the samples of a command's processes into one profile.
//!
//! A spool is read and removed when no process writes to it any more: the process has exited, or
//! has called `exec` and has another spool. A directory has room for 256 spools. If a command
//! starts many processes, their spools are collected while it runs, into part files in the same
//! directory, which survive a killed recorder.

use super::{
    Session, Tally, directory_of, environment,
    objects::Objects,
    parts::{CollectedSoFar, files_of, keep_part, parts_in, read_part},
};
use crate::{
    Error,
    error::ErrorKind,
    formats,
    profile::{self, Label, LabelValue, Profile, ValueType, label},
    rank,
    symbolize::KeptObject,
};
use sigprof::recover::{self, Owner, RecoverError, Spool};
use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Searches use at most one part in `SHARE` of the recorder's time.
const SHARE: u32 = 20;

/// Collects the samples of one directory.
#[derive(Debug)]
pub struct Collector {
    spools: PathBuf,
    target: PathBuf,
    is_wall: bool,
    tally: Tally,
    problems: Vec<Error>,
    unreadable: Vec<PathBuf>,
    /// Spools that are contained in a part file. A killed recorder may leave both.
    counted: HashSet<PathBuf>,
    /// No part file could be written: everything is collected at the end, which needs no space.
    has_no_room: bool,
    /// Duration and time of the last search for finished spools.
    last_search: Option<Search>,
    collected: CollectedSoFar,
    /// Duration, time and result of the last [`so_far`](Self::so_far).
    last_look: Option<(Duration, Instant, CollectedSoFar)>,
    objects: Option<Objects>,
    /// See [`Collected::ancestors`].
    ancestors: HashMap<u32, Vec<u32>>,
}

/// Everything that was collected.
#[derive(Debug)]
pub struct Collected {
    /// One profile of all processes; None if there are no samples.
    pub profile: Option<Profile>,
    /// Figures that the processes reported.
    pub tally: Tally,
    /// Errors for what could not be read, which is not removed.
    pub problems: Vec<Error>,
    /// The files that the profile was made of.
    pub sources: CollectedFiles,
    /// The executed objects that were kept open.
    pub kept: Vec<KeptObject>,
    /// Ancestors of each process that was forked and did not call `exec`, the nearest first.
    pub ancestors: HashMap<u32, Vec<u32>>,
}

/// Files that can be removed after the profile is written.
#[derive(Debug, Default)]
pub struct CollectedFiles {
    spools: Vec<Spool>,
    files: Vec<PathBuf>,
}

impl CollectedFiles {
    /// Removes the files. Returns the errors of spools that still exist.
    pub fn remove(self) -> Vec<Error> {
        for path in self.files {
            let _ = fs::remove_file(path);
        }
        self.spools.iter().filter_map(|spool| discard(spool).err()).collect()
    }
}

/// Removes a spool, unless another process has. Readers that have it open can continue.
fn discard(spool: &Spool) -> Result<(), Error> {
    match spool.discard() {
        Err(error) if fs::remove_file(spool.path()).is_err() && spool.path().exists() => Err(failure(error)),
        _ => Ok(()),
    }
}

fn failure(error: RecoverError) -> Error {
    Error::new(ErrorKind::Io, error.to_string()).caused_by(error)
}

impl Collector {
    /// Creates a collector for the spools in a directory, and for other profiles of the session.
    pub fn new(spools: &Path, session: &Session) -> Self {
        Self {
            spools: spools.into(),
            target: session.target.clone(),
            is_wall: session.is_wall,
            tally: Tally::default(),
            problems: Vec::new(),
            unreadable: Vec::new(),
            counted: parts_in(spools)
                .into_iter()
                .filter_map(|path| read_part(&path).ok())
                .flat_map(|part| part.1)
                .collect(),
            has_no_room: false,
            last_search: None,
            collected: CollectedSoFar::default(),
            last_look: None,
            objects: None,
            ancestors: HashMap::new(),
        }
    }

    /// Keeps executed files open from now on, at each [`look_for_objects`](Self::look_for_objects).
    pub(super) fn keep_objects(&mut self) {
        self.objects = Some(Objects::new());
    }

    /// Opens what running processes have mapped since the last call.
    pub(super) fn look_for_objects(&mut self) {
        if !self.objects.as_ref().is_some_and(Objects::is_look_due) {
            return;
        }
        let running = self.look().map_or_else(Vec::new, |(_, running)| running);
        if let Some(objects) = &mut self.objects {
            objects.look(&running);
        }
    }

    /// Collects finished spools if the directory has at least `many` spools. If most are in use,
    /// searches use a twentieth of the time, unless the directory is nearly full.
    pub(super) fn relieve(&mut self, many: usize) {
        self.relieve_by(many, keep_part);
    }

    /// As [`relieve`](Self::relieve), with `keep` instead of [`keep_part`].
    fn relieve_by(
        &mut self,
        many: usize,
        keep: impl FnOnce(&Path, Profile, &[Spool]) -> Result<CollectedSoFar, Error>,
    ) {
        if self.has_no_room || !is_search_due(self.count_spools(), many, self.last_search) {
            return;
        }
        let start = Instant::now();
        let looked = self.look();
        self.last_search = Some(Search { cost: start.elapsed(), end: Instant::now() });
        let Some((mut over, _)) = looked else { return };
        // Whether a process of another container still runs is unknown.
        over.retain(|spool| spool.owner() == Owner::Gone);
        if over.len() < many / 2 {
            return;
        }
        let tally = self.tally.clone();
        let (profiles, read) = self.read_all(over);
        if profiles.is_empty() {
            return self.discard(read);
        }
        let spools = &self.spools;
        let written = merge(profiles).and_then(|profile| keep(spools, profile, &read));
        match written {
            Ok(progress) => {
                self.collected.samples += progress.samples;
                self.collected.time += progress.time;
                self.discard(read);
            }
            Err(_) => {
                self.tally = tally;
                self.has_no_room = true;
            }
        }
    }

    /// Returns the progress. Slow searches are limited to a twentieth of the time.
    pub(super) fn so_far(&mut self) -> CollectedSoFar {
        if let Some((cost, when, progress)) = self.last_look {
            if when.elapsed() < cost * SHARE {
                return progress;
            }
        }
        let start = Instant::now();
        let mut progress = self.collected;
        let mut spools = recover::spools(&self.spools).map(|found| found.spools).unwrap_or_default();
        spools.retain(|spool| !self.counted.contains(spool.path()));
        for spool in spools {
            let samples = spool.samples_so_far().unwrap_or(0);
            progress.samples += samples;
            progress.time += spool.period().saturating_mul(u32::try_from(samples).unwrap_or(u32::MAX));
        }
        self.last_look = Some((start.elapsed(), Instant::now(), progress));
        progress
    }

    /// Waits for all processes of the command to exit, at most `timeout`.
    pub(super) fn wait_for_others(&self, timeout: Duration) {
        const STEP: Duration = Duration::from_millis(5);
        let start = Instant::now();
        while start.elapsed() < timeout && self.is_anything_running() {
            thread::sleep(STEP);
        }
    }

    /// True while there are processes with a spool, or that will have one: if a command exits right
    /// after a fork, as `daemon(3)` does, the child may not have one yet.
    fn is_anything_running(&self) -> bool {
        self.running() > 0 || environment::is_anyones(&self.spools)
    }

    /// Returns the number of running processes with a spool.
    pub fn running(&self) -> u64 {
        self.look().map_or(0, |(_, running)| processes(&running))
    }

    /// Collects everything of exited processes. The caller removes the files later.
    pub fn finish(mut self) -> Collected {
        let mut profiles = Vec::new();
        let mut done: Vec<PathBuf> = Vec::new();
        for path in parts_in(&self.spools) {
            match read_part(&path) {
                Ok((profile, _)) => {
                    profiles.push(profile);
                    done.push(path);
                }
                Err(error) => self.problems.push(error),
            }
        }
        let (over, running) = match self.looked_at() {
            Ok(looked) => looked,
            Err(error) => {
                self.problems.push(failure(error));
                Default::default()
            }
        };
        self.tally.running = processes(&running);
        let (of_spools, mut read) = self.read_all(over);
        // Spools in part files are only removed.
        let counted = self.counted.iter().filter_map(|path| Spool::open(path).ok());
        read.extend(counted.map(Spool::known_to_be_over));
        profiles.extend(of_spools);
        for path in self.files() {
            match self.read_file(&path) {
                Ok(profile) => {
                    profiles.push(profile);
                    done.push(path);
                }
                Err(error) => self.problems.push(error),
            }
        }
        let mut profile = None;
        if !profiles.is_empty() {
            match merge(profiles) {
                Ok(merged) => profile = Some(merged),
                Err(error) => {
                    // All files stay.
                    self.problems.push(error);
                    return Collected {
                        profile: None,
                        tally: self.tally,
                        problems: self.problems,
                        sources: CollectedFiles::default(),
                        kept: Vec::new(),
                        ancestors: HashMap::new(),
                    };
                }
            }
        }
        if let Some(profile) = profile.as_mut().filter(|_| self.is_wall) {
            name_wall(profile);
        }
        let sources = CollectedFiles { spools: read, files: done };
        let kept = self.objects.map_or_else(Vec::new, Objects::into_kept);
        Collected {
            profile,
            tally: self.tally,
            problems: self.problems,
            sources,
            kept,
            ancestors: self.ancestors,
        }
    }

    fn count_spools(&self) -> usize {
        let is_spool = |entry: &fs::DirEntry| entry.file_name().as_bytes().ends_with(b".spool");
        fs::read_dir(&self.spools).map_or(0, |entries| entries.flatten().filter(is_spool).count())
    }

    /// Returns finished spools, and those in use; None if the directory cannot be read.
    fn look(&self) -> Option<(Vec<Spool>, Vec<Spool>)> {
        self.looked_at().ok()
    }

    fn looked_at(&self) -> Result<(Vec<Spool>, Vec<Spool>), RecoverError> {
        let mut spools = recover::spools(&self.spools)?.spools;
        spools.retain(|spool| {
            !self.counted.contains(spool.path()) && !self.unreadable.iter().any(|path| path == spool.path())
        });
        let identity = |spool: &Spool| (spool.process(), spool.process_start());
        // A spool without a mark belongs to the current program of the process.
        let newer: Vec<(u32, u64)> = spools
            .iter()
            .filter(|spool| !spool.is_replaced() && spool.end().is_none())
            .map(identity)
            .collect();
        let is_replaced = |spool: &Spool| spool.is_replaced() && newer.contains(&identity(spool));
        let looked = spools
            .into_iter()
            .map(|spool| if is_replaced(&spool) { spool.known_to_be_over() } else { spool });
        // The state of another container's process may be unknown; reading its spool is harmless.
        Ok(looked.partition(|spool| spool.owner() != Owner::Running))
    }

    /// Reads spools; returns the profiles, and the spools that were read.
    fn read_all(&mut self, spools: Vec<Spool>) -> (Vec<Profile>, Vec<Spool>) {
        let (mut profiles, mut read) = (Vec::new(), Vec::new());
        for spool in spools {
            let path = spool.path().to_path_buf();
            match self.read(spool) {
                Ok((profile, spool)) => {
                    profiles.extend(profile);
                    read.push(spool);
                }
                // It was empty, and another process of the command has removed it.
                Err(_) if !path.exists() => {}
                Err(error) => {
                    self.problems.push(error);
                    self.unreadable.push(path);
                }
            }
        }
        (profiles, read)
    }

    fn read(&mut self, spool: Spool) -> Result<(Option<Profile>, Spool), Error> {
        // Without an end, it may have been opened before its process exited.
        let spool = if spool.end().is_some() { spool } else { Spool::open(spool.path()).map_err(failure)? };
        if spool.is_complete() {
            // Its profile is in a file.
            return Ok((None, spool));
        }
        let mut profile = formats::spool::read(&spool)?;
        if let Some(objects) = &self.objects {
            objects.note_build_ids(spool.path(), &mut profile);
        }
        note_ancestors(&mut self.ancestors, spool.process(), spool.ancestors().collect());
        self.tally.add(&spool);
        Ok((Some(profile), spool))
    }

    /// Reads the profile of a process without a spool, or with a full one.
    fn read_file(&mut self, path: &Path) -> Result<Profile, Error> {
        let mut profile = formats::read_file(path)?;
        let rest = path.as_os_str().as_bytes().get(self.target.as_os_str().len()..).unwrap_or_default();
        // The rank comes before the process ID.
        let digits = rest.split(|&byte| byte == b'_').nth(1).unwrap_or_default();
        let digits = digits.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
        let process = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
        if let Some(process) = process.filter(|_| profile.label_sets.len() == 1) {
            let value = LabelValue::Number(process.into(), "".into());
            let mut labels = vec![Label { key: label::PROCESS_ID.into(), value }];
            labels.extend(rank::in_target(path).map(rank::label));
            profile.label_sets.push(labels);
            profile.samples.labels_mut().fill(crate::profile::LabelSetId(1));
        }
        self.tally.programs += 1;
        Ok(profile)
    }

    fn discard(&mut self, spools: Vec<Spool>) {
        for spool in spools {
            if let Some(objects) = &mut self.objects {
                objects.forget(spool.path());
            }
            if let Err(error) = discard(&spool) {
                self.problems.push(error);
                // Its samples were read, and must not be counted again.
                self.counted.insert(spool.path().into());
            }
        }
    }

    /// Returns profiles of processes without a spool, or with a full one.
    fn files(&self) -> Vec<PathBuf> {
        let prefix = self.target.file_name().unwrap_or_default().as_bytes();
        let is_suffix = |rest: &[u8]| {
            rest.starts_with(b"_") || rank::SUFFIXES.iter().any(|suffix| rest.starts_with(suffix.as_bytes()))
        };
        files_of(directory_of(&self.target), |name| name.strip_prefix(prefix).is_some_and(is_suffix))
    }
}

#[derive(Clone, Copy, Debug)]
struct Search {
    cost: Duration,
    end: Instant,
}

/// Whether a search is due: from `many` spools a twentieth of the time, or if almost full.
fn is_search_due(spools: usize, many: usize, last: Option<Search>) -> bool {
    let is_early = |last: Search| last.end.elapsed() < last.cost * SHARE;
    spools >= many && (spools >= 4 * many || !last.is_some_and(is_early))
}

fn merge(profiles: Vec<Profile>) -> Result<Profile, Error> {
    let named = profiles.into_iter().map(|profile| Ok((PathBuf::from("a process"), profile)));
    let merged = profile::merge(named)?;
    merged.ok_or_else(|| Error::new(ErrorKind::Format, "there is nothing to merge"))
}

/// Adds the ancestors in one spool of a process.
fn note_ancestors(all: &mut HashMap<u32, Vec<u32>>, process: u32, ancestors: Vec<u32>) {
    let known = all.entry(process).or_insert_with(|| ancestors.clone());
    if *known != ancestors {
        // After an `exec`, samples may be of either program.
        known.clear();
    }
}

/// Changes the type to elapsed time, which neither spools nor files record.
fn name_wall(profile: &mut Profile) {
    let wall = ValueType::new("wall", "nanoseconds");
    profile.period_type = Some(wall.clone());
    if let Some(last) = profile.sample_types.last_mut() {
        *last = wall;
    }
}

fn processes(spools: &[Spool]) -> u64 {
    let mut processes: Vec<u32> = spools.iter().map(Spool::process).collect();
    processes.sort_unstable();
    processes.dedup();
    processes.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write as _, os::unix::fs::FileExt as _};

    fn search(cost: Duration, age: Duration) -> Option<Search> {
        Some(Search { cost, end: Instant::now().checked_sub(age).unwrap() })
    }

    #[test]
    fn searches_take_a_twentieth_of_the_time_unless_nearly_full() {
        const MINUTE: Duration = Duration::from_secs(60);
        const HOUR: Duration = Duration::from_secs(3600);
        let second = Duration::from_secs(1);
        // Number of spools (48 are many), last search, whether another is due.
        for (spools, last, is_due) in [
            (0, None, false),
            (47, None, false),
            (48, None, true),
            (47, search(second, MINUTE), false),
            (48, search(second, MINUTE), true),
            (48, search(HOUR, Duration::ZERO), false),
            (191, search(MINUTE, 19 * MINUTE), false),
            (191, search(MINUTE, 21 * MINUTE), true),
            (192, search(MINUTE, Duration::ZERO), true),
        ] {
            assert_eq!(is_search_due(spools, 48, last), is_due, "{spools} {last:?}");
        }
    }

    #[test]
    fn forgets_ancestors_after_exec() {
        for order in [[vec![], vec![2]], [vec![2], vec![]]] {
            let mut all = HashMap::new();
            for ancestors in order {
                note_ancestors(&mut all, 1, ancestors);
            }
            note_ancestors(&mut all, 3, vec![2, 4]);
            assert_eq!(all, [(1, vec![]), (3, vec![2, 4])].into());
        }
    }

    const STATE_OF_RUNNING: u64 = 1;
    const STATE_OF_ENDED: u64 = 3;
    const STATE_OF_REPLACED: u64 = 4;

    /// Writes the spool of a program with one sample; the crate's `src/format/spool.rs` draws it.
    fn write_spool(path: &Path, process: u64, state: u64) {
        const ARENA: u64 = 1344 << 10;
        let (version, word_bytes, period_micros) = (6, 4, 10_000);
        let record = [1, 0xffc0_0001_u32, 0x1000].map(u32::to_ne_bytes).concat();
        let mut file = fs::File::create(path).unwrap();
        file.write_all(b"sigprofS").unwrap();
        for (offset, number) in [
            (8, version),
            (16, word_bytes),
            (24, state),
            (32, process),
            (64, period_micros),
            (72, record.len() as u64),
        ] {
            file.write_all_at(&u64::to_ne_bytes(number), offset).unwrap();
        }
        file.write_all_at(&record, ARENA).unwrap();
    }

    /// Names of threads and processes are the last ones.
    #[test]
    fn orders_programs_of_a_process_by_time() {
        // An unused process ID.
        const PROCESS: u64 = 1 << 30;
        let scratch = tempfile::tempdir().unwrap();
        for (first, second) in [("a", "b"), ("b", "a")] {
            let path = |name: &str| scratch.path().join(format!("{PROCESS}-1-{name}.spool"));
            write_spool(&path(first), PROCESS, STATE_OF_REPLACED);
            write_spool(&path(second), PROCESS, STATE_OF_RUNNING);
            let found: Vec<PathBuf> = recover::spools(scratch.path())
                .unwrap()
                .spools
                .iter()
                .map(|spool| spool.path().to_owned())
                .collect();
            assert_eq!(found, [path(first), path(second)]);
        }
    }

    /// A part file cannot be written, because the directory is full.
    #[test]
    fn collects_everything_once_at_the_end_without_room() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |process| scratch.path().join(format!("{process}-1-a.spool"));
        let session =
            Session { recorder: 1, output: "/o".into(), target: scratch.path().join(".x"), is_wall: false };
        let mut collector = Collector::new(scratch.path(), &session);
        let mut tries = 0;
        for process in 1..5 {
            write_spool(&path(process), process, STATE_OF_ENDED);
            // Any number is enough, and a search is always due.
            collector.relieve_by(1, |_, profile, read| {
                tries += 1;
                assert_eq!((profile.total(0), read.len()), (1, 1));
                Err(Error::new(ErrorKind::Io, "there is no room"))
            });
        }
        assert_eq!((tries, &collector.tally), (1, &Tally::default()), "nothing is taken for collected");
        assert_eq!(collector.so_far().samples, 4);
        let Collected { profile, tally, problems, sources, .. } = collector.finish();
        assert_eq!((tally.programs, tally.killed, problems.len()), (4, 4, 0));
        assert_eq!(profile.unwrap().total(0), 4);
        assert!((1..5).all(|process| path(process).exists()), "until the profile is written");
        assert!(sources.remove().is_empty() && !(1..5).any(|process| path(process).exists()));
    }
}
