//! The bound of the profiler's memory, with any number of different stacks. Records that do not fit
//! are spilled to a file beside the profile, or lost and counted.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, names_in, profiled, rounds, run, start, wait,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sigprof::recover::{self, Recovered};

/// Stacks of 26 frames take 224 bytes each: they fill the smallest table five or ten times.
fn ticks() -> usize {
    rounds(100_000, 200_000)
}

/// `CPUPROFILE_MAX_MEMORY`, in KiB.
const BOUND: usize = 8 << 10;

struct App {
    scratch: Scratch,
    program: PathBuf,
}

impl App {
    fn new() -> Self {
        let scratch = Scratch::new();
        let program = scratch.compile("unique_chains.c", Linkage::None, &["-fno-optimize-sibling-calls"]);
        std::fs::create_dir(scratch.path("profiles")).expect("a directory of our own");
        Self { scratch, program }
    }

    fn profiles(&self) -> PathBuf {
        self.scratch.path("profiles")
    }

    fn profile(&self) -> PathBuf {
        self.profiles().join("prof")
    }

    /// The application with the least memory, its own spool directory, and words (see its source).
    fn command(&self, threads: usize, action: &str) -> Command {
        let mut command = profiled(&self.program, &self.profile());
        command
            .env("CPUPROFILE_FREQUENCY", "1")
            .env("CPUPROFILE_MAX_MEMORY", format!("{BOUND}K"))
            .env("CPUPROFILE_SPOOL", self.scratch.path("spools"))
            .env("CPUPROFILE_STATISTICS", "1")
            .args([&(ticks() / threads).to_string(), &threads.to_string(), "0", action]);
        command
    }

    #[track_caller]
    fn recover(&self) -> Recovered {
        let spools = recover::spools(&self.scratch.path("spools")).expect("the directory can be read").spools;
        let [spool] = <[recover::Spool; 1]>::try_from(spools).expect("one spool");
        spool.recover().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Panics unless the profile has so many samples, apart from the timer's own, and no other file
    /// is left.
    #[track_caller]
    fn expect_samples(&self, samples: usize) -> Profile {
        let profile = Profile::read(&self.profile());
        let found = profile.samples();
        assert!((samples..samples + 60).contains(&found), "{found} samples, where {samples} were sent");
        assert_eq!(names_in(&self.profiles(), ""), ["prof"]);
        profile
    }
}

#[track_caller]
fn expect_done(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert!(finished.text().ends_with("done\n"), "{}", finished.text());
}

/// The growth of the application's memory, in KiB.
fn growth(finished: &Finished) -> usize {
    let text = finished.text();
    let (_, rest) = text.split_once("grew ").expect("the application's line");
    rest.split_once('\n').expect("a line").0.parse().expect("a number")
}

#[track_caller]
fn figure(finished: &Finished, name: &str) -> usize {
    let (_, rest) =
        finished.stderr.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{}", finished.stderr));
    rest.split_once(' ').expect("it is not the last").0.parse().expect("a number")
}

/// The application's stacks exceed the memory: all are in the profile, and the bound is kept.
#[test]
fn many_stacks_take_no_more_memory_than_allowed() {
    let app = App::new();
    let finished = run(&mut app.command(1, "end"));
    expect_done(&finished);
    app.expect_samples(ticks());
    assert!(growth(&finished) <= BOUND, "{}", finished.text());
    assert_eq!((figure(&finished, "table_full"), figure(&finished, "spill_lost")), (0, 0));
    assert!(figure(&finished, "spilled") > ticks() / 2, "{}", finished.stderr);
}

/// The application's stacks exceed the memory, and there is no spool: all are in the profile.
#[test]
fn many_stacks_need_no_spool() {
    let app = App::new();
    let finished = run(app.command(1, "end").env("CPUPROFILE_SPOOL", "off"));
    expect_done(&finished);
    app.expect_samples(ticks());
    assert!(growth(&finished) <= BOUND, "{}", finished.text());
}

/// Four threads' stacks exceed the memory: all are in the profile, or counted as lost.
#[test]
fn threads_with_many_stacks_count_each_lost_sample() {
    let app = App::new();
    let finished = run(&mut app.command(4, "end"));
    expect_done(&finished);
    // The scheduler decides how long a preempted thread uses its half, and how much is lost.
    let lost = figure(&finished, "table_full") + figure(&finished, "no_slot");
    app.expect_samples(ticks() - lost);
    assert!(figure(&finished, "spilled") > 0, "{}", finished.stderr);
    assert!(growth(&finished) <= BOUND, "{}", finished.text());
}

/// The application exits by `_exit`: spilled records are in its profile.
#[test]
fn spilled_records_are_written_at_underscore_exit() {
    let app = App::new();
    expect_done(&run(&mut app.command(1, "_exit")));
    app.expect_samples(ticks());
}

/// The application is killed: the recovered profile has all ticks of the spool and the spill file.
#[test]
fn spilled_records_are_recovered_after_a_kill() {
    let app = App::new();
    let mut child = start(&mut app.command(1, "wait"));
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("the application's line");
    assert_eq!(line, "ticked\n");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("our own child");
    assert_eq!(exit_code(wait(child).status), 128 + 9);
    assert_eq!(names_in(&app.profiles(), "").len(), 1, "what was moved");
    let recovered = app.recover();
    let profile = app.expect_samples(ticks());
    assert_eq!((recovered.samples, recovered.lost), (profile.samples() as u64, 0));
    assert_eq!(names_in(&app.scratch.path("spools"), ""), Vec::<String>::new());
}

/// The application closes all descriptors, as daemons do: records are still spilled.
#[test]
fn records_are_spilled_after_all_descriptors_are_closed() {
    let app = App::new();
    let finished = run(&mut app.command(1, "close-all"));
    expect_done(&finished);
    assert_eq!((figure(&finished, "table_full"), figure(&finished, "spill_lost")), (0, 0));
    app.expect_samples(2 * ticks());
}

/// The application removes the spill file: its records are counted as lost.
#[test]
fn spilled_records_that_are_removed_are_counted_as_lost() {
    let app = App::new();
    let finished = run(app.command(1, "lose-records").arg(app.profiles()));
    expect_done(&finished);
    let lost = figure(&finished, "spill_lost");
    assert!(
        lost > ticks() / 2 && finished.stderr.contains(&format!(" ({lost} lost)")),
        "{}",
        finished.stderr
    );
    app.expect_samples(ticks() - lost);
}

/// The application forks after a spill: parent and child have profiles with their own ticks.
#[test]
fn a_child_spills_its_own_records() {
    let app = App::new();
    let finished = run(&mut app.command(1, "fork"));
    expect_done(&finished);
    let names = names_in(&app.profiles(), "");
    assert_eq!(names.len(), 2, "{names:?}");
    for (name, expected) in names.iter().zip([2 * ticks(), ticks()]) {
        let samples = Profile::read(&app.profiles().join(name)).samples();
        assert!((expected..expected + 60).contains(&samples), "{name}: {samples}");
    }
}

/// The application replaces itself after a spill: both programs' profiles have all of their ticks.
#[test]
fn the_next_program_spills_its_own_records() {
    let app = App::new();
    expect_done(&run(&mut app.command(1, "exec")));
    let names = names_in(&app.profiles(), "");
    assert_eq!(names.len(), 2, "{names:?}");
    for (name, expected) in names.iter().zip([ticks(), 2 * ticks()]) {
        let samples = Profile::read(&app.profiles().join(name)).samples();
        assert!((expected..expected + 60).contains(&samples), "{name}: {samples}");
    }
}

/// The application's exec fails after a spill: it continues, and its profile has all ticks.
#[test]
fn records_are_spilled_after_a_failed_exec() {
    let app = App::new();
    expect_done(&run(&mut app.command(1, "exec-fails")));
    app.expect_samples(2 * ticks());
}

/// The application's file size limit is too small for its profile: no signal kills it, a line says
/// why records could not be spilled, and the others are recovered.
#[test]
fn a_file_size_limit_loses_records_without_killing_the_application() {
    let app = App::new();
    let profiled = app.command(1, "end");
    // 8 MiB. The shell itself is not profiled.
    let script = "ulimit -f 16384; export LD_PRELOAD=$LIBRARY; exec \"$@\"";
    let mut shell = crate::support::plain("sh");
    shell.args(["-c", script, "sh"]).arg(profiled.get_program()).args(profiled.get_args());
    for (name, value) in profiled.get_envs() {
        match value {
            Some(value) if name == "LD_PRELOAD" => shell.env("LIBRARY", value),
            Some(value) => shell.env(name, value),
            None => &mut shell,
        };
    }
    let finished = run(&mut shell);
    expect_done(&finished);
    let said = |what: &str| finished.stderr.contains(what);
    let why = said("could not be spilled to a file beside the profile at ") && said(": File too large");
    assert!(why, "{}", finished.stderr);
    assert!(
        said("no profile at") && said("; to recover its samples: sigprof recover "),
        "{}",
        finished.stderr
    );
    let (lost, recovered) = (figure(&finished, "table_full"), app.recover());
    assert_eq!((recovered.lost, lost > ticks() / 2), (lost as u64, true));
    app.expect_samples(ticks() - lost);
}
