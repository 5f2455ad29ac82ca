//! Threads that compute have the samples for the CPU time that they use.
//!
//! From the first tick that finds a thread, all its CPU time is in its samples. When that tick
//! comes depends on chance. Each preemption of the thread may cost one tick. Samples and
//! unaccounted time always add up to the CPU time.

use std::process::Command;

use crate::chance::longest_unfound;
use crate::support::thread_lines::{Thread, figure, threads};
use crate::support::{Finished, Linkage, Profile, Scratch, SessionTime, kernel_tick, plain, profiled, run};

/// A thread's own figures.
struct Said<'t> {
    name: &'t str,
    used: f64,
    preempted: f64,
}

/// Panics unless threads have the samples for the time that they used, at 1000 Hz. Time that ticks
/// of one thread miss may be in another's samples.
#[track_caller]
fn expect_shares(finished: &Finished, threads: &[Thread], said: &[Said<'_>]) {
    const PERIOD: f64 = 1e-3;
    let time = SessionTime::only(finished);
    time.adds_up(PERIOD, threads.len()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let all: f64 = said.iter().map(|of| of.preempted).sum();
    for Said { name, used, preempted } in said {
        let thread = threads.iter().find(|thread| thread.name == *name).expect("a line of each thread");
        let sampled = thread.samples as f64 * PERIOD;
        let tick = kernel_tick();
        let unfound = longest_unfound(PERIOD, tick, threads.len());
        let least = used - unfound - 2.0 * tick - tick * preempted;
        // The time of others, and of the rest of the process, until they are found.
        let rest = time.used - said.iter().map(|of| of.used).sum::<f64>();
        let others = said.iter().filter(|of| of.name != *name).map(|of| of.used);
        let of_others: f64 = others.chain([rest]).map(|used| used.min(unfound)).sum();
        let most = used + of_others + 2.0 * tick + tick * all;
        assert!(
            (least..=most).contains(&sampled),
            "{sampled:.3} of {used:.3} s, not {least:.3} to {most:.3}: {thread:?}"
        );
    }
}

#[test]
fn threads_have_their_shares_under_their_names() {
    let scratch = Scratch::new();
    let program =
        scratch.compile("named_threads.c", Linkage::None, &["-pthread", "-fno-optimize-sibling-calls"]);
    let mut command = profiled(&program, &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1000").env("CPUPROFILE_STATISTICS", "1");
    command.env("CPUPROFILE_THREADS", "1").args(["work", "2", "small", "1", "large", "3"]);
    let finished = run(&mut command).expect_success();
    let threads = threads(&finished);
    let text = finished.text();
    let mut said = Vec::new();
    for line in text.lines().filter(|line| *line != "done") {
        let [name, id, used, preempted] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (used, preempted): (f64, _) =
            (used.parse().expect("seconds"), preempted.parse().expect("a number"));
        let thread = threads.iter().find(|thread| thread.name == name).expect("a line of each thread");
        assert_eq!(thread.id.to_string(), id);
        let by_clock = thread.cpu_micros.expect("it is alive") as f64 / 1e6;
        assert!(by_clock >= used - 1e-6, "{by_clock} of {used}: {thread:?}");
        said.push(Said { name, used, preempted });
    }
    assert_eq!(said.len(), 2, "{text}");
    expect_shares(&finished, &threads, &said);
}

#[test]
fn threads_of_python_have_their_shares_under_their_names() {
    const SCRIPT: &str = r#"
import ctypes, resource, threading, time
set_name = ctypes.CDLL(None).prctl
done, end = threading.Barrier(3), threading.Barrier(3)
def work(name, goal):
    set_name(15, name.encode())
    while time.thread_time() < goal:
        sum(range(1000))
    print(name, time.thread_time(), resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw, flush=True)
    done.wait()
    end.wait()
for name, goal in ("py-small", 0.5), ("py-large", 1.5):
    threading.Thread(target=work, args=(name, goal), daemon=True).start()
done.wait()
"#;
    let scratch = Scratch::new();
    let mut command = profiled("/usr/bin/python3", &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1000").env("CPUPROFILE_STATISTICS", "1");
    let finished = run(command.env("CPUPROFILE_THREADS", "1").args(["-c", SCRIPT])).expect_success();
    let threads = threads(&finished);
    let text = finished.text();
    let mut said = Vec::new();
    for line in text.lines() {
        let [name, used, preempted] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (used, preempted) = (used.parse().expect("seconds"), preempted.parse().expect("a number"));
        said.push(Said { name, used, preempted });
    }
    assert_eq!(said.len(), 2, "{text}");
    expect_all_accounted(&scratch, &finished, &threads);
    expect_shares(&finished, &threads, &said);
}

/// GNU sort with two threads: the output is unchanged, and all samples are its threads'.
#[test]
fn threads_of_sort_are_listed() {
    let scratch = Scratch::new();
    let lines: String =
        (0..1_200_000u64).map(|i| format!("{}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let input = scratch.write("input", lines);
    let sort = |mut command: Command| run(command.args(["--parallel=2"]).arg(&input)).expect_success();
    let plainly = sort(plain("sort"));
    let mut command = profiled("sort", &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1000").env("CPUPROFILE_STATISTICS", "1");
    command.env("CPUPROFILE_THREADS", "1");
    let finished = sort(command);
    assert!(finished.stdout == plainly.stdout, "sort does not sort under the profiler");
    let threads = threads(&finished);
    assert!(threads.len() >= 2 && threads.iter().all(|thread| thread.name == "sort"), "{threads:?}");
    expect_all_accounted(&scratch, &finished, &threads);
}

/// Panics unless all samples of the profile belong to the listed threads.
#[track_caller]
fn expect_all_accounted(scratch: &Scratch, finished: &Finished, threads: &[Thread]) {
    let profile = Profile::read(&scratch.path("prof"));
    let samples: u64 = threads.iter().map(|thread| thread.samples).sum();
    assert_eq!((samples, figure(finished, "unnamed_samples")), (profile.samples() as u64, 0));
    expect_clean_but_for_the_kernels(&profile);
}

/// Programs may have samples in unlisted code, but at no address that a thread index can have.
#[track_caller]
fn expect_clean_but_for_the_kernels(profile: &Profile) {
    for record in &profile.records {
        assert!(record.pcs.iter().all(|pc| *pc > 4097), "{record:x?}");
    }
}
