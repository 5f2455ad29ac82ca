//! Starts that are refused, and the state after a stop.
//!
//! # Safety
//! Sets handlers that only count.
#![cfg(feature = "runtime")]
#![allow(unsafe_code)]

mod support;

use std::error::Error as _;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::{SaFlags, SigHandler, Signal};
use sigprof::{Builder, Error, Profiler};
use support::{
    in_own_process, read_profile,
    signals::{
        profiling_handler, profiling_timer, quiet_builder, raise_ticks, set_handler, set_profiling_timer,
    },
};

/// Signals that the application's handler has received.
static APP_SAW: AtomicUsize = AtomicUsize::new(0);

extern "C" fn app_handler(_: libc::c_int) {
    APP_SAW.fetch_add(1, Ordering::SeqCst);
}

fn silent() -> Builder {
    quiet_builder()
}

#[test]
fn refuses_a_second_start_and_keeps_the_first_session() {
    in_own_process("refuses_a_second_start_and_keeps_the_first_session", || {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        let profiler = silent().start(&first).unwrap();
        assert_eq!(profiling_timer(), 1_000_000);
        set_profiling_timer(0);
        raise_ticks(2);
        let refused = Profiler::builder().frequency(1000).start(&second).unwrap_err();
        assert!(matches!(refused, Error::AlreadyRunning), "{refused}");
        let refused = silent().start_in_memory().unwrap_err();
        assert!(matches!(refused, Error::AlreadyRunning), "{refused}");
        // The running session is reported before other errors.
        let refused = silent().start(directory.path()).unwrap_err();
        assert!(matches!(refused, Error::AlreadyRunning), "{refused}");
        raise_ticks(2);
        assert_eq!(profiling_timer(), 0, "a start that was refused has armed it");
        assert_eq!(profiler.stop().unwrap().samples, 4);
        assert_eq!(read_profile(&first).total_samples(), 4);
        assert!(!second.exists());
    });
}

#[test]
fn a_profiler_can_be_started_again_and_again() {
    in_own_process("a_profiler_can_be_started_again_and_again", || {
        let directory = tempfile::tempdir().unwrap();
        for round in 1..=10 {
            let path = directory.path().join(round.to_string());
            let profiler = silent().start(&path).unwrap();
            set_profiling_timer(0);
            raise_ticks(round);
            let summary = profiler.stop().unwrap();
            assert_eq!(
                (summary.samples, summary.foreign_ticks, summary.walks.complete),
                (round, round, round)
            );
            assert_eq!(read_profile(&path).total_samples(), u128::from(round));
            // Between sessions the signal does nothing, in both modes.
            raise_ticks(3);

            let profiler = silent().start_in_memory().unwrap();
            set_profiling_timer(0);
            raise_ticks(round + 1);
            assert_eq!(profiler.stop().unwrap().summary().samples, round + 1);
        }
    });
}

/// SIGPROF's default disposition would kill the process.
#[test]
fn a_signal_after_the_stop_is_harmless() {
    in_own_process("a_signal_after_the_stop_is_harmless", || {
        assert_eq!(profiling_handler(), libc::SIG_DFL);
        silent().start_in_memory().unwrap().stop().unwrap();
        assert_ne!(profiling_handler(), libc::SIG_DFL);
        raise_ticks(1000);
    });
}

#[test]
fn a_path_that_cannot_be_written_is_refused() {
    in_own_process("a_path_that_cannot_be_written_is_refused", || {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "kept").unwrap();
        let long = directory.path().join("n".repeat(300));
        let with_nul = directory.path().join(OsStr::from_bytes(b"a\0b"));
        let cases: [(PathBuf, Option<ErrorKind>); 7] = [
            (directory.path().into(), Some(ErrorKind::IsADirectory)),
            ("/".into(), Some(ErrorKind::IsADirectory)),
            (directory.path().join("missing/cpu.prof"), Some(ErrorKind::NotFound)),
            ("".into(), Some(ErrorKind::NotFound)),
            (file.join("cpu.prof"), Some(ErrorKind::NotADirectory)),
            (long, None),
            (with_nul, None),
        ];
        for (path, kind) in cases {
            let error = silent().start(&path).map(drop).expect_err("no file can be written there");
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()), "{text}");
            let reason = error.source().expect("there is a reason").to_string();
            assert!(text.contains(&reason), "{text}: {reason}");
            match error {
                Error::Output { path: reported, source, .. } => {
                    assert_eq!(reported, path);
                    assert!(kind.is_none_or(|kind| kind == source.kind()), "{text}: {:?}", source.kind());
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(profiling_handler(), libc::SIG_DFL, "a failed start installs nothing");
            assert_eq!(profiling_timer(), 0);
        }
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(fs::read(&file).unwrap(), b"kept");
        silent().start_in_memory().expect("nothing is running").stop().unwrap();
    });
}

#[test]
fn a_program_with_a_handler_of_its_own_is_not_profiled() {
    in_own_process("a_program_with_a_handler_of_its_own_is_not_profiled", || {
        // SAFETY: the handler counts in an atomic.
        unsafe { set_handler(Signal::SIGPROF, SigHandler::Handler(app_handler), SaFlags::SA_RESTART) };
        let refused = silent().start(Path::new("/nowhere/cpu.prof")).unwrap_err();
        assert!(matches!(refused, Error::HandlerTaken { signal: libc::SIGPROF }), "{refused}");
        let refused = silent().start_in_memory().unwrap_err();
        assert!(matches!(refused, Error::HandlerTaken { signal: libc::SIGPROF }), "{refused}");
        assert_eq!(profiling_handler(), app_handler as *const () as usize);
        assert_eq!(profiling_timer(), 0);
        raise_ticks(7);
        assert_eq!(APP_SAW.load(Ordering::SeqCst), 7);

        // SAFETY: the default disposition runs no code.
        unsafe { set_handler(Signal::SIGPROF, SigHandler::SigDfl, SaFlags::empty()) };
        let profiler = silent().start_in_memory().expect("the handler is gone");
        raise_ticks(5);
        assert_eq!(profiler.stop().unwrap().summary().foreign_ticks, 5);
        assert_eq!(APP_SAW.load(Ordering::SeqCst), 7);
    });
}

/// SIG_IGN is not a handler that the profiler would replace.
#[test]
fn a_program_that_ignores_the_signal_is_profiled() {
    in_own_process("a_program_that_ignores_the_signal_is_profiled", || {
        // SAFETY: SIG_IGN runs no code.
        unsafe { set_handler(Signal::SIGPROF, SigHandler::SigIgn, SaFlags::empty()) };
        let profiler = silent().start_in_memory().unwrap();
        raise_ticks(5);
        assert_eq!(profiler.stop().unwrap().summary().foreign_ticks, 5);
    });
}
