//! Other projects' runtimes that use SIGPROF, ITIMER_PROF or signal stacks: output and status are
//! as without the library.

use std::path::PathBuf;

use crate::support::real_programs::run_both_busily;
use crate::support::{Profile, Scratch, is_full, program_source, run, tool};

/// Panics unless there is a profile, in the full check with `least` samples.
#[track_caller]
fn expect_profile(scratch: &Scratch, least: usize) {
    let samples = Profile::read(&scratch.path("prof")).samples();
    assert!(!is_full() || samples >= least, "{samples} samples");
}

/// Builds the committed Go program, with or without cgo.
fn build_go(scratch: &Scratch, uses_cgo: bool) -> PathBuf {
    let program = scratch.path("profiles_itself");
    let mut command = tool("go");
    command.args(["build", "-o"]).arg(&program).arg(program_source("profiles_itself.go"));
    if uses_cgo {
        command.arg(program_source("uses_cgo.go"));
    }
    command.env("CGO_ENABLED", if uses_cgo { "1" } else { "0" }).env("GOFLAGS", "-mod=mod");
    command
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-build"))
        .env("GOPATH", scratch.path("gopath"));
    run(&mut command).expect_success();
    program
}

/// A Go program with cgo profiles itself: its profile has samples, and its channel gets the signal.
/// It exits by a direct system call, so our samples stay in the spool.
#[test]
fn a_go_program_with_cgo_can_profile_itself() {
    let scratch = Scratch::new();
    let program = build_go(&scratch, true);
    let own = scratch.path("own.pb.gz");
    run_both_busily(&scratch, program, |command| command.arg(&own));
}

/// A Go program without libc, started directly or by a profiled shell: it is not profiled or
/// disturbed, and inherits no timer.
#[test]
fn a_static_go_program_is_not_disturbed() {
    let scratch = Scratch::new();
    let program = build_go(&scratch, false);
    let own = scratch.path("own.pb.gz");
    run_both_busily(&scratch, &program, |command| command.arg(&own).arg("timer"));
    assert_eq!(scratch.names("prof_"), Vec::<String>::new(), "a profile of a program without libc");
    assert!(!scratch.path("prof").exists(), "a profile of a program without libc");

    let script = "[ -z \"$LD_PRELOAD\" ] || kill -PROF $$; exec \"$0\" \"$@\"";
    run_both_busily(&scratch, "/bin/sh", |command| {
        command.args(["-c", script]).arg(&program).arg(&own).arg("timer")
    });
    assert!(Profile::read(&scratch.path("prof")).samples() > 0, "the shell's own profile");
    assert_eq!(scratch.names("prof_"), Vec::<String>::new(), "a profile of a program without libc");
}

/// A shell sets a trap for SIGPROF: it runs for each signal that is sent, and never for a tick.
#[test]
fn bash_runs_its_trap_for_the_signal() {
    let scratch = Scratch::new();
    let script = "trap 'echo trapped; n=$((n + 1))' PROF; for i in 1 2 3; do kill -PROF $$; \
        for ((j = 0; j < 30000; j++)); do :; done; done; echo \"$n\"; trap - PROF; exec 2>/dev/null; kill -PROF $BASHPID & wait $!; echo $?";
    let finished = run_both_busily(&scratch, "/usr/bin/bash", |command| command.args(["-c", script]));
    assert_eq!(finished.text(), "trapped\ntrapped\ntrapped\n3\n155\n");
    expect_profile(&scratch, 20);
}

/// Python sets a handler and a timer: it gets all expiries, and reads its timer back.
#[test]
fn python_keeps_its_timer_and_handler() {
    let scratch = Scratch::new();
    let script = "
import signal, os, time
calls = 0
def handler(number, frame):
    global calls
    calls += 1
print(signal.signal(signal.SIGPROF, handler), signal.getsignal(signal.SIGPROF) is handler)
print(signal.getitimer(signal.ITIMER_PROF), signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02))
while calls < 20:
    sum(range(1000))
print(signal.setitimer(signal.ITIMER_PROF, 0)[1], signal.getitimer(signal.ITIMER_PROF))
before = calls
end = time.process_time() + 0.2
while time.process_time() < end:
    sum(range(1000))
print(calls - before)
os.kill(os.getpid(), signal.SIGPROF)
print(calls - before)
signal.siginterrupt(signal.SIGPROF, False)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
os.kill(os.getpid(), signal.SIGPROF)
print(signal.sigwaitinfo([signal.SIGPROF]).si_pid == os.getpid(), calls - before)
";
    run_both_busily(&scratch, "/usr/bin/python3", |command| command.args(["-c", script]));
    expect_profile(&scratch, 100);
}

/// Perl sets `$SIG{PROF}` and a timer: it gets all expiries, and reads its timer back.
#[test]
fn perl_keeps_its_timer_and_handler() {
    let scratch = Scratch::new();
    let script = "
use Time::HiRes qw(setitimer getitimer ITIMER_PROF);
my $calls = 0;
$SIG{PROF} = sub { $calls++ };
my @old = setitimer(ITIMER_PROF, 0.02, 0.02);
print \"@old;\", join(' ', (getitimer(ITIMER_PROF))[1]), \"\\n\";
my $x = 0;
while ($calls < 20) { $x += $_ for 1 .. 1000 }
@old = setitimer(ITIMER_PROF, 0);
print $old[1], ';', scalar(getitimer(ITIMER_PROF)), \"\\n\";
$calls = 0;
my $end = times() + 0.2;
while ((times())[0] < $end) { $x += $_ for 1 .. 1000 }
kill PROF => $$;
print \"$calls\\n\";
";
    run_both_busily(&scratch, "/usr/bin/perl", |command| command.args(["-e", script]));
    expect_profile(&scratch, 100);
}

/// GNU sort has a handler that removes its files and exits: ticks do not call it.
#[test]
fn sort_with_its_own_handler_is_not_killed() {
    let scratch = Scratch::new();
    let lines: String = (0..400_000u32).map(|i| format!("{:08x}\n", i.wrapping_mul(2_654_435_761))).collect();
    let input = scratch.write("input", lines);
    run_both_busily(&scratch, "/usr/bin/sort", |command| {
        command.args(["-S", "8M", "-T"]).arg(scratch.root()).arg(&input)
    });
    expect_profile(&scratch, 10);
}
