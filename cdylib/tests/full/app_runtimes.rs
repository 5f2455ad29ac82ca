//! Large runtimes, a JVM and node: output and status are as without the library, with a profile.
//! `ci/full.sh` installs default-jdk-headless and nodejs. `gate/app_runtimes.rs` has others.

use std::path::{Path, PathBuf};

use crate::support::real_programs::run_both_busily;
use crate::support::{Lack, Profile, Scratch, plain, program_source, run, skip};

/// Returns a program's path; `None`, and the test is skipped, if it is not installed.
#[track_caller]
fn installed(program: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/bin").join(program);
    if !path.exists() {
        skip(Lack::Tool, format_args!("no {}", path.display()));
        return None;
    }
    Some(path)
}

/// A JVM with many threads, compiled code, collections and exceptions runs as without the library.
#[test]
fn a_jvm_program_runs_as_without_the_library() {
    let Some(java) = installed("java") else { return };
    let Some(compiler) = installed("javac") else { return };
    let scratch = Scratch::new();
    let classes = scratch.directory("classes");
    run(plain(compiler).arg("-d").arg(&classes).arg(program_source("Busy.java"))).expect_success();
    for options in [&[][..], &["-Xint"], &["-XX:+UseParallelGC", "-XX:ReservedCodeCacheSize=4m"]] {
        run_both_busily(&scratch, &java, |command| {
            command.args(options).arg("-cp").arg(&classes).arg("Busy")
        });
        assert!(Profile::read(&scratch.path("prof")).samples() >= 100);
        std::fs::remove_file(scratch.path("prof")).expect("the profile");
    }
}

/// node with its compiler, garbage collector and worker threads runs as without the library.
#[test]
fn a_node_program_runs_as_without_the_library() {
    let Some(node) = installed("node") else { return };
    let scratch = Scratch::new();
    let script = "let s = 0; const m = new Map(); for (let i = 0; i < 3e6; i++) { s = (s * 31 + i) % 1000003; m.set(i % 999, {s}); }
        process.on('SIGPROF', () => { console.log('got it', s, m.size); process.exit(0); });
        setTimeout(() => {}, 60000); process.kill(process.pid, 'SIGPROF');";
    run_both_busily(&scratch, node, |command| command.args(["-e", script]));
    assert!(Profile::read(&scratch.path("prof")).samples() > 0);
}
