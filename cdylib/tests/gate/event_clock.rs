//! The default clock: perf events if the kernel permits those that sample time in the kernel,
//! otherwise CPU timers. Threads that cannot have an event, or lose it, have CPU timers.
//!
//! The program finds out what the kernel permits, with its own rights.

use crate::support::{
    Finished, Lack, Linkage, Profile, Scratch, Symbolizer, plain, preload, run, shared_library, skip,
    thread_lines,
};
use std::path::PathBuf;
use std::process::Command;

struct Application {
    scratch: Scratch,
    program: PathBuf,
}

impl Application {
    /// `None`, and the test is skipped, if the kernel does not permit events that sample it.
    fn with_events() -> Option<Self> {
        let application = Self::new();
        permits(&application.run(&[], "probe"), "kernel").then_some(application)
    }

    fn new() -> Self {
        let scratch = Scratch::new();
        let program = scratch.compile("event_clock.c", Linkage::Shared, &["-O2", "-pthread"]);
        Self { scratch, program }
    }

    /// The application with orders (listed at the head of its source), started by `wrapper`.
    fn command(&self, wrapper: &[&str], variables: &[&str], orders: &str) -> Command {
        let [program, arguments @ ..] = wrapper else { panic!("no wrapper") };
        let mut command = plain(program);
        command.args(arguments).arg("env").arg(format!("LD_PRELOAD={}", shared_library().display()));
        command.arg(format!("CPUPROFILE={}", self.scratch.path("prof").display()));
        command.args(["CPUPROFILE_STATISTICS=1", "CPUPROFILE_FREQUENCY=1000"]).args(variables);
        command.arg(&self.program).args(orders.split(' '));
        command
    }

    /// Runs the application in `programs/sandbox.c`.
    fn in_sandbox(&self, sandbox: &str, variables: &[&str], orders: &str) -> Finished {
        let program = self.scratch.compile("sandbox.c", Linkage::None, &[]);
        let wrapper = [program.to_str().expect("UTF-8"), sandbox];
        run(&mut self.command(&wrapper, variables, orders)).expect_success()
    }

    fn run(&self, variables: &[&str], orders: &str) -> Finished {
        run(&mut self.command(&["env"], variables, orders)).expect_success()
    }
}

/// The clock in the program's statistics, which its summary line must name too.
#[track_caller]
fn clock_of(finished: &Finished) -> &str {
    let statistics = finished.stderr.lines().find(|line| line.starts_with("sigprof: statistics: "));
    let word = statistics.and_then(|line| line.split(' ').find_map(|word| word.strip_prefix("clock=")));
    let clock = word.unwrap_or_else(|| panic!("no clock: {}", finished.stderr));
    let end = format!(" (clock {clock})");
    assert!(
        finished.stderr.lines().any(|line| line.starts_with("PROFILE: ") && line.contains(&end)),
        "{end}"
    );
    clock
}

/// The numbers after each `name` in the application's output.
fn printed(finished: &Finished, name: &str) -> Vec<i32> {
    let text = finished.text();
    let words: Vec<_> = text.split_whitespace().collect();
    let numbers =
        words.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1].parse().expect("a number"));
    numbers.collect()
}

/// Whether the application printed that these events are permitted. If not, the test is skipped.
fn permits(finished: &Finished, what: &str) -> bool {
    let is_permitted = finished.text().contains(&format!("permits {what}\n"));
    if !is_permitted {
        skip(Lack::System, format!("perf events: {}", finished.text().lines().next().unwrap_or_default()));
    }
    is_permitted
}

#[test]
fn permitted_events_are_the_default_clock() {
    let Some(application) = Application::with_events() else { return };
    // Without ticks of the process, the samples are of ticks of the event.
    let finished = application.run(&[], "disarm samples 5 count");
    assert_eq!((clock_of(&finished), printed(&finished, "events")), ("perf", vec![1]));
    assert!(printed(&finished, "lowest")[0] >= 20, "{}", finished.text());
    for (variables, clock) in [
        (&["CPUPROFILE_CLOCK=auto"][..], "perf"),
        (&["CPUPROFILE_CLOCK=cpu"], "cpu"),
        (&["CPUPROFILE_PER_THREAD_TIMERS=1"], "cpu"),
        (&["CPUPROFILE_CLOCK=itimer"], "itimer"),
        // The kernel sends SIGIO instead of a real-time signal that it cannot queue.
        (&["CPUPROFILE_TIMER_SIGNAL=40"], "cpu"),
    ] {
        let finished = application.run(variables, "samples 5 count");
        let events = i32::from(clock == "perf");
        assert_eq!(
            (clock_of(&finished), printed(&finished, "events")),
            (clock, vec![events]),
            "{variables:?}"
        );
    }
}

/// With such events, time in system calls would be attributed to the code after them.
#[test]
fn events_that_exclude_the_kernel_are_not_the_default_clock() {
    let application = Application::new();
    let finished = application.in_sandbox("no-perfmon", &[], "probe samples 5 count");
    if !permits(&finished, "user") {
        return;
    }
    assert_eq!((clock_of(&finished), printed(&finished, "events")), ("cpu", vec![0]));
    assert_eq!(finished.complaints().len(), 2, "statistics, and the thread: {}", finished.stderr);
    // They are a clock on request.
    let finished = application.in_sandbox("no-perfmon", &["CPUPROFILE_CLOCK=perf"], "samples 5 count");
    assert_eq!((clock_of(&finished), printed(&finished, "events")), ("perf", vec![1]));
}

/// perf_event_open(2) is not called under a filter that returns an error, or kills the process,
/// such as systemd's `SystemCallFilter=@system-service`.
#[test]
fn a_program_with_a_seccomp_filter_is_not_killed_for_events() {
    let application = Application::new();
    for filter in ["no-perf", "no-perf-or-killed"] {
        let finished = application.in_sandbox(filter, &[], "samples 5 count");
        assert_eq!((clock_of(&finished), printed(&finished, "events")), ("cpu", vec![0]), "{filter}");
        assert_eq!(finished.complaints().len(), 2, "statistics, and the thread: {}", finished.stderr);
    }
}

/// Events use at most 1/8 of the descriptor limit; the other threads have CPU timers.
#[test]
fn events_take_an_eighth_of_the_descriptors() {
    let application = Application::new();
    let is_permitted = permits(&application.run(&[], "probe"), "kernel");
    for (limit, events, clock) in [(64, 8, "perf"), (16, 2, "perf"), (7, 0, "cpu")] {
        let shell = format!("ulimit -n {limit}; exec \"$@\"");
        let wrapper = ["sh", "-c", shell.as_str(), "sh"];
        let finished =
            run(&mut application.command(&wrapper, &[], "threads 20 samples 20 count")).expect_success();
        let (events, clock) = if is_permitted { (events, clock) } else { (0, "cpu") };
        assert_eq!((clock_of(&finished), printed(&finished, "events")), (clock, vec![events]), "{limit}");
        let timers = printed(&finished, "timers")[0];
        assert!(timers == -1 || timers == 21 - events, "{timers} timers of 21 threads, {events} events");
        let figure = |name| thread_lines::figure(&finished, name);
        let without_event = if is_permitted && clock == "perf" { 21 - events } else { 0 };
        assert_eq!((figure("timers_refused"), figure("without_event")), (0, without_event as u64));
    }
}

/// A session starts in a program with more threads than may have an event. Those without wait; they
/// get no signals for the CPU time of the computing thread.
#[test]
fn a_waiting_thread_is_not_interrupted_for_another_thread() {
    let Some(application) = Application::with_events() else { return };
    let profile = application.scratch.path("prof");
    let orders = format!("threads 20 start {} disarm samples 200 count stop interrupted", profile.display());
    let shell = "ulimit -n 16; exec \"$@\"";
    let mut command = plain("sh");
    command.args(["-c", shell, "sh"]).arg(&application.program).args(orders.split(' '));
    let finished = run(command.env("CPUPROFILE_FREQUENCY", "1000")).expect_success();
    assert_eq!(printed(&finished, "interrupted"), [0], "{}", finished.text());
}

/// A tick of the process simultaneous with one of the computing thread would interrupt a waiting
/// thread. A postponed timer may still tick, if threads' ticks come late.
#[test]
fn ticks_of_the_process_do_not_come_with_those_of_threads() {
    let application = Application::new();
    for clock in ["CPUPROFILE_CLOCK=cpu", "CPUPROFILE_CLOCK=auto"] {
        let finished = application.run(&[clock], "threads 20 samples 1000 interrupted");
        let interruptions = printed(&finished, "interrupted")[0];
        assert!(interruptions <= 5, "{clock}: {interruptions} in a second");
    }
}

/// A thread's time slice often ends in the handler, which must not hold a slot then. With as many
/// threads as slots on a large machine, threads that wait for a processor would hold all slots.
#[test]
fn handlers_of_many_threads_find_slots() {
    let Some(application) = Application::with_events() else { return };
    let finished = application.run(&[], "crowd 100");
    let figure = |name| thread_lines::figure(&finished, name);
    let (samples, lost) = (figure("samples"), figure("no_slot"));
    assert!(samples >= 8000 && lost < samples / 20, "{samples} samples, {lost} lost");
}

/// The child shares its parent's memory, but not the sandbox.
#[test]
fn a_sandbox_of_a_vforked_child_is_not_its_parents() {
    let application = Application::new();
    for clock in ["cpu", "auto"] {
        let variable = format!("CPUPROFILE_CLOCK={clock}");
        let finished = application.run(&[&variable], "samples 5 sandbox samples 20 count");
        // The clock is unchanged: a sandbox would have changed it to `itimer`.
        assert_ne!(clock_of(&finished), "itimer", "{clock}");
    }
}

/// The application's handler ends threads' timers. Setting it again must not restart the process's.
#[test]
fn an_application_that_sets_its_handler_repeatedly_has_samples() {
    let application = Application::new();
    let finished = application.run(&[], "samples 5 handler samples 20");
    assert_eq!(clock_of(&finished), "itimer");
}

/// An application can sample itself by an event that sends SIGPROF (perf_event_open(2)).
#[test]
fn signals_of_an_applications_own_event_reach_its_handler() {
    let Some(application) = Application::with_events() else { return };
    let finished = application.run(&["CPUPROFILE_CLOCK=auto"], "samples 5 own 20");
    assert_eq!(printed(&finished, "others"), [0]);
}

#[test]
fn a_thread_gets_a_timer_when_its_event_is_closed() {
    let Some(application) = Application::with_events() else { return };
    let finished = application.run(&[], "samples 5 count close count samples 20 count");
    assert_eq!((clock_of(&finished), printed(&finished, "events")), ("perf", vec![1, 0, 0]));
    // A tick before `count` may have noticed it already.
    let timers = printed(&finished, "timers");
    assert!(matches!(timers[..], [0, 0 | 1, 1] | [-1, -1, -1]), "{timers:?}");
    let figure = |name| thread_lines::figure(&finished, name);
    assert_eq!((figure("timers_refused"), figure("without_event")), (0, 1));
}

/// Threads shorter than a period have samples: their first ticks are at random places in it.
#[test]
fn threads_shorter_than_a_period_have_samples() {
    let Some(application) = Application::with_events() else { return };
    // So few that each gets an event when it starts.
    for threads in ["short 90", "together 90"] {
        application.run(&["CPUPROFILE_FREQUENCY=100"], threads);
        let profile = Profile::read(&application.scratch.path("prof"));
        let mut symbols = Symbolizer::default();
        let share = profile
            .share(|record| symbols.names(&profile, record).iter().any(|name| name == "compute_shortly"));
        // They use 72 periods.
        let samples = share * profile.samples() as f64;
        assert!(samples > 36.0, "{threads}: {samples}");
    }
}

/// A child has no event of its parent, whether it has a session or not.
#[test]
fn a_child_has_no_event_of_its_parent() {
    let Some(application) = Application::with_events() else { return };
    for (follows, events) in [("0", 0), ("1", 1)] {
        let finished =
            application.run(&[&format!("CPUPROFILE_FOLLOW_FORK={follows}")], "threads 5 count fork count");
        assert_eq!(printed(&finished, "events"), [6, events], "CPUPROFILE_FOLLOW_FORK={follows}");
    }
}

/// Clocks that sample at the kernel's timer interrupts report it if these count much more, or much
/// less, CPU time than the process used.
#[test]
fn code_in_step_with_timer_interrupts_is_reported() {
    let scratch = Scratch::new();
    let program = scratch.compile("interrupt_clock.c", Linkage::None, &["-O2", "-rdynamic"]);
    let end_line = |clock: &str, percent: &str| {
        let mut command = preload(&program);
        command.env("CPUPROFILE", scratch.path("prof")).env("CPUPROFILE_CLOCK", clock).args([percent, "1.1"]);
        let finished = run(&mut command).expect_success();
        finished.stderr.lines().find(|line| line.starts_with("PROFILE: ")).expect("a line").to_owned()
    };
    let reported = "code in step with the kernel's timer interrupts, which count ";
    for (clock, percent) in [("cpu", "40"), ("itimer", "200")] {
        let line = end_line(clock, percent);
        let (_, after) = line.split_once(reported).unwrap_or_else(|| panic!("not reported: {line}"));
        let (seconds, rest) = after.split_once(" s: ").expect("seconds");
        assert_eq!(rest, format!("shares can be wrong with clock {clock})"));
        let (counted, used) = seconds.split_once(" of ").expect("of the CPU time");
        let [counted, used] = [counted, used].map(|seconds| seconds.parse::<f64>().expect("a number"));
        let expected = used * percent.parse::<f64>().expect("a number") / 100.0;
        // Both are truncated to hundredths.
        assert!((counted - expected).abs() < 0.03, "{line}");
    }
    for (clock, percent) in [("cpu", "90"), ("perf", "40"), ("wall", "40")] {
        let line = end_line(clock, percent);
        assert!(!line.contains(reported) || clock == "perf" && line.contains("clock cpu"), "{line}");
    }
}
