//! Programs that replace themselves by another.

mod support;

use support::{Profile, Scratch, profiled, run};

/// Perl under the profiler, at the highest rate.
fn perl(scratch: &Scratch, script: &str) -> std::process::Command {
    let mut command = profiled("/usr/bin/perl", &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "10000").args(["-e", script]);
    command
}

/// The new program has no handler of ours, and lives on, though it uses many periods of CPU time. Perl calls `execvp`;
/// `env` calls it again, in an environment without us. What the first program gathered is in its file.
#[test]
fn a_program_that_replaces_another_is_not_ended_by_its_timer() {
    let scratch = Scratch::new();
    for round in 0..10 {
        let script =
            r#"1 for 1..2e6; exec "env", "-i", "/usr/bin/perl", "-e", "1 for 1..2e6; print qq(alive)""#;
        let finished = run(&mut perl(&scratch, script)).expect_success();
        assert_eq!(finished.text(), "alive", "round {round}");
        assert!(Profile::read(&scratch.path("prof")).samples() > 0, "round {round}");
    }
}

/// A call that fails leaves the program profiled.
#[test]
fn ticks_go_on_when_a_program_could_not_be_replaced() {
    let scratch = Scratch::new();
    let script = r#"my $p = "$ENV{CPUPROFILE}"; exec { "/no/such/program" } "x"; 1 for 1..4e6; print -e $p ? "early" : "late""#;
    let finished = run(&mut perl(&scratch, script)).expect_success();
    assert_eq!(finished.text(), "late", "there was nothing to write when the call failed");
    // 4 million rounds are a tenth of a second at least: a thousand periods.
    assert!(Profile::read(&scratch.path("prof")).samples() > 200);
}
