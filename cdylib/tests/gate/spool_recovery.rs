//! Recovery of killed programs' spools: their owners, existing files, and damaged spools.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::support::{SpoolRig, is_root, rounds, run, samples_at, start, wait};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use sigprof::format::{CpuProfile, SlotWidth};
use sigprof::recover::{self, Owner, RecoverError, Spool};

/// Offsets of the head's numbers, as in `src/format/spool.rs`.
mod field {
    pub(crate) const MAGIC: u64 = 0;
    pub(crate) const VERSION: u64 = 8;
    pub(crate) const WORD_BYTES: u64 = 16;
    pub(crate) const STATE: u64 = 24;
    pub(crate) const PROCESS: u64 = 32;
    pub(crate) const PROCESS_START: u64 = 40;
    pub(crate) const NAMESPACE: u64 = 48;
    pub(crate) const PERIOD_MICROS: u64 = 64;
    pub(crate) const ARENA_BYTES: u64 = 72;
    pub(crate) const TEXT_BYTES: u64 = 88;
    pub(crate) const TARGET_BYTES: u64 = 160;
}
const ARENA: u64 = (64 << 10) + (960 << 10) + (192 << 10) + (128 << 10);

/// An application that was killed after 20 ticks.
fn killed() -> SpoolRig {
    let rig = SpoolRig::new();
    run(&mut rig.command("ticks 20 kill"));
    rig
}

/// The path of the only spool, even if it is invalid.
fn spool_path(rig: &SpoolRig) -> PathBuf {
    let [name] = &rig.spool_names()[..] else {
        panic!("the application's samples are lost: {:?}", rig.spool_names())
    };
    rig.spools().join(name)
}

fn set(path: &Path, offset: u64, number: u64) {
    let file = File::options().write(true).open(path).expect("our own spool");
    file.write_all_at(&number.to_ne_bytes(), offset).expect("our own spool");
}

fn number(path: &Path, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    File::open(path).expect("our own spool").read_exact_at(&mut bytes, offset).expect("so long it is");
    u64::from_ne_bytes(bytes)
}

#[track_caller]
fn expect_refusal<T: std::fmt::Debug>(result: Result<T, RecoverError>, reason: &str) {
    let error = result.expect_err(reason).to_string();
    assert!(error.contains(reason), "not {reason:?}: {error}");
}

#[test]
fn a_zombies_spool_is_recovered() {
    let rig = SpoolRig::new();
    let child = start(&mut rig.command("ticks 20 kill"));
    let id = Id::Pid(Pid::from_raw(child.id().try_into().expect("a process id")));
    waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("it ends");
    assert_eq!(rig.only_spool().owner(), Owner::Gone);
    assert_eq!(rig.recover().1.samples(), 20);
    wait(child);
}

#[test]
fn a_second_recovery_finds_nothing() {
    let rig = killed();
    let spool = rig.only_spool();
    rig.recover();
    assert_eq!(recover::spools(&rig.spools()).expect("the directory is there").spools.len(), 0);
    fs::remove_file(rig.profile()).expect("it was recovered");
    expect_refusal(Spool::open(spool.path()), "No such file");
    assert_eq!(recover::spools(&rig.scratch.path("missing")).expect("there is none").spools.len(), 0);
}

/// One of two recoveries of a spool writes the profile, and the other returns the reason why not.
/// It never creates a file under another name.
#[test]
fn one_of_two_simultaneous_recoveries_is_refused() {
    let rig = killed();
    let spools = [rig.only_spool(), rig.only_spool()];
    let file = File::open(spools[0].path()).expect("our own spool");
    let claimed =
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno).expect("free");
    expect_refusal(spools[0].recover(), "is being recovered by another process");
    expect_refusal(spools[0].recover_to(&rig.scratch.path("other")), "is being recovered");
    expect_refusal(spools[0].discard(), "is being recovered");
    drop(claimed);
    let results = thread::scope(|scope| {
        spools
            .each_ref()
            .map(|spool| scope.spawn(|| spool.recover()))
            .map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(rig.scratch.names("prof"), ["prof"]);
    for spool in &spools {
        expect_refusal(spool.recover(), "No such file");
        expect_refusal(spool.discard(), "No such file");
    }
}

/// A file from before the program's start, even from the same second, is replaced, as by the
/// program itself. A later one is kept, and the recovered profile is written next to it.
#[test]
fn a_newer_file_stays_and_an_older_one_is_replaced() {
    let rig = SpoolRig::new();
    fs::write(rig.profile(), "older").expect("a file");
    run(&mut rig.command("ticks 20 kill"));
    let (recovered, _) = rig.recover();
    assert_eq!(recovered.path, Some(rig.profile()));

    run(&mut rig.command("ticks 30 kill"));
    fs::write(rig.profile(), "newer").expect("a file");
    // File times have the resolution of the kernel's tick, and the other file is hardly older.
    let file = fs::File::options().write(true).open(rig.profile()).expect("our own file");
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).expect("our own file");
    let process = rig.only_spool().process();
    let (recovered, profile) = rig.recover();
    assert_eq!(recovered.path, Some(rig.scratch.path(&format!("prof.recovered-{process}"))));
    assert_eq!((profile.samples(), fs::read(rig.profile()).expect("it stays")), (30, b"newer".to_vec()));
    assert_eq!(rig.scratch.names(".sigprof"), Vec::<String>::new(), "no temporary file stays");
}

#[test]
fn a_flushed_profile_is_replaced() {
    let rig = SpoolRig::new();
    let finished = run(&mut rig.command("ticks 20 flush ticks 10 kill"));
    assert_eq!(samples_at(&rig.profile()), 20, "{}", finished.stderr);
    let (recovered, profile) = rig.recover();
    assert_eq!((recovered.path, profile.samples()), (Some(rig.profile()), 30));
}

/// The profile's directory is missing: the spool remains until another path is given.
#[test]
fn a_profile_without_a_directory_stays_in_its_spool() {
    let rig = SpoolRig::new();
    let directory = rig.scratch.directory("gone");
    let mut command = rig.command("ticks 20 kill");
    run(command.env("CPUPROFILE", directory.join("prof")));
    fs::remove_dir(&directory).expect("it is empty");
    expect_refusal(rig.only_spool().recover(), "No such file");
    let elsewhere = rig.scratch.path("elsewhere");
    let recovered = rig.only_spool().recover_to(&elsewhere).expect("there it can be written");
    assert_eq!((recovered.samples, samples_at(&elsewhere)), (20, 20));
    assert_eq!(rig.spool_names(), Vec::<String>::new());
}

#[test]
fn does_not_replace_directories_and_links() {
    let rig = killed();
    fs::create_dir(rig.profile()).expect("a directory");
    expect_refusal(rig.only_spool().recover(), "not a regular file");
    fs::remove_dir(rig.profile()).expect("still empty");
    let valuable = rig.scratch.write("valuable", "mine");
    symlink(&valuable, rig.profile()).expect("a link");
    expect_refusal(rig.only_spool().recover(), "not a regular file");
    assert_eq!(fs::read(&valuable).expect("it stays"), b"mine");
}

/// A spool's owner is a process ID with a start time in one container. A spool of another container
/// is recovered only to a given path: the user states that its process is gone.
#[test]
fn distinguishes_owners_with_the_same_process_id() {
    let rig = killed();
    let path = spool_path(&rig);
    let owner = || Spool::open(&path).expect("a spool").owner();
    // As if this process had made it.
    let process = std::process::id();
    let line = fs::read_to_string("/proc/self/stat").expect("our own");
    let fields: Vec<&str> = line[line.rfind(')').expect("a name") + 2..].split(' ').collect();
    let beginning: u64 = fields[19].parse().expect("a number");
    set(&path, field::PROCESS, process.into());
    assert_eq!(owner(), Owner::Gone, "another process had the number before");
    set(&path, field::PROCESS_START, beginning);
    assert_eq!(owner(), Owner::Running);
    for refused in [
        Spool::open(&path).expect("a spool").recover(),
        Spool::open(&path).expect("a spool").recover_to(&rig.scratch.path("elsewhere")),
    ] {
        expect_refusal(refused, "is still running");
    }
    expect_refusal(Spool::open(&path).expect("a spool").discard(), "is still running");
    set(&path, field::NAMESPACE, number(&path, field::NAMESPACE) ^ 1);
    assert_eq!(owner(), Owner::Elsewhere);
    expect_refusal(Spool::open(&path).expect("a spool").recover(), "another container");
    assert!(path.exists() && !rig.profile().exists());
    let elsewhere = rig.scratch.path("elsewhere");
    Spool::open(&path).expect("a spool").recover_to(&elsewhere).expect("somebody knows");
    assert_eq!(samples_at(&elsewhere), 20);
}

/// Spools of other users, links and other files are not used: a spool names a file to be written.
#[test]
fn only_spools_of_the_user_are_used() {
    let rig = killed();
    let path = spool_path(&rig);
    let link = rig.spools().join("link.spool");
    symlink(&path, &link).expect("a link");
    expect_refusal(Spool::open(&link), "cannot open the spool");
    fs::create_dir(rig.spools().join("directory.spool")).expect("a directory");
    expect_refusal(Spool::open(&rig.spools().join("directory.spool")), "not a spool");
    nix::unistd::mkfifo(&rig.spools().join("pipe.spool"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    expect_refusal(Spool::open(&rig.spools().join("pipe.spool")), "not a spool");
    fs::write(rig.spools().join("text.spool"), "text").expect("a file");
    expect_refusal(Spool::open(&rig.spools().join("text.spool")), "not a spool");
    assert_eq!(rig.only_spool().path(), path, "all others are passed over");
    let unusable = recover::spools(&rig.spools()).expect("the directory can be read").unusable;
    assert_eq!(unusable.len(), 4, "and reported: {unusable:?}");
    if !is_root("make another user's spool") {
        return;
    }
    std::os::unix::fs::chown(&path, Some(65534), None).expect("root may");
    expect_refusal(Spool::open(&path), "belongs to user 65534");
    assert_eq!(recover::spools(&rig.spools()).expect("the directory can be read").spools.len(), 0);
    assert!(path.exists() && !rig.profile().exists());
}

/// Invalid heads are refused with the reason, and the file remains.
#[test]
fn damaged_heads_are_refused() {
    let rig = killed();
    let path = spool_path(&rig);
    let magic = number(&path, field::MAGIC);
    for (offset, wrong, reason) in [
        (field::MAGIC, magic ^ 1, "not a spool"),
        (field::MAGIC, magic.swap_bytes(), "another version"),
        (field::VERSION, 99, "another version"),
        (field::STATE, 0, "not a spool"),
        (field::WORD_BYTES, 6, "width of words"),
        (field::PROCESS, u64::MAX, "process id"),
        (field::PERIOD_MICROS, 0, "period"),
        (field::PERIOD_MICROS, 1 << 40, "period"),
        (field::TARGET_BYTES, 1 << 20, "length of a path"),
    ] {
        let right = number(&path, offset);
        set(&path, offset, wrong);
        expect_refusal(Spool::open(&path), reason);
        assert_eq!(
            recover::spools(&rig.spools()).expect("the directory can be read").spools.len(),
            0,
            "{reason}"
        );
        set(&path, offset, right);
    }
    File::options().write(true).open(&path).and_then(|file| file.set_len(100)).expect("our own spool");
    expect_refusal(Spool::open(&path), "not a spool");
    assert!(path.exists());
}

/// Damage of all kinds after the head: the result is a valid profile, or none.
#[test]
fn damaged_records_give_a_valid_profile() {
    let rig = SpoolRig::new();
    run(&mut rig.command("chains 0 60 kill"));
    let path = spool_path(&rig);
    let whole = fs::read(&path).expect("our own spool");
    let arena_bytes = number(&path, field::ARENA_BYTES);
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut recovered_some = 0;
    let rounds = rounds(20, 60);
    for _ in 0..rounds {
        let mut file = File::create(&path).expect("our own spool");
        file.write_all(&whole).expect("our own spool");
        // Words of the head's lengths, of the lines, of the objects and of the records.
        set(&path, field::ARENA_BYTES, [arena_bytes, arena_bytes / 2, u64::MAX, 3][random() as usize % 4]);
        set(&path, field::TEXT_BYTES, [random() % 100_000, u64::MAX][random() as usize % 2]);
        for _ in 0..random() % 40 {
            let number =
                [random(), 0, u64::MAX, 0xffc0_5a6d_9e37_0000 | (random() % 5000)][random() as usize % 4];
            set(&path, ARENA + 8 * (random() % 4000), number);
            set(&path, (64 << 10) + 8 * (random() % 500), number);
        }
        let target = rig.scratch.path("recovered");
        let recovered = Spool::open(&path).expect("its head is whole").recover_to(&target);
        if recovered.expect("it can be written").path.is_some() {
            let bytes = fs::read(&target).expect("a profile");
            CpuProfile::parse(&bytes).unwrap_or_else(|error| panic!("{error}"));
            recovered_some += 1;
        }
        assert!(!path.exists(), "recovered, it is gone");
    }
    assert!(recovered_some > rounds / 2, "{recovered_some} of {rounds}");
}

/// A 32-bit program's spool becomes a profile with words of 4 bytes.
#[test]
fn a_spool_of_narrow_words_gives_a_narrow_profile() {
    let rig = killed();
    let path = spool_path(&rig);
    let mark = 0xffc0_0000u32;
    let words = [7, mark | 2, 0x1000, 0x2000, 0, mark | 1, 5, 0, 0, 1, mark | 1, 0xf000_0000];
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    let file = File::options().write(true).open(&path).expect("our own spool");
    file.write_all_at(&vec![0; 4096], ARENA).expect("our own spool");
    file.write_all_at(&bytes, ARENA).expect("our own spool");
    set(&path, field::WORD_BYTES, 4);
    // The lines of a 64-bit program have addresses that such a profile cannot hold.
    set(&path, field::TEXT_BYTES, 0);
    let recovered = Spool::open(&path).expect("a spool").recover().expect("its process is gone");
    assert_eq!(recovered.samples, 8);
    let bytes = fs::read(rig.profile()).expect("a profile");
    let profile = CpuProfile::parse(&bytes).expect("a valid one");
    assert_eq!(profile.layout.width, SlotWidth::Four);
    let records: Vec<_> = profile.records.iter().map(|record| (record.count, record.pcs.clone())).collect();
    assert_eq!(records, [(7, vec![0x1000, 0x2000]), (1, vec![0xf000_0000])]);
}

/// The profile was written completely, and only the spool remained: the profile is not touched.
#[test]
fn a_complete_spool_is_only_removed() {
    let rig = killed();
    fs::write(rig.profile(), "written by the program").expect("a file");
    set(&spool_path(&rig), field::STATE, 2);
    let spool = rig.only_spool();
    assert!(spool.is_complete());
    assert_eq!(spool.recover().expect("nothing is to be done").path, None);
    assert_eq!(rig.spool_names(), Vec::<String>::new());
    assert_eq!(fs::read(rig.profile()).expect("it stays"), b"written by the program");
}

#[test]
fn a_discarded_spool_is_gone() {
    let rig = killed();
    let other = rig.spools().join("other");
    fs::write(&other, "mine").expect("a file");
    rig.only_spool().discard().expect("its process is gone");
    assert_eq!(rig.spool_names(), ["other"]);
    assert!(!rig.profile().exists());
    assert_eq!(fs::metadata(&other).expect("it stays").len(), 4);
}
