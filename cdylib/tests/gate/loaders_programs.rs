//! Programs without a loader, with another loader, for another machine, or privileged; and ways to
//! name the library. The library profiles or does nothing, and the application runs as before.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Finished, Lack, Linkage, Profile, Scratch, exit_code, is_root, lacks_mounts, plain, profiled, run,
    shared_library, skip,
};

/// Computes for some periods, prints hello and exits with status 3.
const ORDERS: [&str; 6] = ["burn", "60", "print", "hello", "exit", "3"];

/// Compiles `programs/small_app.c` by `compiler`, which may have other headers, if that works.
fn compiled_by(scratch: &Scratch, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = scratch.path("app");
    let mut command = crate::support::tool(compiler);
    command.args(["-std=c11", "-O2", "-D_GNU_SOURCE"]).args(flags);
    command.arg(crate::support::program_source("small_app.c")).arg("-o").arg(&program);
    if !command.output().is_ok_and(|output| output.status.success()) {
        skip(Lack::Tool, format_args!("{compiler} {flags:?} does not work"));
        return None;
    }
    Some(program)
}

#[track_caller]
fn expect_unharmed(finished: &Finished, what: &str) {
    let ended = (exit_code(finished.status), finished.text());
    assert_eq!(ended, (3, "hello\n".to_owned()), "{what}: the application was harmed: {}", finished.stderr);
}

/// Panics unless the application ran as before, and nothing was printed or written.
#[track_caller]
fn expect_nothing(scratch: &Scratch, finished: &Finished, what: &str) {
    expect_unharmed(finished, what);
    assert_eq!(finished.stderr, "", "{what}");
    assert_eq!(scratch.names("prof"), Vec::<String>::new(), "{what}");
}

/// Panics unless the application ran as before and was profiled.
#[track_caller]
fn expect_profile(scratch: &Scratch, finished: &Finished, what: &str) {
    expect_unharmed(finished, what);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{what}");
    assert!(Profile::read(&scratch.path("prof")).samples() > 0, "{what}: the application lost its profile");
    assert_eq!(scratch.names("prof"), ["prof"], "{what}");
}

/// A static program of either kind does not read LD_PRELOAD: it runs unprofiled.
#[test]
fn a_static_program_is_not_profiled() {
    for (compiler, flag) in [("gcc", "-static"), ("gcc", "-static-pie"), ("musl-gcc", "-static")] {
        let scratch = Scratch::new();
        let Some(program) = compiled_by(&scratch, compiler, &[flag]) else { continue };
        let finished = run(&mut profiled(program, &scratch.path("prof")));
        expect_nothing(&scratch, &finished, flag);
    }
}

/// The loader of a 32-bit program reports that the library has the wrong class: it runs unprofiled.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_32_bit_program_runs_unprofiled() {
    let scratch = Scratch::new();
    let Some(program) = compiled_by(&scratch, "gcc", &["-m32"]) else { return };
    let finished = run(&mut profiled(program, &scratch.path("prof")));
    expect_unharmed(&finished, "-m32");
    let (line, file) = (&finished.stderr, shared_library().to_str().expect("a plain path"));
    assert!(line.contains(file) && line.contains("wrong ELF class"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(scratch.names("prof"), Vec::<String>::new());
}

/// The loader of a musl program exits if a preloaded library needs symbols that only glibc has, and
/// names the library. Without it the program runs.
#[test]
fn the_musl_loader_refuses_the_library() {
    let scratch = Scratch::new();
    let Some(program) = compiled_by(&scratch, "musl-gcc", &[]) else { return };
    expect_nothing(&scratch, &run(&mut plain(&program)), "alone");
    let finished = run(&mut profiled(program, &scratch.path("prof")));
    assert_eq!((exit_code(finished.status), finished.text().as_str()), (127, ""), "{}", finished.stderr);
    let file = shared_library().to_str().expect("a plain path");
    assert!(finished.stderr.lines().all(|line| line.contains(file)), "{}", finished.stderr);
    assert!(finished.stderr.contains("symbol not found"), "{}", finished.stderr);
    assert_eq!(scratch.names("prof"), Vec::<String>::new());
}

fn app(scratch: &Scratch) -> PathBuf {
    scratch.compile("app.c", Linkage::None, &[])
}

/// Programs bind symbols immediately, lazily, or as LD_BIND_NOW and LD_BIND_NOT say, use neither
/// threads nor libdl, or have fixed addresses: all are profiled.
#[test]
fn programs_of_all_bindings_are_profiled() {
    let links: [(&[&str], Option<&str>); 6] = [
        (&["-Wl,-z,now"], None),
        (&["-Wl,-z,lazy"], None),
        (&["-Wl,-z,lazy"], Some("LD_BIND_NOW")),
        (&["-Wl,-z,lazy"], Some("LD_BIND_NOT")),
        (&["-Wl,--as-needed"], None),
        // Weak references to the library are in the GOT; in other code the linker makes them 0.
        (&["-no-pie", "-fPIE", "-Wl,-z,norelro", "-Wl,--hash-style=sysv"], None),
    ];
    for (flags, variable) in links {
        let scratch = Scratch::new();
        let program = scratch.compile("app.c", Linkage::None, flags);
        let mut command = profiled(program, &scratch.path("prof"));
        command.args(ORDERS).envs(variable.map(|name| (name, "1")));
        expect_profile(&scratch, &run(&mut command), &format!("{flags:?} {variable:?}"));
    }
}

/// The loader runs as a program, with the library by its option or by LD_PRELOAD: it is profiled.
#[test]
#[cfg(target_arch = "x86_64")]
fn profiles_under_the_loader_as_a_program() {
    const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
    for by_option in [true, false] {
        let scratch = Scratch::new();
        let program = app(&scratch);
        let mut command = if by_option { plain(LOADER) } else { crate::support::preload(LOADER) };
        if by_option {
            command.arg("--preload").arg(shared_library());
        }
        command.arg(program).args(ORDERS).env("CPUPROFILE", scratch.path("prof"));
        expect_profile(&scratch, &run(&mut command), &format!("by option: {by_option}"));
    }
}

/// LD_PRELOAD names the library by a relative path, by its soname in LD_LIBRARY_PATH, and among
/// others: the application is profiled.
#[test]
fn the_library_is_found_by_each_name() {
    for name in ["./lib/libprofiler.so.0", "libprofiler.so.0", "libm.so.6:libprofiler.so.0 libc.so.6"] {
        let scratch = Scratch::new();
        let library = scratch.directory("lib").join("libprofiler.so.0");
        fs::copy(shared_library(), &library).expect("the library can be copied");
        let mut command = plain(app(&scratch));
        command.current_dir(scratch.root()).args(ORDERS).env("LD_PRELOAD", name);
        command.env("LD_LIBRARY_PATH", "lib").env("CPUPROFILE", "prof");
        expect_profile(&scratch, &run(&mut command), name);
    }
}

/// LD_PRELOAD has a path with a space, at which the loader separates names: the loader reports each
/// part, and the application runs.
#[test]
fn a_path_with_a_space_is_reported_by_the_loader() {
    let scratch = Scratch::new();
    let library = scratch.directory("a b").join("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let mut command = plain(app(&scratch));
    command.args(ORDERS).env("LD_PRELOAD", &library).env("CPUPROFILE", scratch.path("prof"));
    let finished = run(&mut command);
    expect_unharmed(&finished, "a space");
    assert!(finished.stderr.lines().all(|line| line.contains("cannot be preloaded")), "{}", finished.stderr);
    assert_eq!((finished.stderr.lines().count(), scratch.names("prof")), (2, vec![]));
}

/// The loader logs to a file (LD_DEBUG=all), or runs an auditing library (LD_AUDIT), which sees
/// each binding first: the application is profiled.
#[test]
fn profiles_with_a_watched_loader() {
    let scratch = Scratch::new();
    let mut command = profiled(app(&scratch), &scratch.path("prof"));
    command.args(ORDERS).env("LD_DEBUG", "all").env("LD_DEBUG_OUTPUT", scratch.path("told"));
    expect_profile(&scratch, &run(&mut command), "LD_DEBUG");
    assert_eq!(scratch.names("told").len(), 1, "the loader told nothing");

    let scratch = Scratch::new();
    let auditor = scratch.compile_library("auditor.c", &[]);
    let mut command = profiled(app(&scratch), &scratch.path("prof"));
    command.args(ORDERS).env("LD_AUDIT", auditor).env("AUDITED", scratch.path("audited"));
    expect_profile(&scratch, &run(&mut command), "LD_AUDIT");
    let audited = fs::read_to_string(scratch.path("audited")).expect("the auditor was loaded");
    assert!(audited.contains("sigaction"), "the auditor saw nothing of ours: {audited}");
}

/// A program that user 65534 (nobody) runs, with the library preloaded by `name`.
fn by_nobody(scratch: &Scratch, program: &Path, name: &str) -> Command {
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o777)).expect("our own directory");
    let mut command = plain("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"]);
    command.arg(format!("LD_PRELOAD={name}")).arg(format!("CPUPROFILE={}", scratch.path("prof").display()));
    command.arg(program).args(ORDERS);
    command
}

/// An ordinary user runs set-user-ID and set-group-ID programs and one with a capability: the
/// loader ignores the path in LD_PRELOAD, and nothing is printed or written.
#[test]
fn privileged_programs_are_not_profiled() {
    if !is_root("make programs with more rights, and mount") {
        return;
    }
    let scratch = Scratch::new();
    let library = scratch.path("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let program = app(&scratch);
    let name = library.to_str().expect("a plain path");
    expect_profile(&scratch, &run(&mut by_nobody(&scratch, &program, name)), "without more rights");
    fs::remove_file(scratch.path("prof")).expect("it was written");
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("our own program");
        let finished = run(&mut by_nobody(&scratch, &program, name));
        expect_nothing(&scratch, &finished, &format!("{mode:o}"));
    }
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("our own program");
    let capability = crate::support::tool("setcap").arg("cap_net_raw+ep").arg(&program).status();
    match capability {
        Ok(status) if status.success() => {
            expect_nothing(&scratch, &run(&mut by_nobody(&scratch, &program, name)), "a capability");
        }
        Ok(_) => skip(Lack::System, "no capabilities on this file system"),
        Err(error) => skip(Lack::Tool, format_args!("setcap: {error}")),
    }
}

/// Runs `script` by a shell in its own mount namespace, if permitted; `arguments` are $1 and so on.
fn with_own_mounts(script: &str, arguments: &[&Path]) -> Option<Finished> {
    let mut command = plain("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).args(arguments);
    let finished = run(&mut command);
    (!lacks_mounts(&finished)).then_some(finished)
}

/// The library is in a trusted directory, with the set-user-ID bit: a set-user-ID program loads it
/// by its name, and it does nothing.
#[test]
fn a_trusted_library_does_not_profile_a_privileged_program() {
    if !is_root("make programs with more rights, and mount") {
        return;
    }
    let scratch = Scratch::new();
    let library = scratch.path("library");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    fs::set_permissions(&library, Permissions::from_mode(0o4755)).expect("our own file");
    let program = scratch.compile("loading.c", Linkage::None, &[]);
    chown(&program, Some(0), None).expect("root may");
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o777)).expect("our own directory");
    // Here the library replaces another library's file. Calls to it prove that it is loaded.
    let script = "target=$(ldconfig -p | awk '$1 == \"libprofiler.so.0\" { print $NF; exit }')
        [ -n \"$target\" ] && mount --bind \"$1\" \"$(readlink -f \"$target\")\" || exit 77
        exec setpriv --reuid=65534 --regid=65534 --clear-groups env LD_PRELOAD=libprofiler.so.0 CPUPROFILE=\"$2\" \
        \"$3\" call ProfilerEnable print hello exit 3";
    let prof = scratch.path("prof");
    let arguments = [library.as_path(), &prof, &program];
    let Some(finished) = with_own_mounts(script, &arguments) else { return };
    // Without the set-user-ID bit, all of this profiles.
    expect_unharmed(&finished, "an ordinary program");
    assert_eq!((finished.end_lines(), scratch.names("prof").len()), (1, 1), "{}", finished.stderr);
    fs::remove_file(&prof).expect("it was written");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("our own program");
    let Some(finished) = with_own_mounts(script, &arguments) else { return };
    expect_nothing(&scratch, &finished, "a setuid program");
}

/// /etc/ld.so.preload names the library, so that every program loads it: programs are unchanged
/// without `CPUPROFILE`, and profiled with it.
#[test]
fn can_be_preloaded_into_every_program() {
    if !is_root("make programs with more rights, and mount") {
        return;
    }
    let scratch = Scratch::new();
    let (root, program) = (scratch.directory("root"), app(&scratch));
    let script = "mount --rbind / \"$1\" && mount -t tmpfs none \"$1/etc\" || exit 77
        [ -z \"$3\" ] || echo \"$3\" > \"$1/etc/ld.so.preload\"
        chroot \"$1\" sh -c 'ls -d / && echo one two | sed s/one/two/ | sort | wc -w && (exit 5); echo $?' || exit 1
        exec chroot \"$1\" env $4 \"$2\" burn 60 print hello exit 3";
    let run_with = |library: &Path, variable: &Path| {
        with_own_mounts(script, &[&root, &program, library, variable]).map(|finished| {
            assert_eq!(exit_code(finished.status), 3, "the application was harmed: {}", finished.stderr);
            (finished.text(), finished.stderr)
        })
    };
    let nobody = Path::new("");
    let Some(expected) = run_with(nobody, nobody) else { return };
    assert_eq!(expected.1, "");
    assert_eq!(run_with(shared_library(), nobody), Some(expected.clone()));
    let variable = format!("CPUPROFILE={}", scratch.path("prof").display());
    let (text, stderr) =
        run_with(shared_library(), Path::new(&variable)).expect("it could be mounted before");
    assert_eq!((text, stderr.lines().count()), (expected.0, 1), "{stderr}");
    assert!(Profile::read(&scratch.path("prof")).samples() > 0);
}
