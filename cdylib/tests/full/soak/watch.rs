//! Watches the program from outside: a worker without progress hangs. The program is then killed,
//! with a message that says which workers hang, where, and the state of all threads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::evidence::{gather, processes_of};
use super::rig::{PAGE_BYTES, Rig};

/// Between two looks, which are counted instead of time: a suspended machine has none either.
const LOOK: Duration = Duration::from_millis(250);
/// A worker without progress for so many looks hangs: a round takes milliseconds.
const LOOKS: u32 = 400;
/// Or for so many seconds of the program's own CPU time.
const CPU_SECONDS: u64 = 120;
const WORKER_BYTES: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) name: String,
    step: String,
    pub(crate) rounds: u64,
}

pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) workers: Vec<Progress>,
    /// The hanging workers, and all information about them.
    pub(crate) hang: Option<String>,
    /// Processes that remained after the program exited.
    pub(crate) leftovers: Vec<u32>,
    pub(crate) seconds: u64,
}

/// A worker's last progress.
struct Watched {
    last: Progress,
    looks: u32,
    cpu_seconds: u64,
    at: Instant,
}

/// Waits until the program exits, or kills it when a worker hangs.
pub(crate) fn watch(rig: &Rig, mut program: Child) -> Outcome {
    let (page, start) = (rig.page(), Instant::now());
    let mut watched: Vec<Watched> = Vec::new();
    let mut hang = None;
    let status = loop {
        if let Some(status) = program.try_wait().expect("it is ours") {
            break status;
        }
        let cpu_seconds = cpu_seconds_of(program.id());
        note(&mut watched, &read(&page), cpu_seconds);
        if let Some(who) = stalled(&watched, cpu_seconds, start) {
            hang = Some(format!("{who}\n{}", gather(program.id())));
            let _ = killpg(group(&program), Signal::SIGKILL);
            break program.wait().expect("it is ours");
        }
        std::thread::sleep(LOOK);
    };
    let leftovers = leftovers(program.id());
    if !leftovers.is_empty() {
        let _ = killpg(group(&program), Signal::SIGKILL);
    }
    Outcome { status, workers: read(&page), hang, leftovers, seconds: start.elapsed().as_secs() }
}

fn group(program: &Child) -> Pid {
    Pid::from_raw(program.id().try_into().expect("a process id"))
}

fn read(page: &File) -> Vec<Progress> {
    let mut bytes = [0; PAGE_BYTES];
    page.read_exact_at(&mut bytes, 0).expect("a page");
    let text = |bytes: &[u8]| {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let worker = |bytes: &[u8]| Progress {
        name: text(&bytes[..32]),
        step: text(&bytes[32..96]),
        rounds: u64::from_ne_bytes(bytes[96..104].try_into().expect("eight bytes")),
    };
    bytes.chunks_exact(WORKER_BYTES).map(worker).filter(|worker| !worker.name.is_empty()).collect()
}

/// The remaining processes of the group, after a wait for those that are exiting.
fn leftovers(group: u32) -> Vec<u32> {
    for _ in 0..40 {
        if processes_of(group).is_empty() {
            return Vec::new();
        }
        std::thread::sleep(LOOK);
    }
    processes_of(group)
}

/// Updates the progress of all workers, which starts at the first look.
fn note(watched: &mut Vec<Watched>, now: &[Progress], cpu_seconds: u64) {
    for (i, progress) in now.iter().enumerate() {
        let fresh = || Watched { last: progress.clone(), looks: 0, cpu_seconds, at: Instant::now() };
        match watched.get_mut(i) {
            Some(watched) if watched.last == *progress => watched.looks += 1,
            Some(watched) => *watched = fresh(),
            None => watched.push(fresh()),
        }
    }
}

/// Describes the workers that hang, if any. Finished workers hang if the program does not exit.
fn stalled(watched: &[Watched], cpu_seconds: u64, start: Instant) -> Option<String> {
    let hangs = |worker: &&Watched| {
        worker.looks > LOOKS || cpu_seconds.saturating_sub(worker.cpu_seconds) > CPU_SECONDS
    };
    let are_over = !watched.is_empty() && watched.iter().all(|worker| worker.last.step == "over");
    let hanging: Vec<_> =
        watched.iter().filter(|worker| are_over || worker.last.step != "over").filter(hangs).collect();
    let first = hanging.iter().min_by_key(|worker| worker.at)?;
    let lines = hanging.iter().map(|worker| {
        let Progress { name, step, rounds } = &worker.last;
        let second = worker.at.duration_since(start).as_secs_f64();
        format!("\n  {name}, round {rounds}, at \"{step}\", since second {second:.1}")
    });
    let second = first.at.duration_since(start).as_secs_f64();
    Some(format!("the program hangs since second {second:.1}:{}", lines.collect::<String>()))
}

/// User and system time of a process: fields 14 and 15 of proc(5), in ticks of 10 ms.
fn cpu_seconds_of(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    behind_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>()
        / 100
}
