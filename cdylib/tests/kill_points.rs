//! Kills at any point: a recovery returns exactly the finished ticks, and at most those that were
//! in progress.
//!
//! A victim sends itself ticks and counts them in a page that it shares with its parent
//! (`programs/kill_points.c`). It is killed at random moments. It is also stepped through whole
//! ticks, instruction by instruction, and a recovery is tried after each. The gate does that a few
//! times, the full check often, and `ci/kill_points.sh` thousands of times, by the variables below.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use sigprof::recover::Spool;
use support::{Linkage, Profile, Scratch, SpoolRig, is_full, names_in, profiled, rounds, start};

const ROUNDS: &str = "SIGPROF_KILL_POINTS";
/// The number of instructions between two looks at a stepped tick.
const STRIDE: &str = "SIGPROF_KILL_STRIDE";
/// `CPUPROFILE_MAX_MEMORY`: one half of the table has room for some 7000 of the victim's records.
const MIN_MEMORY: &str = "8M";
/// More memory is committed if fewer bytes than this are left.
const AHEAD: u64 = 32 << 10;

/// The numbers of the page: one for each thread, and whether the victim has started.
const COUNTERS: usize = 8;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Instructions between two looks in the full check; the gate looks less often.
#[cfg(target_arch = "x86_64")]
fn stride(full: usize) -> usize {
    setting(STRIDE, rounds(10 * full, full))
}

struct Victim {
    rig: SpoolRig,
    program: PathBuf,
    page: File,
}

impl Victim {
    fn new() -> Self {
        let rig = SpoolRig::new();
        let program = rig.scratch.compile("kill_points.c", Linkage::None, &["-fno-optimize-sibling-calls"]);
        let page = rig.scratch.write("page", [0; 4096]);
        let page = File::options().read(true).write(true).open(page).expect("our own file");
        Self { rig, program, page }
    }

    /// The victim under the profiler. It disarms the timer: stepping takes seconds of CPU time.
    fn command(&self, threads: usize, chains: usize) -> Command {
        let mut command = profiled(&self.program, &self.rig.profile());
        command
            .env("CPUPROFILE_CLOCK", "itimer")
            .env("CPUPROFILE_FREQUENCY", "1")
            .env("CPUPROFILE_SPOOL", self.rig.spools());
        command.arg(self.rig.scratch.path("page")).args([threads.to_string(), chains.to_string()]);
        command
    }

    fn number(&self, i: usize) -> u64 {
        let mut bytes = [0; 8];
        self.page.read_exact_at(&mut bytes, 8 * i as u64).expect("a page");
        u64::from_ne_bytes(bytes)
    }

    fn counted(&self) -> usize {
        (0..COUNTERS).map(|i| self.number(i) as usize).sum()
    }

    fn reset(&self) {
        self.page.write_all_at(&[0; 4096], 0).expect("our own file");
    }
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

/// The number of samples of a profile. Panics unless all records are the victim's stacks.
#[track_caller]
fn samples_of(path: &Path) -> usize {
    let profile = Profile::read(path);
    let depths: Vec<usize> = profile.records.iter().map(|record| record.pcs.len()).collect();
    // The stacks of a thread have other outer frames than those of `main`.
    let kinds = depths.iter().copied().collect::<std::collections::BTreeSet<_>>();
    assert!(kinds.len() <= 2 && kinds.iter().all(|&depth| depth > 24), "chains are cut: {kinds:?}");
    profile.samples()
}

/// The victim is killed at a random moment, with one thread and with four: a recovery writes a
/// valid profile with exactly the finished ticks, and at most one unfinished for each thread.
#[test]
fn a_kill_at_any_moment_loses_no_tick() {
    let victim = Victim::new();
    let rounds = setting(ROUNDS, rounds(6, 100));
    // Unlimited stacks fill any memory if this thread kills late: not in the gate.
    let numbers_of_chains = if is_full() { &[20, 2000, 100_000][..] } else { &[20, 2000] };
    let mut random = Random(1);
    let (mut more, mut most, mut moved) = (0, 0, 0);
    for round in 0..rounds {
        let threads = if round % 3 == 2 { 4 } else { 1 };
        // Mostly new stacks, mostly known ones, or both.
        let chains = numbers_of_chains[random.below(numbers_of_chains.len())];
        // So little memory that new stacks fill it, and their records are spilled.
        let is_small = chains == 100_000 && random.below(2) == 0;
        let limit = if is_small { 60_000 } else { 1 << random.below(15) };
        let wanted = random.below(limit);
        victim.reset();
        let mut command = victim.command(threads, chains);
        if is_small {
            command.env("CPUPROFILE_MAX_MEMORY", MIN_MEMORY);
        }
        let mut child = start(&mut command);
        while victim.number(COUNTERS) == 0 || victim.counted() < wanted {
            assert!(child.try_wait().expect("it is ours").is_none(), "the victim has ended by itself");
        }
        for _ in 0..random.below(2000) {
            std::hint::spin_loop();
        }
        kill(&mut child);
        let counted = victim.counted();
        let spool = victim.rig.only_spool();
        let recovered = spool.recover().unwrap_or_else(|error| panic!("{error}"));
        let samples = recovered.path.as_deref().map_or(0, |path| samples_of(path));
        let case = format!("round {round}, {threads} threads, {chains} chains, {is_small}");
        // A preempted thread may keep both halves of the table full; a single one does not. Mostly
        // new stacks fill any memory, if this thread kills late.
        let lost = recovered.lost as usize;
        assert!(lost == 0 || chains == 100_000 && threads > 1, "{case}: {lost} lost");
        assert!(
            (counted..=counted + threads).contains(&(samples + lost)),
            "{case}: {samples} recovered of {counted} ticks, {lost} lost"
        );
        assert_eq!(recovered.samples, samples as u64, "{case}");
        assert!(names_in(&victim.rig.scratch.path("."), "").iter().all(|name| !name.ends_with(".records")));
        moved += usize::from(samples > 10_000 && is_small);
        more += usize::from(samples > counted);
        most = most.max(samples);
    }
    println!(
        "{rounds} kills: all ticks recovered; in {more} one more was just being counted; up to {most} ticks; in {moved} \
         records had been moved"
    );
    assert!(most > 0);
}

fn kill(child: &mut Child) {
    child.kill().expect("it runs");
    child.wait().expect("it is ours");
}

/// A victim that is traced.
#[cfg(target_arch = "x86_64")]
mod steps {
    use super::*;
    use nix::sys::ptrace;
    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;

    /// Offsets of the head's numbers, as in `src/format/spool.rs`.
    const PROCESS_START: u64 = 40;
    const ARENA_BYTES: u64 = 72;
    const IS_CUT: u64 = 80;
    const HALF_WORDS: u64 = 184;
    const STAND: u64 = 192;
    const MOVED_NAME: u64 = 224;
    pub(super) const ARENA: u64 = (64 << 10) + (960 << 10) + (192 << 10) + (128 << 10);

    /// The state of the half that is not in use (`src/format/double_buffer.rs`).
    const CLEAN: u64 = (1 << 27) - 1;
    const CLEARING: u64 = CLEAN - 1;

    pub(super) struct Stepped {
        victim: Victim,
        child: Child,
        copies: Scratch,
        spool: File,
        pub(super) looks: usize,
        pub(super) instructions: usize,
    }

    impl Stepped {
        /// Starts the victim, which then waits at its first breakpoint. With `blocks`, the spool's
        /// file size is limited, so that it is soon full.
        pub(super) fn start(blocks: Option<u64>) -> Self {
            Self::start_with(blocks, &[])
        }

        /// The same with additional environment variables.
        pub(super) fn start_with(blocks: Option<u64>, variables: &[(&str, &str)]) -> Self {
            let victim = Victim::new();
            let mut command = victim.command(0, 100_000);
            command.env("CPUPROFILE_MAX_MEMORY", "64M").envs(variables.iter().copied());
            if let Some(blocks) = blocks {
                command = limited(&command, blocks);
            }
            let child = support::start(&mut command);
            let pid = Pid::from_raw(child.id().try_into().expect("a process id"));
            let stopped = waitpid(pid, None).expect("it stops");
            assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGSTOP)), "{stopped:?}");
            let options = ptrace::Options::PTRACE_O_EXITKILL | ptrace::Options::PTRACE_O_TRACESYSGOOD;
            ptrace::setoptions(pid, options).expect("it is ours");
            let spool = File::open(victim.rig.only_spool().path()).expect("our own spool");
            let mut stepped =
                Self { victim, child, copies: Scratch::new(), spool, looks: 0, instructions: 0 };
            stepped.resume();
            stepped
        }

        fn pid(&self) -> Pid {
            Pid::from_raw(self.child.id().try_into().expect("a process id"))
        }

        /// Runs to the next breakpoint, through one tick.
        pub(super) fn resume(&mut self) {
            let mut signal = None;
            loop {
                ptrace::cont(self.pid(), signal).expect("it is stopped");
                match waitpid(self.pid(), None).expect("it stops") {
                    WaitStatus::Stopped(_, Signal::SIGTRAP) => return,
                    WaitStatus::Stopped(_, other) => signal = Some(other),
                    other => panic!("the victim has ended: {other:?}"),
                }
            }
        }

        /// Runs to the next breakpoint, through one tick; looks before and after each of its system
        /// calls.
        pub(super) fn call(&mut self) -> Vec<usize> {
            let mut found = vec![self.look()];
            let mut signal = None;
            loop {
                ptrace::syscall(self.pid(), signal.take()).expect("it is stopped");
                match waitpid(self.pid(), None).expect("it stops") {
                    WaitStatus::Stopped(_, Signal::SIGTRAP) => break,
                    WaitStatus::PtraceSyscall(_) => found.push(self.look()),
                    WaitStatus::Stopped(_, other) => signal = Some(other),
                    other => panic!("the victim has ended: {other:?}"),
                }
            }
            found.push(self.look());
            found.dedup();
            found
        }

        /// Steps to the next breakpoint, through one tick; looks after every `stride`th
        /// instruction. Returns the results in order, without repetitions.
        pub(super) fn step(&mut self, stride: usize) -> Vec<usize> {
            // The kernel's code for a breakpoint; a step has TRAP_TRACE.
            const BREAKPOINT: i32 = 0x80;
            let mut found = vec![self.look()];
            let mut signal = None;
            loop {
                ptrace::step(self.pid(), signal.take()).expect("it is stopped");
                match waitpid(self.pid(), None).expect("it stops") {
                    WaitStatus::Stopped(pid, Signal::SIGTRAP) => {
                        if ptrace::getsiginfo(pid).expect("it is stopped").si_code == BREAKPOINT {
                            break;
                        }
                    }
                    WaitStatus::Stopped(_, other) => signal = Some(other),
                    other => panic!("the victim has ended: {other:?}"),
                }
                self.instructions += 1;
                if self.instructions % stride == 0 {
                    found.push(self.look());
                }
            }
            found.push(self.look());
            found.dedup();
            found
        }

        /// The samples that a recovery would return if the victim were killed here.
        pub(super) fn look(&mut self) -> usize {
            self.looks += 1;
            let held = ARENA + self.number(ARENA_BYTES);
            let mut bytes = vec![0; held as usize];
            let mut length = 0;
            while let Ok(got @ 1..) = self.spool.read_at(&mut bytes[length..], length as u64) {
                length += got;
            }
            let copy = self.copies.write("copy.spool", &bytes[..length]);
            // As of an earlier process with the same ID.
            File::options()
                .write(true)
                .open(&copy)
                .and_then(|file| file.write_all_at(&1u64.to_ne_bytes(), PROCESS_START))
                .expect("our own copy");
            let target = self.copies.path("prof");
            // A recovery removes the spill file, which the victim still uses.
            let moved = self.moved_file();
            let kept = self.copies.path("records");
            if let Some(moved) = moved.as_ref().filter(|moved| moved.exists() && !kept.exists()) {
                std::fs::hard_link(moved, &kept).expect("another name");
            }
            let spool = Spool::open(&copy).unwrap_or_else(|error| panic!("{error}"));
            if spool.is_by_thread() {
                let samples = spool.samples().unwrap_or_else(|error| panic!("{error}"));
                let ids = samples.iter().map(|sample| sample.thread.map(|thread| thread.id));
                assert!(ids.into_iter().all(|id| id == Some(self.child.id())), "{samples:x?}");
            }
            let recovered = spool.recover_to(&target).unwrap_or_else(|error| panic!("{error}"));
            if let Some(moved) = moved.filter(|moved| kept.exists() && !moved.exists()) {
                std::fs::hard_link(&kept, moved).expect("its own name");
            }
            assert_eq!(recovered.lost, 0);
            let samples = recovered.path.as_deref().map_or(0, |path| samples_of(path));
            assert_eq!(recovered.samples, samples as u64);
            let counted = self.victim.counted();
            let may_be_cut = self.is_cut();
            assert!(samples <= counted + 1, "{samples} of {counted}");
            assert!(samples >= counted || may_be_cut, "{samples} of {counted}");
            samples
        }

        fn moved_file(&self) -> Option<PathBuf> {
            let mut name = [0; 48];
            self.spool.read_exact_at(&mut name, MOVED_NAME).expect("so long it is");
            let name = std::str::from_utf8(&name).expect("plain").trim_end_matches('\0');
            (!name.is_empty()).then(|| self.victim.rig.profile().with_file_name(name))
        }

        /// Bytes of records in a half of the table.
        pub(super) fn half_bytes(&self) -> u64 {
            8 * self.number(HALF_WORDS)
        }

        /// Bytes of spilled records.
        pub(super) fn moved_bytes(&self) -> u64 {
            8 * (self.number(STAND) >> 28)
        }

        /// Bytes of spilled records in the half that is not in use; `None` if all are spilled.
        pub(super) fn gone_bytes(&self) -> Option<u64> {
            Some(self.number(STAND) >> 1 & CLEAN).filter(|place| *place < CLEARING).map(|place| 8 * place)
        }

        pub(super) fn is_clean(&self) -> bool {
            self.number(STAND) >> 1 & CLEAN == CLEAN
        }

        pub(super) fn is_cut(&self) -> bool {
            self.number(IS_CUT) != 0
        }

        /// Bytes of records for which the spool has room.
        pub(super) fn arena_bytes(&self) -> u64 {
            self.number(ARENA_BYTES)
        }

        /// Bytes of records in the spool.
        pub(super) fn used_bytes(&self) -> u64 {
            let mut bytes = vec![0; self.arena_bytes() as usize];
            self.spool.read_at(&mut bytes, ARENA).expect("our own spool");
            let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            (used as u64).next_multiple_of(8)
        }

        fn number(&self, offset: u64) -> u64 {
            let mut bytes = [0; 8];
            self.spool.read_exact_at(&mut bytes, offset).expect("so long it is");
            u64::from_ne_bytes(bytes)
        }
    }

    impl Drop for Stepped {
        fn drop(&mut self) {
            kill(&mut self.child);
        }
    }

    /// The command with a file size limit of so many half kilobytes.
    fn limited(command: &Command, blocks: u64) -> Command {
        let mut shell = support::plain("sh");
        shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh", "env"]);
        for (name, value) in command.get_envs() {
            let value = value.expect("nothing is taken away").to_str().expect("plain");
            shell.arg(format!("{}={value}", name.to_str().expect("plain")));
        }
        shell.arg(command.get_program()).args(command.get_args());
        shell
    }

    /// Steps through a tick: at each instruction, a recovery must find it complete or not at all.
    #[track_caller]
    pub(super) fn expect_another(stepped: &mut Stepped, stride: usize) {
        let before = stepped.look();
        assert_eq!(stepped.step(stride), [before, before + 1]);
    }
}

/// The first tick of a session looks up the rules of all frames, and commits the first part of the
/// spool.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kill_at_any_instruction_of_the_first_tick_loses_none() {
    let mut stepped = steps::Stepped::start(None);
    assert_eq!((stepped.arena_bytes(), stepped.look()), (0, 0));
    steps::expect_another(&mut stepped, stride(600));
    assert_eq!(stepped.arena_bytes(), 64 << 10);
    println!("{} instructions, {} looks", stepped.instructions, stepped.looks);
}

/// The first ticks of a session by thread: the thread is written before the record that names it.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kill_at_any_instruction_of_the_first_tick_by_thread_loses_none() {
    let mut stepped = steps::Stepped::start_with(None, &[("CPUPROFILE_THREADS", "1")]);
    assert_eq!((stepped.arena_bytes(), stepped.look()), (0, 0));
    steps::expect_another(&mut stepped, stride(60));
    steps::expect_another(&mut stepped, stride(60));
    println!("{} instructions, {} looks", stepped.instructions, stepped.looks);
}

/// A tick that adds a record, and one that commits the next part of the spool.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kill_at_any_instruction_of_a_new_record_loses_none() {
    let stride = stride(19);
    let mut stepped = steps::Stepped::start(None);
    for _ in 0..20 {
        stepped.resume();
    }
    let before = stepped.used_bytes();
    steps::expect_another(&mut stepped, stride);
    let record = stepped.used_bytes() - before;
    assert!(record > 24 * 8, "{record} bytes");
    while stepped.used_bytes() + record + AHEAD <= stepped.arena_bytes() {
        stepped.resume();
    }
    steps::expect_another(&mut stepped, stride);
    assert_eq!(stepped.arena_bytes(), 128 << 10, "it grew");
    println!("{} instructions, {} looks", stepped.instructions, stepped.looks);
}

/// Ticks that find a half of the table full, switch, spill it slice by slice, and clear it.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kill_at_any_instruction_of_a_spill_loses_none() {
    // Each slice takes a hundred thousand instructions, and each recovery reads some megabytes.
    let stride = 300 * stride(100);
    let mut stepped = steps::Stepped::start_with(None, &[("CPUPROFILE_MAX_MEMORY", MIN_MEMORY)]);
    stepped.resume();
    let (record, half) = (stepped.used_bytes(), stepped.half_bytes());
    assert!(half > 1 << 20 && stepped.is_clean(), "{half}");
    for _ in 1..half / record {
        stepped.resume();
    }
    assert!(stepped.is_clean() && stepped.moved_bytes() == 0);
    // The halves are switched, and the first slice is spilled to a new file; then the next slice.
    steps::expect_another(&mut stepped, stride);
    assert_eq!(stepped.gone_bytes(), Some(stepped.moved_bytes()));
    let slice = stepped.moved_bytes();
    assert!(slice > 60 << 10);
    // The gate steps through the first slice, the last slice and the first clearing tick. It runs
    // the others, and looks before and after each of them.
    let step_or_run = |stepped: &mut steps::Stepped| {
        if is_full() {
            steps::expect_another(stepped, stride);
        } else {
            let before = stepped.look();
            stepped.resume();
            assert_eq!(stepped.look(), before + 1);
        }
    };
    step_or_run(&mut stepped);
    assert_eq!(stepped.moved_bytes(), 2 * slice);
    let before = stepped.look();
    assert_eq!(stepped.call(), [before, before + 1]);
    assert_eq!(stepped.moved_bytes(), 3 * slice);
    while stepped.gone_bytes().is_some_and(|gone| gone + slice < half / record * record) {
        stepped.resume();
    }
    steps::expect_another(&mut stepped, stride);
    assert!(stepped.gone_bytes().is_none() && !stepped.is_clean());
    // Each following tick zeroes a part of the half.
    steps::expect_another(&mut stepped, stride);
    while !stepped.is_clean() {
        step_or_run(&mut stepped);
    }
    steps::expect_another(&mut stepped, stride);
    println!("{} instructions, {} looks", stepped.instructions, stepped.looks);
}

/// The tick that finds the spool full and switches to anonymous memory: at each instruction, the
/// spool's records are recovered.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kill_at_any_instruction_of_the_switch_loses_nothing_in_the_spool() {
    // Room for the head and 64 KiB of records.
    let blocks = (steps::ARENA + (64 << 10)) / 512;
    let mut stepped = steps::Stepped::start(Some(blocks));
    stepped.resume();
    let record = stepped.used_bytes();
    // The tick that finds no more room still has a place.
    while stepped.used_bytes() + record + AHEAD <= 64 << 10 {
        stepped.resume();
    }
    let before = stepped.look();
    assert!(!stepped.is_cut() && before > 10, "{before}");
    assert_eq!(stepped.step(stride(23)), [before, before + 1]);
    assert!(stepped.is_cut());
    while stepped.used_bytes() + record <= 64 << 10 {
        stepped.resume();
    }
    let last = stepped.look();
    assert!(last > before + 10, "{last}");
    for _ in 0..3 {
        assert_eq!(stepped.step(stride(100)), [last]);
    }
    println!("{} instructions, {} looks", stepped.instructions, stepped.looks);
}
