//! A directory, a program that follows orders, and the command under test.

use sigprof_analysis::{
    formats,
    profile::{Label, LabelValue, LocationId, Profile, label},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

pub(crate) use crate::skip::{Lack, skip};
pub(crate) use crate::tier::is_full;

/// Longer than any wait on a busy machine: ends a test that would wait for ever.
const TIMEOUT: Duration = Duration::from_secs(540);

/// A scratch directory with the compiled program.
pub(crate) struct Rig {
    scratch: TempDir,
    program: String,
}

#[derive(Debug)]
pub(crate) struct Finished {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("it is there");
        fs::create_dir(root.join("tmp")).expect("a directory of our own");
        let program = root.join("worker");
        fs::hard_link(compiled(), &program).unwrap_or_else(|_| copy(compiled(), &program));
        Self { scratch, program: program.to_str().expect("a plain path").into() }
    }

    /// `tests/programs/record.c`.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Creates an executable file and returns its path.
    pub(crate) fn executable(&self, name: &str, bytes: &[u8], mode: u32) -> String {
        let (written, path) = (self.path("written"), self.path(name));
        fs::write(&written, bytes).expect("a directory of our own");
        copy(&written, &path);
        fs::remove_file(written).expect("it is there");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        path.to_str().expect("a plain path").into()
    }

    pub(crate) fn sigprof(&self) -> &'static str {
        env!("CARGO_BIN_EXE_sigprof")
    }

    pub(crate) fn library(&self) -> &'static Path {
        library()
    }

    /// Returns a command in the scratch directory that finds the library.
    pub(crate) fn prepared(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.scratch.path())
            .env("SIGPROF_LIBRARY", library())
            .env("TMPDIR", self.path("tmp"));
        for variable in ["LD_PRELOAD", "XDG_RUNTIME_DIR", "CPUPROFILE", "LIB"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn command(&self, options: &[&str], command: &[&str]) -> Command {
        let mut prepared = self.prepared(self.sigprof());
        prepared.arg("record").args(options).arg("--").args(command);
        prepared
    }

    /// Records a command and waits for its exit.
    pub(crate) fn record(&self, options: &[&str], command: &[&str]) -> Finished {
        Finished::of(self.command(options, command).spawn().expect("it starts"))
    }

    pub(crate) fn recover(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.prepared(self.sigprof()).arg("recover").args(arguments).spawn().expect("it starts"))
    }

    /// Returns the last recorded profile.
    pub(crate) fn profile(&self) -> Profile {
        self.profile_at("sigprof.pb.gz")
    }

    pub(crate) fn profile_at(&self, name: &str) -> Profile {
        formats::read_file(&self.path(name)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the seconds of samples by the values of a label.
    pub(crate) fn times_by(&self, profile: &Profile, key: &str) -> BTreeMap<String, f64> {
        let mut times = BTreeMap::new();
        for sample in profile.samples.iter() {
            if let Some(label) = profile.labels(sample.labels).iter().find(|label| &*label.key == key) {
                let value = match &label.value {
                    LabelValue::Text(text) => text.to_string(),
                    LabelValue::Number(number, _) => number.to_string(),
                };
                *times.entry(value).or_default() += sample.values[1] as f64 / 1e9;
            }
        }
        times
    }

    /// Returns the IDs of processes with samples under this name.
    pub(crate) fn processes_called(&self, profile: &Profile, name: &str) -> BTreeSet<i64> {
        let of_name = LabelValue::Text(name.into());
        self.processes_of(profile, |_, labels| {
            labels.iter().any(|one| &*one.key == label::PROCESS && one.value == of_name)
        })
    }

    /// Returns the IDs of processes with this function in their chains.
    pub(crate) fn processes_in(&self, profile: &Profile, function: &str) -> BTreeSet<i64> {
        self.processes_of(profile, |chain, _| {
            let lines = chain.iter().flat_map(|id| &profile.location(*id).lines);
            lines.into_iter().any(|line| &*profile.function(line.function).name == function)
        })
    }

    fn processes_of(
        &self,
        profile: &Profile,
        is_wanted: impl Fn(&[LocationId], &[Label]) -> bool,
    ) -> BTreeSet<i64> {
        let of_sample = |labels: &[Label]| {
            labels.iter().find(|one| &*one.key == label::PROCESS_ID).and_then(|one| match one.value {
                LabelValue::Number(number, _) => Some(number),
                LabelValue::Text(_) => None,
            })
        };
        let samples = profile.samples.iter().map(|sample| (sample.chain, profile.labels(sample.labels)));
        let wanted = samples.filter(|(chain, labels)| is_wanted(chain, labels));
        wanted.filter_map(|(_, labels)| of_sample(labels)).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names_in(self.scratch.path())
    }

    pub(crate) fn names_that(&self, part: &str) -> Vec<String> {
        self.names().into_iter().filter(|name| name.contains(part)).collect()
    }

    /// Returns the private directories of recordings into this scratch directory.
    pub(crate) fn left(&self) -> Vec<String> {
        let of_ours = sigprof_analysis::record::left_behind();
        let root = self.scratch.path().canonicalize().expect("it is there");
        let is_ours = |output: &Path| output.starts_with(&root);
        let ours = of_ours.into_iter().filter(|left| is_ours(&left.session.output));
        ours.map(|left| left.path.to_str().expect("a plain path").to_owned()).collect()
    }

    pub(crate) fn remove_left(&self) {
        for path in self.left() {
            fs::remove_dir_all(path).expect("a directory of our own");
        }
    }

    /// Records the program in a terminal. Types `keys` after the text `until`: `TERM` is a signal
    /// to the recorder, `?TEXT` waits for that text. Returns the terminal's text and the recorder's
    /// status, as by Python.
    pub(crate) fn on_a_terminal(
        &self,
        options: &[&str],
        orders: &[&str],
        until: &str,
        keys: &[&str],
    ) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/terminal.py");
        let mut command = self.prepared("/usr/bin/python3");
        command.arg(script).arg(until).arg(keys.join(" ")).arg(self.sigprof()).arg("record").args(options);
        let finished =
            Finished::of(command.arg(&self.program).args(orders).spawn().expect("python3 is there"));
        assert_eq!(finished.stderr, "", "{}", finished.stdout);
        finished.stdout
    }
}

impl Finished {
    /// Closes the command's standard input and waits for its exit.
    #[track_caller]
    pub(crate) fn of(mut child: Child) -> Self {
        drop(child.stdin.take());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            err.map(|mut err| err.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut text = Vec::new();
        out.map(|mut out| out.read_to_end(&mut text));
        let stdout = String::from_utf8_lossy(&text).into_owned();
        Self { status: child.wait().expect("it is ours"), stdout, stderr: reader.join().expect("no panic") }
    }

    /// Returns exit status and signal.
    pub(crate) fn end(&self) -> (Option<i32>, Option<i32>) {
        use std::os::unix::process::ExitStatusExt as _;
        (self.status.code(), self.status.signal())
    }

    #[track_caller]
    pub(crate) fn expect(self, status: i32) -> Self {
        let end = self.end();
        assert_eq!(end, (Some(status), None), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// Returns the unaccounted seconds in the profile's comments, without killed processes'.
#[track_caller]
pub(crate) fn unaccounted(profile: &Profile) -> f64 {
    let said = profile.comments.iter().find_map(|comment| comment.strip_prefix("unaccounted: "));
    let seconds = said.and_then(|said| said.strip_suffix(" s of CPU time"));
    seconds.unwrap_or_else(|| panic!("{:?}", profile.comments)).parse().expect("a number")
}

/// Asserts that there are samples; in the full check, that they represent at least `asked` and at
/// most `printed` seconds of CPU time. The slack is a period for each thread, and one for time
/// before `asked` and after `printed`.
#[track_caller]
pub(crate) fn assert_time(profile: &Profile, threads: u32, asked: f64, printed: f64) {
    assert!(profile.total(1) > 0);
    if !is_full() {
        return;
    }
    let (time, unaccounted) = (profile.total(1) as f64 / 1e9, unaccounted(profile));
    let slack = f64::from(threads + 1) * profile.period as f64 / 1e9;
    assert!(time + unaccounted + slack >= asked, "{asked} s of {time} s and {unaccounted} s in no sample");
    assert!(time <= printed + slack, "{time} s of {printed} s");
}

/// Sums the seconds that programs printed for their order `cpu`.
pub(crate) fn printed(stdout: &str) -> f64 {
    stdout.lines().filter_map(|line| line.strip_prefix("cpu ")?.parse::<f64>().ok()).sum()
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIMEOUT, "{what}: never");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn send(process: u32, number: i32) {
    let signal = nix::sys::signal::Signal::try_from(number).expect("a signal");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process as i32), signal).expect("it is there");
}

pub(crate) fn children_of(process: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).expect("it is there");
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

fn state_of(process: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit(") ").next()?.chars().next()
}

/// Whether a process waits in poll(2), as an idle recorder does.
pub(crate) fn is_polling(process: u32) -> bool {
    #[cfg(not(target_arch = "aarch64"))]
    const NUMBERS: &[nix::libc::c_long] = &[nix::libc::SYS_poll, nix::libc::SYS_ppoll];
    #[cfg(target_arch = "aarch64")]
    const NUMBERS: &[nix::libc::c_long] = &[nix::libc::SYS_ppoll];
    let call = fs::read_to_string(format!("/proc/{process}/syscall")).unwrap_or_default();
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| NUMBERS.contains(&number))
}

/// Whether a signal has stopped the process.
pub(crate) fn is_stopped(process: u32) -> bool {
    state_of(process) == Some('T')
}

/// Whether the process has exited and was not waited for.
pub(crate) fn is_zombie(process: u32) -> bool {
    state_of(process) == Some('Z')
}

/// Copies an executable file, in another process: a child forked by another test could inherit the
/// open file, and its execution would fail (ETXTBSY).
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "coreutils are missing");
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory of our own");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// The program, compiled once for all tests.
fn compiled() -> &'static Path {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = directory.join(format!("record-worker-{}", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/record.c");
        let status =
            Command::new("gcc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source).status();
        assert!(status.is_ok_and(|status| status.success()), "gcc is missing: ci/setup.sh installs it");
        program
    })
}

/// The shared library: this checkout's, or the one in `SIGPROF_TEST_LIBRARY`.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| match std::env::var_os("SIGPROF_TEST_LIBRARY") {
        Some(path) => PathBuf::from(path).canonicalize().expect("SIGPROF_TEST_LIBRARY names a file"),
        None => crate::built::Libraries::find_or_build().shared,
    })
}

/// Returns a Perl script that uses `seconds` of CPU time. If it is profiled, it sends itself ticks,
/// but not in the full check, which measures its time.
pub(crate) fn perl(seconds: f64) -> String {
    let ticks = if is_full() { "" } else { "if ($ENV{LD_PRELOAD}) { kill PROF => $$ for 1 .. 5 } " };
    format!(
        "{ticks}my $i = 0; while ((times)[0] + (times)[1] < {seconds}) {{ $i++ for 1 .. 1000 }} print \"done\\n\""
    )
}

/// Compiles a program that may use `burn(SECONDS)` and `cpu()`; returns its path.
pub(crate) fn compile(rig: &Rig, main: &str) -> String {
    let source = rig.path("own.c");
    let burn = "static volatile long sink; void burn(double seconds) { \
        double until = clock() + seconds * CLOCKS_PER_SEC; while (clock() < until) for (int i = 0; i < 20000; i++) sink += i; }";
    let cpu = "static void cpu(void) { printf(\"cpu %.6f\\n\", clock() / (double)CLOCKS_PER_SEC); fflush(stdout); }";
    let headers = "#include <signal.h>\n#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\n";
    let flush = "void ProfilerFlush(void) __attribute__((weak));";
    fs::write(&source, format!("{headers}{flush}\n{burn}\n{cpu}\n{main}\n")).unwrap();
    let program = rig.path("own").to_str().unwrap().to_owned();
    let compiled = Command::new("gcc").args(["-O1", "-o", &program]).arg(&source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "gcc is missing: ci/setup.sh installs it");
    program
}
