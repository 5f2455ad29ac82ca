//! The environment variables, for the help, the manual page and `docs/reference/environment.md`.

/// An environment variable of the shared library.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Variable {
    /// The name.
    pub name: &'static str,
    /// The accepted values.
    pub values: &'static str,
    /// The behaviour if it is unset.
    pub default: &'static str,
    /// The effect, in one or two sentences.
    pub meaning: &'static str,
    /// True if users set it; false if `sigprof record` or the library sets it for other processes.
    pub is_for_users: bool,
}

const fn user(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Variable {
    Variable { name, values, default, meaning, is_for_users: true }
}

const fn internal(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Variable {
    Variable { name, values, default, meaning, is_for_users: false }
}

/// All variables, the most common first.
pub const VARIABLES: &[Variable] = &[
    user("CPUPROFILE", "path", "no profiling", "File of the profile."),
    user(
        "CPUPROFILE_FREQUENCY",
        "1 to 10000",
        "100",
        "Samples per second of CPU time, or of elapsed time with clock `wall`.",
    ),
    user(
        "CPUPROFILE_CLOCK",
        "`auto`, `cpu`, `itimer`, `perf`, `wall`",
        "`auto`",
        "Which time is sampled, and by which timers.",
    ),
    user(
        "CPUPROFILESIGNAL",
        "number or name: `12`, `SIGUSR2`, `USR2`",
        "profiling starts at once",
        "This signal starts and stops profiling. The profiles are `NAME.0`, `NAME.1`, and so on.",
    ),
    user(
        "CPUPROFILE_FOLLOW_FORK",
        "`0` or `1`",
        "`1`",
        "With `0`, forked children are not profiled. Otherwise each writes its own profile, `NAME_PID`.",
    ),
    user(
        "CPUPROFILE_QUIET",
        "`0` or `1`",
        "`0`",
        "With `1`, no line is printed at exit, and no copy of stderr is kept open for it; errors are still printed.",
    ),
    user(
        "CPUPROFILE_MAX_DEPTH",
        "1 to 4096",
        "254",
        "Frames of a call stack. Of a deeper stack, the innermost frames are kept.",
    ),
    user(
        "CPUPROFILE_MAX_MEMORY",
        "8M to 1G, or bytes",
        "64M",
        "Memory of the profiler in each process. Call stacks beyond it go to a spill file beside the profile, `.sigprof-*.records`.",
    ),
    user(
        "CPUPROFILE_TIMER_SIGNAL",
        "`SIGRTMIN` to `SIGRTMAX`, such as `SIGRTMIN+3` or `37`",
        "SIGPROF; SIGALRM with clock `wall`",
        "Profiling signal, for applications that use the default one themselves. A message warns if the application handles it already.",
    ),
    user(
        "CPUPROFILE_STATISTICS",
        "`0`, `1`, or an absolute path",
        "`0`",
        "Figures at exit: lost samples and their causes, complete stacks, the busiest threads. A path is a file to append them to.",
    ),
    user(
        "CPUPROFILE_SPOOL",
        "directory or `off`",
        "`/dev/shm/sigprof-UID`",
        "Where samples are kept while the program runs, so that they survive a kill.",
    ),
    user("CPUPROFILE_REALTIME", "`0` or `1`", "`0`", "gperftools' name for clock `wall`."),
    user("CPUPROFILE_PER_THREAD_TIMERS", "`0` or `1`", "`0`", "gperftools' name for clock `cpu`."),
    user(
        "CPUPROFILE_THREADS",
        "`0` or `1`",
        "`0`",
        "With `1`, samples of different threads are kept apart in the spool. The profile itself cannot store threads.",
    ),
    internal(
        "CPUPROFILE_USE_PID",
        "`0` or `1`",
        "`0`",
        "Adds the process id to the name of the profile. The library sets it for the programs that a profiled program starts; `1,refused` if it could not profile that program, so that the reason is printed once.",
    ),
    internal(
        "CPUPROFILE_KEEP_SPOOL",
        "`0` or `1`",
        "`0`",
        "Leaves the profile in the spool, for `sigprof record`. Programs that start after the recorder has exited are not profiled.",
    ),
    internal(
        "CPUPROFILE_RANDOM_START",
        "`0` or `1`",
        "`0`",
        "The first tick comes at a random time in the first period, so that short processes have samples too. `sigprof record` sets it.",
    ),
    internal(
        "CPUPROFILE_CHILD_OF",
        "process id",
        "all processes",
        "Profiles only the children of this process, also after `exec`. `sigprof record --no-children` sets it.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables of other programs, such as `PMIX_RANK`, are not listed.
    #[test]
    fn lists_every_variable_that_is_read() {
        let source = include_str!("environment.rs");
        let (_, source) = source.split_once("fn note(").expect("it reads them here");
        let (source, _) = source.split_once("_ => return").expect("it ends here");
        let read: Vec<&str> = source.split('"').filter(|word| word.starts_with("CPUPROFILE")).collect();
        assert_eq!(read.len(), VARIABLES.len());
        for name in read {
            assert!(VARIABLES.iter().any(|variable| variable.name == name), "{name}");
        }
    }
}
