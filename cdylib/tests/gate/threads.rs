//! The threads of samples: in the lines of `CPUPROFILE_STATISTICS`, and with `CPUPROFILE_THREADS=1`
//! in each sample of a killed application's spool. The profile is the same with and without that.
//!
//! The application sends itself all ticks, which are counted. `full/threads.rs` tests threads that
//! compute.

use crate::support::thread_lines::{figure, threads};
use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, is_full, profiled, quietly_with_threads, run, start, wait,
};
use sigprof::recover::{self, Spool, SpooledSample};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct App {
    scratch: Scratch,
    program: PathBuf,
}

impl App {
    fn new() -> Self {
        let scratch = Scratch::new();
        let options = ["-pthread", "-fno-optimize-sibling-calls"];
        let program = scratch.compile("named_threads.c", Linkage::None, &options);
        Self { scratch, program }
    }

    fn profile(&self) -> PathBuf {
        self.scratch.path("prof")
    }

    /// Runs the application with words (listed at the head of its source). The timer ticks once in
    /// a second of CPU time, so nearly all ticks are sent.
    fn command(&self, words: &str) -> Command {
        let mut command = profiled(&self.program, &self.profile());
        quietly_with_threads(&mut command)
            .env("CPUPROFILE_SPOOL", self.scratch.spools())
            .env("CPUPROFILE_STATISTICS", "1")
            .args(words.split(' '));
        command
    }

    fn by_thread(&self, words: &str) -> Command {
        let mut command = self.command(words);
        command.env("CPUPROFILE_THREADS", "1");
        command
    }

    #[track_caller]
    fn spool(&self) -> Spool {
        let spools = recover::spools(&self.scratch.spools()).expect("the directory can be read").spools;
        let [spool] = <[Spool; 1]>::try_from(spools).expect("one spool");
        spool
    }

    /// The only spool, after these words made the application kill itself.
    #[track_caller]
    fn spool_of_killed(&self, words: &str) -> (Finished, Spool) {
        let finished = run(&mut self.by_thread(words));
        assert_eq!(exit_code(finished.status), 128 + 9, "{}", finished.stderr);
        (finished, self.spool())
    }
}

fn printed_ids(finished: &Finished) -> BTreeMap<String, u64> {
    let text = finished.text();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, id)| (name.to_owned(), id.parse().expect("an id"))).collect()
}

fn by_thread(samples: &[SpooledSample]) -> BTreeMap<(String, u64), u64> {
    let mut counts = BTreeMap::new();
    for sample in samples {
        let thread = sample.thread.expect("every thread is known");
        *counts.entry((thread.name.to_string(), thread.id.into())).or_insert(0) += sample.count;
    }
    counts
}

/// The profile's different stacks; a second PC may be one lower (`src/format/second_frame.rs`).
fn chains(profile: &Profile) -> BTreeSet<Vec<usize>> {
    let mut chains: BTreeSet<_> = profile.records.iter().map(|record| record.pcs.clone()).collect();
    let usual = |chain: &Vec<usize>| {
        let mut usual = chain.clone();
        usual.iter_mut().skip(1).take(1).for_each(|pc| *pc += 1);
        usual
    };
    let lowered: Vec<_> = chains.iter().filter(|chain| chains.contains(&usual(chain))).cloned().collect();
    for chain in &lowered {
        chains.remove(chain);
    }
    chains
}

/// Panics if a profile has a word that is not an address in a mapping.
#[track_caller]
fn expect_clean(profile: &Profile) {
    for record in &profile.records {
        assert!(record.pcs.iter().all(|pc| profile.mapping_of(*pc - 1).is_some()), "{record:x?}");
    }
}

const NAMED: &str = "one 10 two 20 late-three 30 twice-four 40";

/// Each thread has a line with its last name, its ID and all of its ticks.
#[test]
fn each_thread_has_its_name_and_its_samples() {
    let app = App::new();
    for with in ["0", "1"] {
        let mut command = app.command(&format!("threads exit {NAMED}"));
        let finished = run(command.env("CPUPROFILE_THREADS", with)).expect_success();
        let (threads, ids) = (threads(&finished), printed_ids(&finished));
        let shown: Vec<_> = threads.iter().map(|thread| (thread.name.as_str(), thread.samples)).collect();
        assert_eq!(shown, [("twice-four", 40), ("late-three", 30), ("two", 20), ("one", 10)]);
        for thread in &threads {
            assert_eq!(thread.id, ids[&thread.name], "{thread:?}");
            assert!(thread.cpu_micros.is_some_and(|micros| micros > 0), "it is alive: {thread:?}");
        }
        assert_eq!((figure(&finished, "threads"), figure(&finished, "unnamed_samples")), (4, 0));
        assert_eq!(Profile::read(&app.profile()).samples(), 100);
    }
}

/// More exited threads than lines: the sixteen busiest have lines, without CPU time.
#[test]
fn exited_threads_are_listed_without_cpu_time() {
    let app = App::new();
    let finished = run(&mut app.command("ways exit 20 3")).expect_success();
    let threads = threads(&finished);
    assert_eq!((threads.len(), figure(&finished, "threads")), (16, 20));
    for thread in threads {
        assert!(thread.samples == 3 && thread.cpu_micros.is_none(), "{thread:?}");
        assert!(thread.name.starts_with("way-"), "{thread:?}");
    }
}

/// The file has each stack once, even if several threads had it, at a flush and at exit.
#[test]
fn a_file_by_thread_is_like_one_without_threads() {
    let app = App::new();
    let words = "ways exit 5 40";
    run(&mut app.command(words)).expect_success();
    let without = Profile::read(&app.profile());
    run(&mut app.by_thread(words)).expect_success();
    let by_thread = Profile::read(&app.profile());
    expect_clean(&by_thread);
    assert_eq!((by_thread.samples(), without.samples()), (200, 200));
    assert_eq!((chains(&by_thread).len(), chains(&without).len()), (40, 40));
    assert_eq!(by_thread.records.len(), without.records.len());
    assert_eq!(by_thread.deepest(), without.deepest());

    let mut child = start(app.by_thread("ways flush 5 40").stdin(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    while lines.next().expect("the application's lines").expect("text") != "flushed" {}
    let flushed = Profile::read(&app.profile());
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("the application waits");
    wait(child).expect_success();
    expect_clean(&flushed);
    assert_eq!((flushed.samples(), chains(&flushed).len()), (200, 40));
    assert_eq!(Profile::read(&app.profile()).samples(), 200);
}

/// A killed application's spool has each sample's thread, with the name that the thread had when
/// its number of ticks last doubled. The recovered profile is as before.
#[test]
fn the_spool_of_a_killed_application_has_its_threads() {
    let app = App::new();
    let (finished, spool) = app.spool_of_killed(&format!("threads kill {NAMED}"));
    let ids = printed_ids(&finished);
    assert!(spool.is_by_thread() && spool.period().as_secs() == 1);
    let samples = spool.samples().expect("its process is gone");
    let named = [
        ("one", "one", 10),
        ("two", "two", 20),
        ("unnamed", "late-three", 30),
        ("twice-four", "twice-four", 40),
    ];
    let expected: BTreeMap<_, _> =
        named.map(|(name, printed, count)| ((name.to_owned(), ids[printed]), count)).into();
    assert_eq!(by_thread(&samples), expected);
    assert!(samples.iter().all(|sample| sample.pcs.len() > 2));
    let recovered = spool.recover().expect("its process is gone");
    let profile = Profile::read(&app.profile());
    assert_eq!((recovered.samples, profile.samples()), (100, 100));
    expect_clean(&profile);
    assert!(spool.samples().is_err(), "it is gone");

    let (_, spool) = app.spool_of_killed("ways kill 5 40");
    assert_eq!(spool.samples().expect("its process is gone").len(), 200, "each chain once for each thread");
    assert_eq!(spool.recover().expect("its process is gone").samples, 200);
    let profile = Profile::read(&app.profile());
    expect_clean(&profile);
    assert_eq!((profile.samples(), chains(&profile).len()), (200, 40));
    // For google/pprof, a stack may take two records.
    assert!(profile.records.len() <= 80, "{}", profile.records.len());
}

#[test]
fn a_spool_has_no_threads_by_default() {
    let app = App::new();
    assert_eq!(exit_code(run(&mut app.command("threads kill one 10")).status), 128 + 9);
    let spool = app.spool();
    let samples = spool.samples().expect("its process is gone");
    assert_eq!(samples.iter().map(|sample| sample.count).sum::<u64>(), 10);
    assert!(!spool.is_by_thread() && samples.iter().all(|sample| sample.thread.is_none()));
}

/// Records with threads exceed the memory, but their stacks do not: they are spilled, and merged at
/// exit or by recovery.
#[test]
fn spilled_records_are_merged() {
    let app = App::new();
    let least = |mut command: Command| {
        command.env("CPUPROFILE_MAX_MEMORY", "8M");
        command
    };
    let finished = run(&mut least(app.by_thread("ways exit 8 2500"))).expect_success();
    assert!(figure(&finished, "spilled") > 1000, "{}", finished.stderr);
    let profile = Profile::read(&app.profile());
    assert_eq!(
        (profile.samples(), chains(&profile).len(), figure(&finished, "table_full")),
        (20_000, 2500, 0)
    );
    // For google/pprof, a stack may take two records.
    assert!(profile.records.len() <= 5000, "{}", profile.records.len());
    expect_clean(&profile);

    assert_eq!(exit_code(run(&mut least(app.by_thread("ways kill 8 2500"))).status), 128 + 9);
    let spool = app.spool();
    let by_thread = by_thread(&spool.samples().expect("its process is gone"));
    let names: BTreeSet<&str> = by_thread.keys().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert!(by_thread.values().all(|count| *count == 2500), "{by_thread:?}");
    assert_eq!(spool.recover().expect("its process is gone").samples, 20_000);
    let profile = Profile::read(&app.profile());
    assert_eq!((profile.samples(), chains(&profile).len()), (20_000, 2500));
    expect_clean(&profile);
}

/// Stacks that exceed the memory for merging are written separately, without their threads.
#[test]
fn stacks_that_cannot_be_merged_are_written() {
    let app = App::new();
    let mut command = app.by_thread("ways exit 2 20000");
    let finished = run(command.env("CPUPROFILE_MAX_MEMORY", "8M")).expect_success();
    let profile = Profile::read(&app.profile());
    assert_eq!((profile.samples(), figure(&finished, "table_full")), (40_000, 0));
    assert!(profile.records.len() >= 40_000, "it was folded: {}", profile.records.len());
    assert_eq!(chains(&profile).len(), 20_000);
    expect_clean(&profile);
}

/// The deepest stack has one frame less than otherwise.
#[test]
fn the_deepest_stack_has_room_for_its_thread() {
    let app = App::new();
    for (limit, expected) in [("4096", 4095), ("4095", 4095), ("4094", 4094), ("1", 1)] {
        let mut command = app.by_thread("deep exit 9000");
        run(command.env("CPUPROFILE_MAX_DEPTH", limit)).expect_success();
        let profile = Profile::read(&app.profile());
        assert_eq!((profile.samples(), profile.deepest()), (1, expected), "{limit}");
        expect_clean(&profile);
    }
    let mut command = app.by_thread("deep kill 9000");
    assert_eq!(exit_code(run(command.env("CPUPROFILE_MAX_DEPTH", "4096")).status), 128 + 9);
    let samples = app.spool().samples().expect("its process is gone");
    assert_eq!(
        (samples[0].pcs.len(), samples[0].thread.map(|thread| thread.name.to_string())),
        (4095, Some("named_threads".to_owned()))
    );
}

#[test]
fn a_child_is_by_thread_as_its_parent_is() {
    let app = App::new();
    run(&mut app.by_thread("fork kill")).expect_success();
    let spool = app.spool();
    let samples = spool.samples().expect("its process is gone");
    let counts: Vec<_> = by_thread(&samples).into_iter().map(|((name, _), count)| (name, count)).collect();
    assert_eq!(counts, [("child".to_owned(), 5)]);
    let parent = Profile::read(&app.profile());
    assert_eq!(parent.samples(), 3);
    expect_clean(&parent);
}

#[test]
fn a_session_that_a_signal_starts_is_by_thread() {
    let app = App::new();
    let program = app.scratch.compile("spooled.c", Linkage::None, &[]);
    let mut command = profiled(program, &app.profile());
    command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_SPOOL", app.scratch.spools());
    command.env("CPUPROFILE_THREADS", "yes").env("CPUPROFILESIGNAL", "USR2");
    let finished = run(command.args("raise 12 ticks 3 kill".split(' ')));
    assert_eq!(exit_code(finished.status), 128 + 9, "{}", finished.stderr);
    let counts: Vec<_> =
        by_thread(&app.spool().samples().expect("its process is gone")).into_iter().collect();
    assert!(matches!(&counts[..], [((name, _), 3)] if name == "spooled"), "{counts:?}");
}

/// More threads than entries: no sample is lost, and those of the rest are counted together.
#[test]
fn threads_beyond_the_table_are_sampled() {
    const CROWD: u64 = 6000;
    let app = App::new();
    let finished = run(&mut app.by_thread(&format!("crowd exit {CROWD}"))).expect_success();
    let (known, others) = (figure(&finished, "threads"), figure(&finished, "unnamed_samples"));
    assert_eq!(known + others, CROWD, "{}", finished.stderr);
    assert!((3500..=4096).contains(&known), "{known} of {CROWD} are known");
    let profile = Profile::read(&app.profile());
    assert_eq!((profile.samples() as u64, chains(&profile).len()), (CROWD, 1));

    assert_eq!(exit_code(run(&mut app.by_thread(&format!("crowd kill {CROWD}"))).status), 128 + 9);
    let samples = app.spool().samples().expect("its process is gone");
    let (known, others): (Vec<_>, Vec<_>) = samples.iter().partition(|sample| sample.thread.is_some());
    let sum = |samples: &[&SpooledSample]| samples.iter().map(|sample| sample.count).sum::<u64>();
    assert!((3500..=4096).contains(&sum(&known)), "{} are known", sum(&known));
    assert_eq!(sum(&known) + sum(&others), CROWD);
}

/// python3 with threads that name themselves and send themselves ticks.
#[test]
fn threads_of_python_have_their_samples_under_their_names() {
    const SCRIPT: &str = r#"
import ctypes, signal, threading
set_name = ctypes.CDLL(None).prctl
def work(name, ticks):
    set_name(15, name.encode())
    for _ in range(ticks):
        signal.pthread_kill(threading.get_ident(), signal.SIGPROF)
for name, ticks in ("py-small", 30), ("py-large", 200):
    thread = threading.Thread(target=work, args=(name, ticks))
    thread.start()
    thread.join()
"#;
    let scratch = Scratch::new();
    let mut command = profiled("/usr/bin/python3", &scratch.path("prof"));
    quietly_with_threads(&mut command).env("CPUPROFILE_STATISTICS", "1").env("CPUPROFILE_THREADS", "1");
    let finished = run(command.args(["-c", SCRIPT])).expect_success();
    for (name, ticks) in [("py-small", 30), ("py-large", 200)] {
        let threads = threads(&finished);
        let thread = threads.iter().find(|thread| thread.name == name);
        assert_eq!(thread.map(|thread| thread.samples), Some(ticks), "{name}: {threads:?}");
    }
}

/// The application's filter kills it for `gettid`: samples have no threads, and it is not killed.
#[test]
fn a_sandboxed_application_is_not_killed_for_its_threads() {
    let scratch = Scratch::new();
    let program = scratch.compile("sandboxed.c", Linkage::None, &["-O2", "-pthread"]);
    for clock in ["cpu", "itimer"] {
        let mut command = profiled(&program, &scratch.path("prof"));
        command.env("CPUPROFILE_CLOCK", clock).env("CPUPROFILE_FREQUENCY", "1000");
        command.env("CPUPROFILE_THREADS", "1").env("CPUPROFILE_STATISTICS", "1");
        let finished = run(&mut command);
        assert!(finished.status.success(), "{clock}: {}, {}", finished.status, finished.stderr);
        // The scheduler decides if a tick comes after the filter.
        assert!(!is_full() || figure(&finished, "unnamed_samples") > 0, "{}", finished.stderr);
        expect_sum(&scratch.path("prof"), &finished);
    }
}

#[track_caller]
fn expect_sum(path: &Path, finished: &Finished) {
    let samples: u64 = threads(finished).iter().map(|thread| thread.samples).sum();
    let sum = samples + figure(finished, "unnamed_samples");
    assert_eq!(sum, Profile::read(path).samples() as u64, "{}", finished.stderr);
    assert!(fs::metadata(path).is_ok_and(|status| status.len() > 0));
}
