//! The profile accounts for the CPU time that the program has used, in all, in each thread, at any rate.
//!
//! Margins: one in a hundred; for each thread a period, and one tick of the kernel's, which sends signals of CPU timers at
//! its ticks alone, so that what a thread uses between the last one and its end is in no sample.
//!
//! What the kernel does on a busy machine is not ours: with ticks that pass threads by, 0.1 s of a thread can go by without
//! a signal. So each measurement has three tries; and where others had the processors during each of them, the samples of the
//! last may lack more, as far as the library tells so. That samples and what is told to be in none are the time used holds in each
//! try, anywhere.

mod support;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{
    Finished, Linkage, Profile, Scratch, Symbolizer, Told, kernel_tick, plain, profiled, run, shared_library,
};

const RATES: [u32; 5] = [100, 250, 1000, 4000, 10_000];
const TRIES: usize = 3;

/// Measurements of time disturb each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program said, and what its profile says.
struct Measured {
    finished: Finished,
    profile: Profile,
    period: f64,
    /// Seconds that all processors were busy meanwhile, for whomever.
    busy: f64,
    /// No try could be made on a quiet machine, and this is the last.
    is_last_resort: bool,
}

/// What was wrong with each try of a measurement.
#[derive(Debug, Default)]
struct Tries {
    failures: Vec<String>,
    /// How many of them were made on a machine that others used.
    disturbed: usize,
}

impl Tries {
    fn is_over(&self) -> bool {
        self.failures.len() == TRIES
    }

    /// Runs the program once more; true where that stands the test.
    fn stands(
        &mut self,
        command: &mut Command,
        scratch: &Scratch,
        test: impl FnOnce(&Measured) -> Result<(), String>,
    ) -> bool {
        let mut measured = Measured::of(command, scratch);
        measured.is_last_resort = self.disturbed + 1 == TRIES;
        let outcome = test(&measured);
        if let Err(failure) = &outcome {
            self.failures.push(format!("{failure}; {}", measured.finished.stderr));
            self.disturbed += usize::from(measured.is_disturbed());
        }
        outcome.is_ok()
    }
}

/// Seconds that the processors have been busy, and those that the machine's own host took from them: all but the fourth and fifth
/// of the figures in /proc/stat (proc(5)).
fn busy_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").expect("the kernel's statistics");
    let figures = text.lines().next().expect("a line").split_whitespace().skip(1).take(8).enumerate();
    let busy = figures.filter(|(place, _)| ![3, 4].contains(place));
    busy.map(|(_, ticks)| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

impl Measured {
    fn of(command: &mut Command, scratch: &Scratch) -> Self {
        let before = busy_seconds();
        let finished = run(command).expect_success();
        let busy = busy_seconds() - before;
        let profile = Profile::read(&scratch.path("prof"));
        let period = profile.period_micros as f64 / 1e6;
        Self { finished, profile, period, busy, is_last_resort: false }
    }

    /// A number that the program printed.
    fn said(&self, name: &str) -> f64 {
        let text = self.finished.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
    }

    /// A figure of the line of statistics.
    fn counted(&self, name: &str) -> u64 {
        let figure = self
            .finished
            .stderr
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        figure.unwrap_or_else(|| panic!("no {name} in {}", self.finished.stderr)).parse().expect("a number")
    }

    /// Seconds that the samples stand for.
    fn sampled(&self) -> f64 {
        self.profile.samples() as f64 * self.period
    }

    /// Seconds of the samples within a function.
    fn sampled_in(&self, symbols: &mut Symbolizer, function: &str) -> f64 {
        let is_within = |names: &[String]| {
            names.iter().any(|name| name == function || name.starts_with(&format!("{function}.")))
        };
        let share = self.profile.share(|record| is_within(&symbols.names(&self.profile, record)));
        share * self.sampled()
    }

    /// Whether others had a tenth as much of the processors as the program.
    fn is_disturbed(&self) -> bool {
        self.busy > 1.1 * self.said("all")
    }

    /// Compares the whole with what the program used, with so many threads at a time.
    fn total(&self, threads: usize) -> Result<(), String> {
        let per_thread = threads as f64 * (self.period + kernel_tick());
        self.total_but_for(threads, per_thread, self.said("all") / 10.0 + 0.1 + per_thread)
    }

    /// The same, where so many seconds may be in no sample, and so many on a machine that others use.
    #[track_caller]
    fn total_but_for(&self, threads: usize, quiet: f64, disturbed: f64) -> Result<(), String> {
        let (sampled, told) = (self.sampled(), Told::only(&self.finished));
        assert_eq!(told.samples, self.profile.samples(), "{}", self.finished.stderr);
        // No scheduler has a say in this: it has no second try.
        told.adds_up(self.period, threads).unwrap_or_else(|failure| panic!("{failure}"));
        let margin =
            told.used / 100.0 + if self.is_last_resort && self.is_disturbed() { disturbed } else { quiet };
        let used = self.said("all");
        // What the program uses before its session begins, and behind it.
        let is_same = (told.used - used).abs() <= margin;
        let is_sampled = (sampled - told.used).abs() <= margin;
        (is_same && is_sampled).then_some(()).ok_or_else(|| {
            format!("{sampled:.4} of {used:.4} s, margin {margin:.4}, {:.2} s busy: {told:?}", self.busy)
        })
    }

    /// Compares the parts' shares with their clocks: 3 standard deviations of as many ticks as there can be.
    fn shares(&self, parts: usize) -> Result<(), String> {
        let mut symbols = Symbolizer::default();
        for part in 0..parts {
            let name = format!("part_{part}");
            let (used, sampled) = (self.said(&name), self.sampled_in(&mut symbols, &name));
            let ticks = used / self.period.max(kernel_tick());
            let margin = 3.0 * used / ticks.sqrt();
            if (sampled - used).abs() > margin {
                return Err(format!("{sampled:.4} of {used:.4} s in {name}, with a margin of {margin:.4}"));
            }
        }
        Ok(())
    }
}

/// Runs `programs/accuracy.c` with these arguments until what it gave stands the test.
#[track_caller]
fn measure(setting: &[(&str, &str)], arguments: &[&str], test: impl Fn(&Measured) -> Result<(), String>) {
    let _alone = alone();
    let mut tries = Tries::default();
    while !tries.is_over() {
        let scratch = Scratch::new();
        let program = scratch.compile("accuracy.c", Linkage::None, &["-O2", "-pthread"]);
        let mut command = profiled(program, &scratch.path("prof"));
        command.args(arguments).env("CPUPROFILE_STATISTICS", "1").envs(setting.iter().copied());
        if tries.stands(&mut command, &scratch, &test) {
            return;
        }
    }
    panic!("{setting:?} {arguments:?}: {tries:#?}");
}

fn settings(clock: &'static str, rate: &str) -> [(&'static str, String); 2] {
    [("CPUPROFILE_CLOCK", clock.to_owned()), ("CPUPROFILE_FREQUENCY", rate.to_owned())]
}

#[track_caller]
fn measure_at(
    clock: &'static str,
    rate: u32,
    arguments: &[&str],
    test: impl Fn(&Measured) -> Result<(), String>,
) {
    let settings = settings(clock, &rate.to_string());
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    measure(&settings, arguments, test);
}

#[test]
fn one_thread_s_time_is_the_profile_s_at_every_rate() {
    for clock in ["cpu", "itimer", "perf"] {
        for rate in [100, 1000, 10_000] {
            measure_at(clock, rate, &["threads", "1", "1"], |measured| measured.total(2));
        }
    }
}

/// Clock `itimer` is exact in all, and not in each thread.
#[test]
fn four_threads_have_the_time_they_used_at_every_rate() {
    for rate in RATES {
        for clock in ["cpu", "perf"] {
            measure_at(clock, rate, &["threads", "3", "1", "2", "3", "4"], |measured| {
                measured.total(5).and_then(|()| measured.shares(4))
            });
        }
    }
    measure_at("itimer", 1000, &["threads", "3", "1", "2", "3", "4"], |measured| measured.total(5));
}

/// Threads of a millisecond, of which most see no tick, whoever made them.
#[test]
fn short_threads_have_their_time() {
    for (rate, kind) in [(100, "pthread"), (1000, "raw"), (10_000, "both"), (100, "both"), (1000, "pthread")]
    {
        measure_at("cpu", rate, &["short", "2000", kind], |measured| measured.total(3));
    }
    measure_at("cpu", 1000, &["mixed", "1500", "1"], |measured| {
        measured.total(4).and_then(|()| measured.shares(1))
    });
}

/// Threads that are there before the profiler are found, and those that register themselves are as well off.
#[test]
fn threads_that_were_there_before_have_their_time() {
    let _alone = alone();
    let mut tries = Tries::default();
    while !tries.is_over() {
        let scratch = Scratch::new();
        let program = scratch.compile("accuracy.c", Linkage::Shared, &["-O2", "-pthread"]);
        let mut command = plain(program);
        command.args(["before", "3"]).arg(scratch.path("prof"));
        command.envs([("CPUPROFILE_FREQUENCY", "1000"), ("CPUPROFILE_STATISTICS", "1")]);
        if tries
            .stands(&mut command, &scratch, |measured| measured.total(5).and_then(|()| measured.shares(4)))
        {
            return;
        }
    }
    panic!("{tries:#?}");
}

#[test]
fn threads_that_register_have_their_time() {
    let settings = [("CPUPROFILE_FREQUENCY", "250"), ("REGISTER", "1")];
    measure(&settings, &["threads", "3", "1", "2", "3", "4"], |measured| {
        measured.total(5).and_then(|()| measured.shares(4))
    });
}

/// High-resolution timers give as many ticks as are asked for, where the system has them; the kernel's own ticks are some
/// hundreds a second.
#[test]
fn events_come_as_often_as_they_are_asked_for() {
    measure_at("perf", 10_000, &["threads", "1", "1"], |measured| {
        if measured.finished.stderr.contains("instead of perf") {
            return Ok(());
        }
        let ticks = measured.counted("timer_ticks");
        (ticks > 8000).then_some(()).ok_or_else(|| format!("{ticks} ticks of 10000"))
    });
}

/// The place of ticks in the period is drawn anew: otherwise all or none of the samples would be in the first quarter.
#[test]
fn a_program_in_step_with_the_period_is_met_at_all_places() {
    for clock in ["cpu", "perf"] {
        expect_all_places(clock);
    }
}

#[track_caller]
fn expect_all_places(clock: &'static str) {
    measure_at(clock, 100, &["in-step", "5", "10000"], |measured| {
        let mut symbols = Symbolizer::default();
        let share = measured.sampled_in(&mut symbols, "first_quarter") / measured.sampled();
        // Four ticks in a row have the same place, so of 500 ticks 125 are drawn.
        let deviation = (0.25 * 0.75 / 125.0_f64).sqrt();
        let expected =
            measured.said("first_quarter") / (measured.said("first_quarter") + measured.said("the_rest"));
        let is_true = (share - expected).abs() <= 3.0 * deviation;
        is_true.then_some(()).ok_or_else(|| format!("{share:.3} instead of {expected:.3}"))
    });
}

/// A thread that blocks all signals has no samples. Nobody else gets its time, and the last line says that it is missing.
#[test]
fn time_of_threads_that_block_signals_is_told() {
    measure_at("cpu", 250, &["blocked", "2"], |measured| {
        let stderr = &measured.finished.stderr;
        let is_told = stderr.contains("of 2.0") && stderr.contains(" s in no sample: ");
        let mut symbols = Symbolizer::default();
        let seen = measured.sampled_in(&mut symbols, "part_1");
        let is_true = is_told && (seen - 1.0).abs() < 0.04 && (measured.sampled() - seen) < 0.04;
        is_true.then_some(()).ok_or_else(|| format!("{seen} of {} s: {stderr}", measured.sampled()))
    });
}

/// The kernel keeps the timers of ended threads until somebody deletes them.
#[test]
fn ended_threads_leave_no_timer() {
    measure_at("cpu", 1000, &["timers", "300"], |measured| {
        let (most, left) = (measured.said("most"), measured.said("left"));
        assert!(left >= 0.0, "the kernel does not list timers: {left}");
        // The first thread's, and one that has just been adopted.
        let is_true = most <= 20.0 && left <= 1.0;
        is_true.then_some(()).ok_or_else(|| format!("{most} timers, and {left} at the end"))
    });
}

/// A user who may have no more signals pending has no timers; the process's own goes on alone.
#[test]
fn without_timers_for_threads_the_total_is_true() {
    let _alone = alone();
    let mut tries = Tries::default();
    while !tries.is_over() {
        let scratch = Scratch::new();
        let program = scratch.compile("accuracy.c", Linkage::None, &["-O2", "-pthread"]);
        let mut command = plain("prlimit");
        command.args(["--sigpending=0", "env", "CPUPROFILE_STATISTICS=1", "CPUPROFILE_FREQUENCY=250"]);
        command.arg(format!("LD_PRELOAD={}", shared_library().display()));
        command.arg(format!("CPUPROFILE={}", scratch.path("prof").display()));
        command.arg(program).args(["threads", "2", "1", "2", "3", "4"]);
        if tries.stands(&mut command, &scratch, |measured| {
            assert!(measured.counted("timers_refused") > 0, "{}", measured.finished.stderr);
            measured.total(5)
        }) {
            return;
        }
    }
    panic!("{tries:#?}");
}

/// Fifteen hundred threads at the same time, each with a timer of its own.
#[test]
fn a_crowd_of_threads_has_its_time() {
    measure_at("cpu", 1000, &["crowd", "1500"], |measured| {
        assert_eq!(measured.counted("no_slot"), 0);
        // All of them end at the same time: what each has used since the kernel's last tick is in no sample.
        let each = 1500.0 * kernel_tick();
        let disturbed = (each + 1500.0 * measured.period).min(measured.said("all") / 4.0);
        measured.total_but_for(1500, each / 2.0, disturbed.max(each / 2.0))
    });
}
