//! Processes of parallel programs.

use super::support::{Rig, is_full};

/// As `mpirun -n 2 sigprof record PROGRAM`.
#[test]
fn each_rank_has_its_own_file() {
    let rig = Rig::new();
    for (name, rank) in [("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_RANK", "1")] {
        let mut command = rig.command(&[], &[rig.program(), "burn", "250"]);
        let finished = super::support::Finished::of(command.env(name, rank).spawn().unwrap()).expect(0);
        assert!(finished.stderr.contains(&format!("sigprof.rank-{rank}.pb.gz")), "{}", finished.stderr);
    }
    assert_eq!(rig.names_that("sigprof."), ["sigprof.rank-0.pb.gz", "sigprof.rank-1.pb.gz"]);
    let profile = rig.profile_at("sigprof.rank-0.pb.gz");
    assert_eq!(rig.times_by(&profile, "rank").into_keys().collect::<Vec<_>>(), ["0"]);
    // A device is written as it is.
    let mut command = rig.command(&["-o", "/dev/null"], &[rig.program(), "burn", "20"]);
    super::support::Finished::of(command.env("PMIX_RANK", "0").spawn().unwrap()).expect(0);
}

/// As `sigprof record mpirun -n 2 PROGRAM`.
#[test]
fn processes_of_a_rank_have_its_label() {
    let rig = Rig::new();
    let script = "PMIX_RANK=0 \"$0\" burn 250 & PMI_RANK=1 \"$0\" burn 500 & wait";
    rig.record(&[], &["sh", "-c", script, rig.program()]).expect(0);
    let times = rig.times_by(&rig.profile(), "rank");
    assert!(times.contains_key("0") && times.contains_key("1"), "{times:?}");
    if is_full() {
        assert!(times["1"] > times["0"], "{times:?}");
    }
}

#[test]
fn ranks_without_room_for_spools_lose_nothing() {
    let rig = Rig::new();
    let script = "ulimit -f 1000; PMIX_RANK=2 \"$0\" burn 250";
    rig.record(&[], &["sh", "-c", script, rig.program()]).expect(0);
    let profile = rig.profile();
    let times = rig.times_by(&profile, "rank");
    assert!(times.contains_key("2"), "{times:?}");
    assert_eq!(rig.processes_in(&profile, "burn_for").len(), 1);
    assert_eq!(rig.names_that(".prof"), [""; 0], "and no file is left");
}
