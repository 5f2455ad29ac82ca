//! Clock `wall`: each thread's elapsed time is in the profile, whether it waits or runs.

use crate::chance::margin;
use crate::support::wall::{Run, command};
use crate::support::{Profile, Scratch, Symbolizer, profiled, run};

/// Each wait takes as long as the others, and as the main thread, except for two partial cells and
/// the time to create and release all threads.
#[test]
fn waits_have_their_time() {
    let scratch = Scratch::new();
    let mut run = Run::of(&scratch, &["waits", "1000"], &[("CPUPROFILE_FREQUENCY", "1000")]);
    let waited = run.sampled_in("until_sampled");
    assert!(waited > 0.5, "{waited} s");
    for kind in ["read", "waitpid", "mutex", "cond", "semaphore", "flock", "open", "accept", "recv"] {
        let sampled = run.sampled_in(&format!("waits_in_{kind}"));
        let is_true = (waited - 4.0 * run.period()..run.said("all") + 2.0 * run.period()).contains(&sampled);
        assert!(is_true, "{sampled} s in {kind}, {waited} s meanwhile");
    }
}

/// Threads of 1 to 4.3 ms with a period of 10 ms: one tick in several threads represents all of
/// them, so the sum is their time, up to the deviation of as many ticks.
#[test]
fn threads_shorter_than_the_period_have_their_time() {
    let scratch = Scratch::new();
    let mut run = Run::of(&scratch, &["short", "2000"], &[]);
    let (lived, sampled) = (run.said("short"), run.sampled_in("short_life"));
    let ticks = lived / run.period();
    let margin = margin(ticks) * run.period();
    assert!(ticks > 300.0 && (sampled - lived).abs() < margin, "{sampled} of {lived} s, margin {margin}");
}

/// A thread that no `pthread_create` reported lacks 1/20 s until it is found, twice that if another
/// thread was looking at that time, and more on a busy machine.
#[test]
fn a_thread_without_pthread_create_is_found() {
    let scratch = Scratch::new();
    let mut run = Run::of(&scratch, &["other-ways", "3000"], &[("CPUPROFILE_FREQUENCY", "1000")]);
    let (lived, sampled) = (run.said("otherwise"), run.sampled_in("made_otherwise"));
    assert!(sampled > lived / 2.0 && sampled < lived + 2.0 * run.period(), "{sampled} of {lived} s");
}

/// Each of 200 threads has its time, with at most 32 ticks in a period.
#[test]
fn many_waiting_threads_take_few_ticks() {
    let scratch = Scratch::new();
    let mut run = Run::of(
        &scratch,
        &["crowd", "200", "20000"],
        &[("CPUPROFILE_FREQUENCY", "250"), ("CPUPROFILE_STATISTICS", "1")],
    );
    let (lived, sampled) = (run.said("crowd"), run.sampled_in("waits_with_others"));
    let (ticks, samples) = (run.counted("timer_ticks") as f64, run.counted("samples") as f64);
    // Each thread's last cell of seven periods is sampled or not. Late ticks weigh more.
    let cell = (samples / ticks).max(7.0);
    let margin = margin(200.0 / 4.0) * cell * run.period();
    assert!((sampled - lived).abs() < margin, "{sampled} s of {lived}, margin {margin}");
    // The first four ticks of each thread may be closer.
    let most = run.said("meanwhile") / run.period() * 32.0;
    assert!(ticks < 1.1 * most + 5.0 * 200.0, "{ticks} ticks, {most} expected");
    assert!(samples > 2.0 * ticks, "{samples} samples by {ticks} ticks");
}

/// A program that handles SIGALRM gets all of its signals; a diagnostic names missing threads.
#[test]
fn reports_missing_threads_of_a_program_that_handles_the_signal() {
    let scratch = Scratch::new();
    let mut run = Run::of(&scratch, &["handles"], &[("CPUPROFILE_FREQUENCY", "250")]);
    let [line] = run.finished.complaints()[..] else { panic!("{}", run.finished.stderr) };
    assert!(line.starts_with("sigprof: only the first thread is sampled in the profile at "), "{line}");
    assert!(line.contains("CPUPROFILE_TIMER_SIGNAL"), "{line}");
    let (all, sampled) = (run.said("all"), run.sampled_in("main"));
    assert!(
        (sampled - all).abs() < 0.05 * all + 4.0 * run.period(),
        "{sampled} of {all} s in the first thread"
    );
    // With another signal nothing is missing.
    let mut run = Run::of(
        &scratch,
        &["handles"],
        &[("CPUPROFILE_FREQUENCY", "250"), ("CPUPROFILE_TIMER_SIGNAL", "SIGRTMIN+5")],
    );
    assert_eq!(run.finished.complaints(), <[&str; 0]>::default());
    let (all, sampled) = (run.said("all"), run.sampled_in("waits_with_others"));
    assert!(sampled > all / 2.0 && sampled < all + 2.0 * run.period(), "{sampled} of {all} s");
}

#[test]
fn threads_of_a_child_are_in_its_own_profile() {
    let scratch = Scratch::new();
    let parent = Run::of(&scratch, &["forks"], &[("CPUPROFILE_FREQUENCY", "1000")]);
    let names = scratch.names("prof_");
    let [name] = &names[..] else { panic!("{names:?}") };
    let profile = Profile::read(&scratch.path(name));
    let mut child = Run { finished: parent.finished, profile, symbols: Symbolizer::default() };
    let (lived, sampled) = (child.said("crowd"), child.sampled_in("waits_with_others"));
    assert!((sampled - lived).abs() < 4.0 * child.period(), "{sampled} of {lived} s");
}

/// Threads without timers, because of the user's limit, are not sampled. The summary line reports
/// their time, to within a twentieth of a second at either end of each look for threads.
#[test]
fn reports_threads_without_a_timer() {
    let scratch = Scratch::new();
    let program = command(&scratch, &[]).get_program().to_owned();
    let mut limited = profiled("/bin/bash", &scratch.path("prof"));
    limited.args(["-c", "ulimit -i 100 && exec \"$@\"", "bash"]).arg(program).args(["crowd", "60", "10000"]);
    limited.envs([
        ("CPUPROFILE_CLOCK", "wall"),
        ("CPUPROFILE_STATISTICS", "1"),
        ("CPUPROFILE_FREQUENCY", "250"),
    ]);
    let finished = run(limited.current_dir(scratch.root())).expect_success();
    let name = scratch.names("prof").into_iter().max().expect("a profile");
    let profile = Profile::read(&scratch.path(&name));
    let run = Run { finished, profile, symbols: Symbolizer::default() };
    let there = run.said("crowd") + run.said("all");
    let (sampled, unaccounted) =
        (run.profile.samples() as f64 * run.period(), run.last("unaccounted_micros") / 1e6);
    let missing = there - sampled;
    assert!(missing > there / 3.0, "{sampled} of {there} s: the limit does nothing");
    let margin = 60.0 * 0.1 + 0.1 * missing;
    assert!((unaccounted - missing).abs() < margin, "{unaccounted} of {missing} s, margin {margin}");
    assert!(run.finished.stderr.contains(" s unaccounted: "), "{}", run.finished.stderr);
}

#[test]
fn an_exited_main_thread_takes_no_time() {
    let scratch = Scratch::new();
    let run = Run::of(
        &scratch,
        &["leader-ends"],
        &[("CPUPROFILE_FREQUENCY", "250"), ("CPUPROFILE_STATISTICS", "1")],
    );
    let unaccounted = run.last("unaccounted_micros") / 1e6;
    assert!(unaccounted < 0.1 * run.said("all"), "{unaccounted} of {} s", run.said("all"));
}
