//! Files from servers in `DEBUGINFOD_URLS`: Debian's `debuginfod`, and servers that do not answer.

use super::support::{Fixture, build_id, profile, symbol};
use crate::skip::{Lack, skip};
use sigprof_analysis::formats::pprof;
use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// A directory with a stripped program, its debug file in a subdirectory, and a profile of it.
struct Case {
    fixture: Fixture,
    program: PathBuf,
    id: String,
}

struct Said {
    out: String,
    err: String,
}

impl Case {
    fn new() -> Self {
        let fixture = Fixture::new();
        let full = fixture.c("full", "-g -Wl,--build-id");
        let program = fixture.path("program");
        fs::create_dir(fixture.path("served")).expect("made");
        fixture.run("objcopy --only-keep-debug full served/program.debug");
        fixture.run("strip -o program full");
        let id = build_id(&full);
        let (mut profile, _) = profile(&program, &[symbol(&full, "outer"), symbol(&full, "hidden")]);
        profile.mappings.iter_mut().for_each(|mapping| mapping.build_id = id.as_str().into());
        let file = File::create(fixture.path("profile.pb.gz")).expect("made");
        pprof::write(&profile, file).expect("written");
        Self { fixture, program, id }
    }

    /// Runs the command under test with the cache directory `cache`.
    fn sigprof(&self, arguments: &[&str], cache: &str, variables: &[(&str, &str)]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
        command.args(arguments).arg(self.fixture.path("profile.pb.gz"));
        for variable in
            ["DEBUGINFOD_TIMEOUT", "DEBUGINFOD_MAXTIME", "DEBUGINFOD_MAXSIZE", "DEBUGINFOD_PROGRESS"]
        {
            command.env_remove(variable);
        }
        command.env("DEBUGINFOD_CACHE_PATH", self.fixture.path(cache)).envs(variables.iter().copied());
        let output = command.output().expect("it is run");
        let [out, err] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("is text"));
        assert!(output.status.success(), "{err}");
        Said { out, err }
    }
}

/// Debian's server for a directory; it is killed on drop.
struct Server {
    process: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Waits until the server has the file `what`. `None` if it is not installed.
    fn start(case: &Case, what: &str) -> Option<Self> {
        let scratch = tempfile::tempdir().expect("a directory");
        loop {
            // Another process may take the port first.
            let port = TcpListener::bind("127.0.0.1:0")
                .and_then(|socket| socket.local_addr())
                .expect("a port")
                .port();
            let process = Command::new("debuginfod")
                .args(["-p", &port.to_string(), "-d", ":memory:", "-F"])
                .arg(case.fixture.path("served"))
                .env_remove("DEBUGINFOD_URLS")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .ok()?;
            let mut server = Self { process, url: format!("http://127.0.0.1:{port}") };
            for attempt in 0.. {
                let has_it = Command::new("debuginfod-find")
                    .args([what, &case.id])
                    .env("DEBUGINFOD_URLS", &server.url)
                    // The cache also remembers missing files.
                    .env("DEBUGINFOD_CACHE_PATH", scratch.path().join(attempt.to_string()))
                    .output()
                    .is_ok_and(|output| output.status.success());
                if has_it {
                    return Some(server);
                }
                if server.process.try_wait().expect("it is ours").is_some() {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn debug_files_and_binaries_come_from_servers() {
    let case = Case::new();
    let Some(server) = Server::start(&case, "debuginfo") else {
        return skip(Lack::Tool, "no debuginfod: ci/setup.sh installs it");
    };
    let url = server.url.clone();
    let servers = [("DEBUGINFOD_URLS", url.as_str())];
    let top = ["top", "--granularity", "functions"];

    let Said { out, err } = case.sigprof(&top, "cache", &servers);
    assert!(out.contains("outer") && out.contains("hidden"), "{out}");
    assert_eq!(err, "");
    for (arguments, variables) in [
        (&["top", "--no-debuginfod"][..], &servers[..]),
        (&["top"], &[("DEBUGINFOD_URLS", " ")]),
        (&["top"], &[]),
    ] {
        let Said { out, err } = case.sigprof(arguments, "cache", variables);
        assert!(!out.contains("outer") && err.contains("DEBUGINFOD_URLS"), "{out} {err}");
    }

    // The binary, too, if it is missing.
    fs::rename(&case.program, case.fixture.path("served/program")).expect("renamed");
    let Said { out, err } = case.sigprof(&top, "no binary", &servers);
    assert!(out.contains("outer") && err.is_empty(), "the debug file suffices: {out} {err}");
    drop(server);
    let server = Server::start(&case, "executable").expect("it was installed");
    let servers = [("DEBUGINFOD_URLS", server.url.as_str())];
    let Said { out, err } = case.sigprof(&["disasm", "outer"], "binary", &servers);
    assert!(out.contains("ret") && err.is_empty(), "{out} {err}");

    // Downloads stay in the cache.
    drop(server);
    let Said { out, err } = case.sigprof(&top, "cache", &[("DEBUGINFOD_URLS", url.as_str())]);
    assert!(out.contains("outer"), "{out} {err}");
}

/// A silent server is asked once, and the report is printed.
#[test]
fn failing_servers_are_reported_and_asked_once() {
    let case = Case::new();
    if Command::new("debuginfod-find").arg("--version").output().is_err() {
        return skip(Lack::Tool, "no debuginfod-find: ci/setup.sh installs it");
    }
    // Both files are requested.
    fs::remove_file(&case.program).expect("it was there");
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let closed = format!("http://{closed}");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("it has one"));
    for (url, reason) in [(&closed, "Connection refused"), (&url, "Timer expired")] {
        let variables = [("DEBUGINFOD_URLS", url.as_str()), ("DEBUGINFOD_TIMEOUT", "1")];
        let Said { out, err } = case.sigprof(&["top"], "cache", &variables);
        assert!(out.contains("[program]"), "{out}");
        assert_eq!(err.matches("debuginfod-find: ").count(), 1, "{err}");
        assert!(err.contains(reason) && err.contains("--no-debuginfod"), "{err}");
    }
    silent.set_nonblocking(true).expect("set");
    let requests = silent.incoming().take_while(Result::is_ok).count();
    assert_eq!(requests, 1);
}

/// `debuginfod-find` is missing, or replaced by a script that prints its limits.
#[test]
fn debuginfod_find_has_time_limits_and_may_be_missing() {
    let case = Case::new();
    let bin = case.fixture.path("bin");
    fs::create_dir(&bin).expect("made");
    let path = [("PATH", bin.to_str().expect("is text")), ("DEBUGINFOD_URLS", "http://127.0.0.1:1")];
    let Said { err, .. } = case.sigprof(&["top"], "cache", &path);
    assert!(err.contains("debuginfod-find: it is not installed; Debian has it in `debuginfod`"), "{err}");

    let find = bin.join("debuginfod-find");
    let script = "#!/bin/sh\necho \"$1 $2 $DEBUGINFOD_TIMEOUT $DEBUGINFOD_MAXTIME\" >&2; exit 1\n";
    fs::write(&find, script).expect("written");
    fs::set_permissions(&find, fs::Permissions::from_mode(0o755)).expect("it is ours");
    for (seconds, limits) in [(None, "10 300"), (Some("7"), "7 300")] {
        let own = seconds.map(|seconds| ("DEBUGINFOD_TIMEOUT", seconds));
        let variables: Vec<_> = path.into_iter().chain(own).collect();
        let Said { err, .. } = case.sigprof(&["top"], "cache", &variables);
        assert!(err.contains(&format!("debuginfod-find: debuginfo {} {limits};", case.id)), "{err}");
    }
}
