//! The program (`programs/torture/`), and the ways to run it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::{Linkage, Scratch, plain, program_source, shared_library};

const SECONDS: &str = "SIGPROF_TORTURE_SECONDS";
const DEFAULT_SECONDS: u32 = 6;
/// Names a library to test instead of ours.
const OTHER_LIBRARY: &str = "SIGPROF_TEST_LIBRARY";

/// The number of plugins, as in `programs/torture/torture.h`, and the size of the progress page.
const PLUGINS: usize = 4;
pub(super) const PAGE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profiler {
    None,
    Preloaded,
    Linked,
}

#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) profiler: Profiler,
    /// As at the head of `torture.c`.
    orders: Vec<&'static str>,
    environment: Vec<(&'static str, &'static str)>,
    /// The address space limit, in KiB.
    limit: Option<u32>,
    /// Each forked child with a tick leaves a profile.
    has_children: bool,
}

impl Variant {
    pub(crate) fn new(name: &'static str, profiler: Profiler) -> Self {
        let (orders, environment) = (Vec::new(), Vec::new());
        Self { name, profiler, orders, environment, limit: None, has_children: false }
    }

    pub(crate) fn alone(name: &'static str) -> Self {
        Self::new(name, Profiler::None)
    }

    /// With the library preloaded and `CPUPROFILE` set: one session from start to exit.
    pub(crate) fn preloaded(name: &'static str) -> Self {
        Self { has_children: true, ..Self::new(name, Profiler::Preloaded) }
            .with("CPUPROFILE_FREQUENCY", "1000")
    }

    /// With the library preloaded, and a toggle signal.
    pub(crate) fn switched(name: &'static str) -> Self {
        let variant = Self::new(name, Profiler::Preloaded).ordered("switched");
        variant.with("CPUPROFILESIGNAL", "SIGUSR2").with("CPUPROFILE_FREQUENCY", "1000")
    }

    /// Linked with the library, which it starts and stops.
    pub(crate) fn linked(name: &'static str) -> Self {
        Self::new(name, Profiler::Linked).with("CPUPROFILE_FREQUENCY", "1000")
    }

    /// The program and its children handle the profiling signal.
    pub(crate) fn with_handler(mut self) -> Self {
        self.has_children = false;
        self.ordered("handler")
    }

    pub(crate) fn ordered(mut self, order: &'static str) -> Self {
        self.orders.push(order);
        self
    }

    /// Sets a variable of the environment, or replaces its value.
    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.retain(|&(other, _)| other != name);
        self.environment.push((name, value));
        self
    }

    pub(crate) fn limited_to(mut self, kib: u32) -> Self {
        self.limit = Some(kib);
        // A child may have no memory for a session.
        self.has_children = false;
        self.ordered("tight")
    }

    /// Whether there is one session from start to exit, in which every tick is accounted for.
    pub(crate) fn has_one_session(&self) -> bool {
        self.profiler == Profiler::Preloaded && !self.orders.contains(&"switched")
    }
}

pub(crate) struct Rig {
    pub(crate) scratch: Scratch,
    program: PathBuf,
}

impl Rig {
    pub(crate) fn new(profiler: Profiler) -> Self {
        let scratch = Scratch::new();
        let plugin = scratch.compile_library("torture/plugin.cc", &[]);
        scratch.compile_library("torture/throwing.cc", &[]);
        for i in 0..PLUGINS {
            std::fs::copy(&plugin, scratch.path(&format!("libplugin{i}.so"))).expect("our own directory");
        }
        let root = scratch.root().to_str().expect("a plain path").to_owned();
        let mut flags = vec![format!("-L{root}"), "-Wl,-rpath,$ORIGIN".to_owned()];
        flags.extend(other_sources());
        flags.extend(["-lthrowing".to_owned(), "-lm".to_owned()]);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let linkage = if profiler == Profiler::Linked { Linkage::Shared } else { Linkage::None };
        let program = scratch.compile("torture/torture.c", linkage, &flags);
        scratch.write("page", [0; PAGE_BYTES]);
        Self { scratch, program }
    }

    /// The profile's path, or the prefix of numbered profiles.
    pub(crate) fn profile(&self) -> PathBuf {
        self.scratch.path("prof")
    }

    pub(super) fn page(&self) -> File {
        File::open(self.scratch.path("page")).expect("our own file")
    }

    pub(super) fn errors(&self) -> String {
        let bytes = std::fs::read(self.scratch.path("stderr")).expect("our own file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn output(&self) -> String {
        std::fs::read_to_string(self.scratch.path("stdout")).expect("our own file")
    }

    /// Starts the program in its own process group.
    pub(crate) fn start(&self, variant: &Variant) -> Child {
        let mut command = match variant.limit {
            // Only the program has the limit and the preloaded library.
            Some(kib) => {
                let mut command = plain("sh");
                command.args(["-c", "ulimit -v \"$0\" && exec env \"$@\"", &kib.to_string()]);
                command
            }
            None => plain("env"),
        };
        command.args(self.environment(variant)).arg(&self.program).args(self.arguments(variant));
        let file = |name| File::create(self.scratch.path(name)).expect("our own directory");
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).process_group(0);
        command.spawn().expect("env starts")
    }

    /// Variables, as `env` takes them.
    fn environment(&self, variant: &Variant) -> Vec<OsString> {
        let mut variables = Vec::new();
        let mut set = |name: &str, value: &Path| {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(value);
            variables.push(variable);
        };
        if variant.profiler == Profiler::Preloaded {
            set("LD_PRELOAD", shared_library());
            set("CPUPROFILE", &self.profile());
        }
        set("CPUPROFILE_SPOOL", &self.scratch.spools());
        set("CPUPROFILE_STATISTICS", Path::new("1"));
        for (name, value) in &variant.environment {
            set(name, Path::new(value));
        }
        variables
    }

    fn arguments(&self, variant: &Variant) -> Vec<String> {
        let plain = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let profile = plain(&self.profile());
        let mut arguments =
            vec![seconds().to_string(), plain(&self.scratch.path("page")), plain(self.scratch.root())];
        arguments.extend(variant.orders.iter().map(|&order| order.to_owned()));
        if variant.profiler == Profiler::Linked {
            arguments.push(format!("started={profile}"));
        }
        // Other libraries do not have these features.
        if variant.profiler == Profiler::Preloaded && !is_other_library() {
            arguments.push(format!("profile={profile}"));
            arguments.extend(variant.has_children.then(|| "children".to_owned()));
        }
        arguments
    }
}

pub(super) fn is_other_library() -> bool {
    std::env::var_os(OTHER_LIBRARY).is_some()
}

pub(super) fn seconds() -> u32 {
    std::env::var(SECONDS).ok().and_then(|value| value.parse().ok()).unwrap_or(DEFAULT_SECONDS)
}

/// All C sources except `torture.c`.
fn other_sources() -> Vec<String> {
    let entries = std::fs::read_dir(program_source("torture")).expect("the program's folder");
    let paths = entries.map(|entry| entry.expect("a directory entry").path());
    let is_other =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "c") && !path.ends_with("torture.c");
    paths.filter(is_other).map(|path| path.to_str().expect("a plain path").to_owned()).collect()
}
