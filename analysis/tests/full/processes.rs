//! The time of many short processes.

use crate::chance::margin;
use crate::support::{Lack, Rig, printed, skip};
use sigprof_analysis::profile::label;
use std::{fs, process::Command};

/// As in a build: each process uses less than a period, and would exit before its first timer tick.
#[test]
fn short_processes_have_their_total_time_in_the_profile() {
    let rig = Rig::new();
    fs::hard_link(rig.program(), rig.path("late")).unwrap();
    // Both kinds of processes take turns, under the same conditions.
    let script = "for i in $(seq 200); do ./worker burn 6 cpu; CPUPROFILE_RANDOM_START=0 ./late burn 6; done";
    // Each process has a tick by chance: 6 ms in a period of 10 ms, or a little more.
    let by_chance = margin(200.0 * 0.6 * 0.4) * 0.01;
    let times_by = |clock: &str| {
        let finished = rig.record(&["-F", "100", "--clock", clock], &["sh", "-c", script]).expect(0);
        let times = rig.times_by(&rig.profile(), label::PROCESS);
        let [time, late] = ["worker", "late"].map(|name| times.get(name).copied().unwrap_or(0.0));
        let most = printed(&finished.stdout) + by_chance;
        assert!(time < most, "{time} s are in the profile, of at most {most} s");
        [time, late]
    };
    // A tick comes at the kernel's next tick after it is due, and many processes exit before; the
    // scheduler decides. Those with a first tick after a whole period never have one.
    let [time, late] = times_by("cpu");
    assert!(time > 2.0 * late, "{time} s are in the profile, and {late} s of those with a late tick");
    if !has_perf() {
        return skip(Lack::System, "no events of perf");
    }
    // Perf events come on time, independent of the scheduler: 1.2 s were used.
    let [time, _] = times_by("perf");
    assert!(time > 1.2 - by_chance, "{time} s are in the profile");
}

/// Whether perf events of the task clock are permitted: then a null `attr` fails with EFAULT.
fn has_perf() -> bool {
    let number = nix::libc::SYS_perf_event_open;
    let script = format!("exit(syscall({number}, 0, 0, -1, -1, 0) == -1 && $!{{EFAULT}} ? 0 : 1)");
    Command::new("perl").args(["-e", &script]).status().expect("perl is there").success()
}
