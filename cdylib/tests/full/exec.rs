//! The rate of ticks after a failed exec.

use crate::support::{Profile, Scratch, profiled, run};

#[test]
fn ticks_keep_their_rate_after_a_failed_exec() {
    let scratch = Scratch::new();
    let script = r#"my $end = 1 + (times)[0] + (times)[1]; exec { "/no/such/program" } "x";
        while ((times)[0] + (times)[1] < $end) { 1 for 1..1e4 }"#;
    let mut command = profiled("/usr/bin/perl", &scratch.path("prof"));
    run(command.env("CPUPROFILE_FREQUENCY", "10000").args(["-e", script])).expect_success();
    // Half of the second after the call, far more than perl's start: a busy machine delays ticks.
    assert!(Profile::read(&scratch.path("prof")).samples() > 5000);
}
