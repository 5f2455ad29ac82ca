//! Forked children: they are not profiled, and do not damage their parent's file.
//!
//! # Safety
//! Forks a process with several threads. In the child the C library's allocator and the profiler's
//! lock are usable; the children use nothing else that another thread may have locked.
#![cfg(feature = "runtime")]
#![allow(unsafe_code)]

mod support;

use std::path::Path;

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use sigprof::{Error, Profiler};
use support::{
    in_own_process, read_profile,
    signals::{profiling_timer, quiet_builder, raise_ticks, set_profiling_timer},
    spin_for_a_while,
};

/// Runs `child` in a forked process and returns its exit status.
fn in_fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: see the module's "Safety".
    match unsafe { fork() }.expect("a fork") {
        ForkResult::Child => {
            let status = child();
            // SAFETY: exits without running anything else of the process.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).expect("the child is ours") {
            WaitStatus::Exited(_, status) => status,
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn a_child_is_not_profiled_and_does_not_touch_the_file() {
    in_own_process("a_child_is_not_profiled_and_does_not_touch_the_file", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let mut profiler = Some(quiet_builder().start(&path).unwrap());
        raise_ticks(5);
        let status = in_fork(|| {
            let profiler = profiler.take().expect("the child's copy");
            let is_not_running = |result| matches!(result, Err(Error::NotRunning));
            // The signal is harmless in the child too; the timer belongs to the parent.
            raise_ticks(100);
            spin_for_a_while();
            if profiling_timer() != 0 {
                return 1;
            }
            if !is_not_running(profiler.summary().map(|_| ())) || !is_not_running(profiler.flush()) {
                return 2;
            }
            drop(profiler);
            if path.exists() { 3 } else { 0 }
        });
        assert_eq!(status, 0);
        assert!(!path.exists());
        let profiler = profiler.expect("the parent's");
        assert_eq!(profiling_timer(), 1_000_000, "the parent's timer goes on");
        set_profiling_timer(0);
        raise_ticks(5);
        profiler.flush().unwrap();
        assert_eq!(read_profile(&path).total_samples(), 10);
        // A child that exits after a flush does not change the file.
        let before = std::fs::read(&path).unwrap();
        assert_eq!(in_fork(|| 0), 0);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        raise_ticks(5);
        assert_eq!(profiler.stop().unwrap().samples, 15);
        assert_eq!(read_profile(&path).total_samples(), 15);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    });
}

#[test]
fn a_child_can_profile_itself() {
    in_own_process("a_child_can_profile_itself", || {
        let directory = tempfile::tempdir().unwrap();
        let [of_parent, of_child] = ["parent", "child"].map(|name| directory.path().join(name));
        let profiler = quiet_builder().start(&of_parent).unwrap();
        set_profiling_timer(0);
        raise_ticks(5);
        let status = in_fork(|| profile_into(&of_child));
        assert_eq!(status, 0);
        raise_ticks(5);
        assert_eq!(profiler.stop().unwrap().samples, 10);
        assert_eq!(read_profile(&of_parent).total_samples(), 10);
        assert_eq!(read_profile(&of_child).total_samples(), 7);
    });
}

fn profile_into(path: &Path) -> i32 {
    let Ok(profiler) = quiet_builder().start(path) else { return 1 };
    if profiling_timer() != 1_000_000 {
        return 3;
    }
    set_profiling_timer(0);
    raise_ticks(7);
    match profiler.stop() {
        Ok(summary) if summary.foreign_ticks == 7 => 0,
        _ => 2,
    }
}

/// A thread forks while another starts and stops sessions: no child finds the lock held for ever.
#[test]
fn forks_during_starts_and_stops_do_not_hang() {
    in_own_process("forks_during_starts_and_stops_do_not_hang", || {
        // After the first session the signal is harmless.
        Profiler::builder().start_in_memory().unwrap().stop().unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                for _ in 0..200 {
                    let profiler = Profiler::builder().frequency(1000).start_in_memory().unwrap();
                    raise_ticks(3);
                    profiler.snapshot().unwrap();
                    profiler.stop().unwrap();
                }
            });
            let mut forks = 0;
            while !other.is_finished() || forks < 10 {
                let status = in_fork(|| {
                    raise_ticks(3);
                    match quiet_builder().start_in_memory() {
                        Ok(profiler) => {
                            raise_ticks(3);
                            let samples = profiler.stop().map(|profile| profile.summary().samples);
                            if samples.is_ok_and(|samples| samples == 3) { 0 } else { 1 }
                        }
                        Err(_) => 2,
                    }
                });
                assert_eq!(status, 0);
                forks += 1;
            }
        });
    });
}
