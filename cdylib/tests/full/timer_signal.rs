//! With any clock and signal, the samples represent the time that was used.

use crate::support::{Finished, Linkage, Profile, Scratch, SessionTime, profiled, run};

#[track_caller]
fn seconds(finished: &Finished) -> f64 {
    said(finished, "all ")
}

#[track_caller]
fn said(finished: &Finished, name: &str) -> f64 {
    let text = finished.text();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// Returns the sampled seconds. For CPU time, samples and unaccounted time must be the time that
/// the program prints, plus start and exit; samples represent all time before a tick that it saw.
#[track_caller]
fn sampled(scratch: &Scratch, finished: &Finished, clock: &str) -> f64 {
    let profile = Profile::read(&scratch.path("prof"));
    let period = profile.period_micros as f64 / 1e6;
    if clock != "wall" {
        let time = SessionTime::only(finished);
        assert_eq!(time.samples, profile.samples(), "{}", finished.stderr);
        let rest = finished.used - said(finished, "represented_until ") + said(finished, "others ");
        let outcome = time
            .adds_up(period, 1)
            .and_then(|()| time.is_of(seconds(finished), finished))
            .and_then(|()| time.is_accounted_except(rest, period));
        outcome.unwrap_or_else(|failure| panic!("{clock}: {failure}; {}", finished.text()));
    }
    profile.samples() as f64 * period
}

#[test]
fn the_time_is_sampled_with_any_clock_and_signal() {
    for clock in ["cpu", "itimer", "perf", "wall"] {
        for signal in ["34", "64"] {
            let scratch = Scratch::new();
            let program = scratch.compile("timer_signal.c", Linkage::None, &["-O2"]);
            let mut command = profiled(program, &scratch.path("prof"));
            command
                .args([signal, "computes"])
                .env("CPUPROFILE_CLOCK", clock)
                .env("CPUPROFILE_STATISTICS", "1");
            command.envs([("CPUPROFILE_TIMER_SIGNAL", signal), ("CPUPROFILE_FREQUENCY", "250")]);
            let finished = run(&mut command).expect_success();
            let sampled = sampled(&scratch, &finished, clock);
            // Elapsed time is never less than the time used.
            let least = if clock == "wall" { seconds(&finished) * 0.98 - 0.012 } else { 0.0 };
            assert!(sampled >= least, "{sampled} of {least} s, {clock}, {signal}");
        }
    }
}
