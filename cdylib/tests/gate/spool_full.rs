//! Full file systems of spools, profiles, or both: the application is not harmed, losses are
//! reported, and written files are valid.
//!
//! Each test mounts small file systems in its thread's mount namespace, which takes root; otherwise
//! the tests are skipped.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::support::{
    Finished, Lack, Profile, SpoolRig, exit_code, has_ended, rounds, run, samples_at, samples_in, skip,
    start, tool, wait,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

/// Moves the calling thread to a new mount namespace. If not permitted, skips the test.
fn has_own_mounts() -> bool {
    // Before that: cargo builds in directories that all threads see.
    crate::support::shared_library();
    let private = unshare(CloneFlags::CLONE_NEWNS).and_then(|()| {
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
    });
    if let Err(error) = private {
        skip(Lack::Right, format_args!("cannot mount: {error}"));
    }
    private.is_ok()
}

struct Small {
    path: PathBuf,
}

impl Small {
    /// In memory, with a size of `kibibytes`, over the directory `path`.
    fn in_memory(path: PathBuf, kibibytes: usize) -> Self {
        fs::create_dir_all(&path).expect("a place for it");
        let options = format!("size={kibibytes}k,mode=700");
        mount(Some("none"), &path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
            .expect("root may mount");
        Self { path }
    }

    /// On a file as disk, with a size of `kibibytes`; `None` if the kernel has no loop devices.
    fn on_disk(rig: &SpoolRig, path: PathBuf, kibibytes: u64) -> Option<Self> {
        fs::create_dir_all(&path).expect("a place for it");
        let disk = rig.scratch.path("disk");
        File::create(&disk).and_then(|file| file.set_len(kibibytes << 10)).expect("an empty disk");
        let made = run(tool("mkfs.ext4").args(["-q", "-m", "0", "-O", "^has_journal"]).arg(&disk));
        let mounted =
            made.status.success().then(|| run(tool("mount").args(["-o", "loop"]).arg(&disk).arg(&path)));
        if !mounted.as_ref().is_some_and(|mounted| mounted.status.success()) {
            skip(Lack::System, format_args!("no file system on a disk: {}{mounted:?}", made.stderr));
            return None;
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("our own file system");
        Some(Self { path })
    }

    /// Fills the file system except for `kibibytes`.
    fn fill(&self, kibibytes: usize) {
        let mut file = File::create(self.filler()).expect("room for a name");
        let block = vec![1; 4096];
        let mut written = 0u64;
        while file.write_all(&block).is_ok() {
            written += 4096;
        }
        // On a disk, blocks are allocated when they are written.
        let _ = file.sync_all();
        file.set_len(written.saturating_sub((kibibytes as u64) << 10)).expect("shorter is possible");
    }

    fn clear(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}

/// The summary line of a session with a truncated spool.
const CUT: &str = "the spool was full";

/// Reads the line that the application prints when it waits.
#[track_caller]
fn read_line(child: &mut Child) {
    let stdout = child.stdout.as_mut().expect("it is captured");
    let mut byte = [0];
    while byte != [b'\n'] {
        stdout.read_exact(&mut byte).expect("the application says where it is");
    }
}

fn release(child: &mut Child) {
    child.stdin.as_mut().expect("it is ours").write_all(b"\n").expect("it reads");
}

#[track_caller]
fn expect_unharmed(finished: &Finished) {
    assert_eq!((exit_code(finished.status), finished.text().as_str()), (3, "hello\n"), "{}", finished.stderr);
}

/// Shared memory is full at the start: the application has no spool, and a complete profile.
#[test]
fn profiles_without_a_spool_if_shared_memory_is_full() {
    if !has_own_mounts() {
        return;
    }
    let rig = SpoolRig::new();
    let small = Small::in_memory("/dev/shm".into(), 2048);
    small.fill(0);
    let mut command = rig.with_default_spools("say hello chains 0 5000 exit 3");
    let finished = run(command.env("CPUPROFILE_STATISTICS", "1"));
    expect_unharmed(&finished);
    assert!(
        finished.stderr.contains("spool=unavailable") && !finished.stderr.contains(CUT),
        "{}",
        finished.stderr
    );
    assert_eq!(samples_at(&rig.profile()), 5000);
}

/// The application's records fill shared memory: it is reported, and no sample is lost.
#[test]
fn reports_that_records_filled_shared_memory() {
    if !has_own_mounts() {
        return;
    }
    let rig = SpoolRig::new();
    let _small = Small::in_memory("/dev/shm".into(), 2048);
    let finished = run(&mut rig.with_default_spools("say hello chains 0 5000 chains 0 10 exit 3"));
    expect_unharmed(&finished);
    let [line] = finished.complaints()[..] else { panic!("not one line: {}", finished.stderr) };
    assert!(line.contains(CUT), "{line}");
    let profile = Profile::read(&rig.profile());
    assert_eq!((profile.samples(), samples_in(&profile, "in_program")), (5010, 5010));
}

/// Another process fills the spools' file system between two ticks, at many moments: no write kills
/// the application, and the profile is complete.
#[test]
fn a_file_system_that_others_fill_is_harmless() {
    if !has_own_mounts() {
        return;
    }
    for chains in [0, 1, 7, 100, 101, 500, 1000] {
        let rig = SpoolRig::new();
        let small = Small::in_memory(rig.spools(), 4096);
        let orders = format!("chains 0 {chains} say hello await chains {chains} 4000 chains 0 4000 exit 3");
        let mut child = start(rig.command(&orders).stdin(Stdio::piped()));
        read_line(&mut child);
        small.fill(0);
        release(&mut child);
        let finished = wait(child);
        assert_eq!(exit_code(finished.status), 3, "{}", finished.stderr);
        assert!(finished.stderr.contains(CUT), "{chains}: {}", finished.stderr);
        assert_eq!(samples_at(&rig.profile()), 8000, "{chains}");
    }
}

/// The file system is filled and cleared repeatedly while four of the application's threads tick.
#[test]
fn a_file_system_that_is_full_at_times_is_harmless() {
    if !has_own_mounts() {
        return;
    }
    for round in 0..rounds(1, 8) {
        let rig = SpoolRig::new();
        let small = Small::in_memory(rig.spools(), 4096);
        let mut command = rig.command("threads 4 3000 say hello exit 3");
        let child = start(command.env("CPUPROFILE_STATISTICS", "1").stdin(Stdio::piped()));
        while !has_ended(&child) {
            small.fill(round * 64);
            small.clear();
        }
        let finished = wait(child);
        expect_unharmed(&finished);
        // Ticks that need memory while another one switches are lost, and counted.
        let figure = |name: &str| -> usize {
            let (_, figure) = finished.stderr.split_once(&format!(" {name}=")).expect("the statistics");
            figure.split(' ').next().and_then(|figure| figure.parse().ok()).expect("a number")
        };
        assert_eq!(figure("foreign_ticks") + figure("table_full"), 12_000, "{}", finished.stderr);
        assert_eq!(samples_at(&rig.profile()), figure("samples"));
    }
}

/// The application is killed with a truncated spool: recovery reports that, and returns the rest.
#[test]
fn recovery_reports_a_truncated_spool() {
    if !has_own_mounts() {
        return;
    }
    let rig = SpoolRig::new();
    let _small = Small::in_memory(rig.spools(), 2048);
    run(&mut rig.command("chains 0 5000 chains 0 10 kill"));
    let spool = rig.only_spool();
    assert!(spool.is_truncated());
    let recovered = spool.recover().expect("its process is gone");
    assert!(recovered.is_truncated && recovered.to_string().contains("file system was full"), "{recovered}");
    let profile = Profile::read(&rig.profile());
    assert_eq!(profile.samples() as u64, recovered.samples);
    assert!(recovered.samples > 100 && recovered.samples < 5000, "{recovered}");
    let twice = profile.records.iter().filter(|record| record.count == 2).count();
    assert_eq!(twice, 10, "chains that fitted are still counted");
}

/// The profile's disk is full: a diagnostic names the spool, from which the profile is recovered
/// when there is space.
#[test]
fn a_profile_that_does_not_fit_stays_in_its_spool() {
    if !has_own_mounts() {
        return;
    }
    let rig = SpoolRig::new();
    let small = Small::in_memory(rig.scratch.path("small"), 1024);
    small.fill(16);
    let profile = small.path.join("prof");
    let mut command = rig.command("say hello chains 0 3000 exit 3");
    let finished = run(command.env("CPUPROFILE", &profile));
    expect_unharmed(&finished);
    let [failure] = finished.complaints()[..] else { panic!("not one line: {}", finished.stderr) };
    assert!(failure.contains(&*profile.to_string_lossy()) && failure.contains("No space"), "{failure}");
    let spool = rig.only_spool();
    assert!(failure.contains(&*spool.path().to_string_lossy()), "{failure}");
    assert_eq!(crate::support::names_in(&small.path, ""), ["filler"], "no part of a profile");
    let error = spool.recover().expect_err("there is still no room").to_string();
    assert!(error.contains("No space") && spool.path().exists(), "{error}");
    assert_eq!(crate::support::names_in(&small.path, ""), ["filler"], "no part of a profile");
    drop(small);
    let small = Small::in_memory(rig.scratch.path("small"), 4096);
    assert_eq!(spool.recover().expect("there is room").path, Some(profile.clone()));
    assert_eq!(samples_at(&profile), 3000);
    assert_eq!(rig.spool_names(), Vec::<String>::new());
    drop(small);
}

/// Both file systems are full: the loss is reported, and the spool's samples are recovered.
#[test]
fn both_file_systems_can_be_full() {
    if !has_own_mounts() {
        return;
    }
    let rig = SpoolRig::new();
    let _spools = Small::in_memory(rig.spools(), 2048);
    let output = Small::in_memory(rig.scratch.path("small"), 256);
    output.fill(8);
    let profile = output.path.join("prof");
    let mut command = rig.command("say hello chains 0 5000 exit 3");
    let finished = run(command.env("CPUPROFILE", &profile));
    expect_unharmed(&finished);
    assert!(
        finished.stderr.contains("No space") && finished.stderr.contains(".spool"),
        "{}",
        finished.stderr
    );
    let elsewhere = rig.scratch.path("elsewhere");
    let recovered = rig.only_spool().recover_to(&elsewhere).expect("there is room elsewhere");
    assert!(recovered.is_truncated && recovered.samples > 100, "{recovered}");
    assert_eq!(samples_at(&elsewhere) as u64, recovered.samples);
}

/// The spools are on a disk that others fill, and from which pages are written back: as in memory.
#[test]
fn a_full_disk_for_spools_is_harmless() {
    if !has_own_mounts() {
        return;
    }
    for chains in [0, 500] {
        let rig = SpoolRig::new();
        let Some(small) = Small::on_disk(&rig, rig.spools(), 6 << 10) else { return };
        let orders = format!("chains 0 {chains} say hello await chains {chains} 4000 chains 0 4000");
        let mut child = start(rig.command(&format!("{orders} exit 3")).stdin(Stdio::piped()));
        read_line(&mut child);
        // Its pages are clean now, and are written to again.
        nix::unistd::sync();
        small.fill(0);
        release(&mut child);
        let finished = wait(child);
        assert_eq!(exit_code(finished.status), 3, "{}", finished.stderr);
        assert!(finished.stderr.contains(CUT), "{}", finished.stderr);
        assert_eq!(samples_at(&rig.profile()), 8000);
        small.clear();
        fs::remove_file(rig.profile()).expect("it was written");

        let mut child = start(rig.command(&format!("{orders} kill")).stdin(Stdio::piped()));
        read_line(&mut child);
        small.fill(0);
        release(&mut child);
        wait(child);
        let recovered = rig.only_spool().recover().expect("its process is gone");
        let samples = recovered.path.as_deref().map_or(0, samples_at);
        assert!(recovered.is_truncated && samples as u64 == recovered.samples, "{recovered}");
        assert!(samples >= 2 * chains, "{recovered}");
        drop(small);
    }
}
