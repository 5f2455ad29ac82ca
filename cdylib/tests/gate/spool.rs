//! Programs that are killed or crash: their samples remain in a spool, which is private, small, and
//! removed if it is not needed.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::{
    Finished, Lack, Linkage, SpoolRig, exit_code, is_root, lacks_mounts, plain, run, samples_at, samples_in,
    skip, start, wait,
};
use nix::sys::signal::Signal;
use sigprof::recover::{self, Owner};

/// Ticks in the program, and in a plugin that it opens later and closes again.
const TICKS: &str = "ticks 20 open PLUGIN plugin 30 close";

/// Runs the application until `signal` kills it; checks that all samples and names are recovered.
#[track_caller]
fn survives(end: &str, signal: Signal) {
    let rig = SpoolRig::new();
    let finished = run(&mut rig.command(&format!("{TICKS} {end}")));
    assert_eq!(exit_code(finished.status), 128 + signal as i32, "{}", finished.stderr);
    assert_eq!(finished.stderr, "", "nobody is there to say anything");
    let (recovered, profile) = rig.recover();
    assert_eq!(recovered.path, Some(rig.profile()), "under the name that it was meant for");
    assert_eq!((recovered.samples, profile.samples(), recovered.is_truncated), (50, 50, false));
    assert_eq!((samples_in(&profile, "in_program"), samples_in(&profile, "in_plugin")), (20, 30));
    assert_eq!(rig.spool_names(), Vec::<String>::new(), "and the spool is gone");
}

/// SIGKILL kills the application: its samples are recovered.
#[test]
fn samples_survive_sigkill() {
    survives("kill", Signal::SIGKILL);
}

/// SIGTERM kills the application, which has no handler for it: its samples are recovered.
#[test]
fn samples_survive_sigterm() {
    survives("raise 15", Signal::SIGTERM);
}

/// The application calls `abort`: its samples are recovered.
#[test]
fn samples_survive_abort() {
    survives("abort", Signal::SIGABRT);
}

/// The application writes to address 8: its samples are recovered.
#[test]
fn samples_survive_a_crash() {
    survives("segv", Signal::SIGSEGV);
}

/// The application's stack overflows, so that no handler can run: its samples are recovered.
#[test]
fn samples_survive_a_stack_overflow() {
    survives("overflow", Signal::SIGSEGV);
}

/// A second thread of the application raises SIGABRT: the samples are recovered.
#[test]
fn samples_survive_a_signal_in_a_thread() {
    survives("thread ticks 0 raise 6", Signal::SIGABRT);
}

/// The application opens a plugin by a relative path and is killed elsewhere: the plugin is named.
#[test]
fn a_plugin_opened_by_a_relative_path_is_named() {
    let rig = SpoolRig::new();
    let mut command = rig.command("open ./libspooled_plugin.so plugin 30 chdir / kill");
    run(command.current_dir(rig.scratch.root()));
    assert_eq!(samples_in(&rig.recover().1, "in_plugin"), 30);
}

/// The application exits by a return from `main`, or by `exit` in a thread: no spool remains.
#[test]
fn a_normal_exit_leaves_no_spool() {
    for end in ["return", "exit 3", "thread exit 3"] {
        let rig = SpoolRig::new();
        let finished = run(&mut rig.command(&format!("{TICKS} {end}")));
        assert_eq!(exit_code(finished.status), if end == "return" { 0 } else { 3 });
        assert_eq!((finished.complaints(), finished.end_lines()), (Vec::new(), 1));
        assert_eq!(samples_at(&rig.profile()), 50);
        assert_eq!(rig.spool_names(), Vec::<String>::new(), "{end}");
    }
}

/// The application has no sample, and exits or is killed: there is nothing to recover.
#[test]
fn a_program_without_samples_leaves_nothing_to_recover() {
    let rig = SpoolRig::new();
    run(&mut rig.command("return")).expect_success();
    assert_eq!(rig.spool_names(), Vec::<String>::new());
    fs::remove_file(rig.profile()).expect("an empty profile");
    run(&mut rig.command("kill"));
    let recovered = rig.only_spool().recover().expect("a spool of a process that is gone");
    assert_eq!((recovered.path, recovered.samples), (None, 0));
    assert!(!rig.profile().exists() && rig.spool_names().is_empty());
}

/// `CPUPROFILE_SPOOL` is `off`: the application has no spool.
#[test]
fn makes_no_spool_if_it_is_off() {
    let rig = SpoolRig::new();
    let mut command = rig.with_default_spools("ticks 20 say ticked await return");
    // In the directory in which a directory of that name would be made.
    command.current_dir(rig.scratch.root());
    let mut child = start(command.env("CPUPROFILE_SPOOL", "off").stdin(Stdio::piped()));
    read_line(&mut child);
    assert!(default_spool_of(&child).is_none());
    release(&mut child);
    let finished = wait(child).expect_success();
    assert_eq!((finished.complaints(), samples_at(&rig.profile())), (Vec::new(), 20));
    assert_eq!(rig.scratch.names("off"), Vec::<String>::new());
}

/// `CPUPROFILE_SPOOL` is not set: the spool is in memory, and only this user can read it.
#[test]
fn the_default_directory_is_private() {
    let rig = SpoolRig::new();
    let mut child = start(rig.with_default_spools("ticks 20 say ticked await return").stdin(Stdio::piped()));
    read_line(&mut child);
    let spool = default_spool_of(&child).expect("the application's samples would be lost: no spool");
    assert_eq!((spool.owner(), spool.target()), (Owner::Running, rig.profile().as_path()));
    assert_eq!(spool.program(), rig.program.canonicalize().expect("the program"));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o7777;
    assert_eq!((mode(spool.path()), mode(&recover::default_directory())), (0o600, 0o700));
    assert!(spool.recover().expect_err("it runs").to_string().contains("is still running"));
    child.kill().expect("it runs");
    // `wait` would remove the killed application's spool.
    child.wait().expect("it was killed");
    let recovered = spool.recover().expect("it is gone");
    assert_eq!((recovered.samples, samples_at(&rig.profile())), (20, 20));
    assert!(!spool.path().exists());
}

/// /dev/shm is missing or not writable: the application is profiled, and nothing is printed.
#[test]
fn a_system_without_shared_memory_goes_without_a_spool() {
    for mount in
        ["mount -t tmpfs -o ro none /dev/shm", "mount -t tmpfs none /dev", "mount --bind /proc /dev/shm"]
    {
        let rig = SpoolRig::new();
        let mut command = plain("unshare");
        let script = format!("{mount} || exit 77; export LD_PRELOAD=$0 CPUPROFILE=$1; shift; exec \"$@\"");
        command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
        command.arg(crate::support::shared_library()).arg(rig.profile()).arg(&rig.program);
        let finished = run(command.env("CPUPROFILE_STATISTICS", "1").args(rig.words("ticks 20 exit 3")));
        if lacks_mounts(&finished) {
            return;
        }
        assert_eq!(exit_code(finished.status), 3, "{}", finished.stderr);
        assert!(samples_at(&rig.profile()) >= 20);
        assert_eq!(finished.end_lines(), 1);
        let [statistics, _thread] = finished.complaints()[..] else { panic!("{mount}: {}", finished.stderr) };
        assert!(statistics.contains("spool=unavailable"), "{statistics}");
    }
}

/// `CPUPROFILE_SPOOL` names an unusable directory: a diagnostic states the reason.
#[test]
fn a_directory_that_is_not_the_users_own_is_refused() {
    type Prepare = fn(&Path);
    fn with_mode(path: &Path, mode: u32) {
        fs::create_dir(path).expect("a directory");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own directory");
    }
    let group: Prepare = |path| with_mode(path, 0o770);
    let world: Prepare = |path| with_mode(path, 0o1707);
    let link: Prepare = |path| {
        let real = path.with_file_name("real");
        fs::create_dir(&real).expect("a directory");
        std::os::unix::fs::symlink(real, path).expect("a link");
    };
    let file: Prepare = |path| fs::write(path, "mine").expect("a file");
    let other: Prepare = |path| {
        fs::create_dir(path).expect("a directory");
        std::os::unix::fs::chown(path, Some(65534), None).expect("root may");
    };
    let mut cases = vec![
        ("writable by a group", group, "permission denied"),
        ("writable by all", world, "permission denied"),
        ("a link", link, "not a directory"),
        ("a file", file, "not a directory"),
    ];
    if is_root("make a directory of another user") {
        cases.push(("another user's", other, "operation not permitted"));
    }
    for (what, prepare, reason) in cases {
        let rig = SpoolRig::new();
        prepare(&rig.spools());
        let finished = run(&mut rig.command(&format!("{TICKS} exit 3")));
        assert_eq!(exit_code(finished.status), 3);
        let [line] = finished.complaints()[..] else { panic!("{what}: not one line: {}", finished.stderr) };
        assert!(line.contains(&*rig.spools().to_string_lossy()), "{what}: {line}");
        assert!(line.to_lowercase().contains(reason), "{what}: {line}");
        assert_eq!(samples_at(&rig.profile()), 50, "{what}");
        let names = if rig.spools().is_dir() { rig.spool_names() } else { Vec::new() };
        assert_eq!(names, Vec::<String>::new(), "{what}");
    }
}

/// `CPUPROFILE_SPOOL` names a directory that cannot be created: a diagnostic reports it.
#[test]
fn reports_a_directory_that_cannot_be_created() {
    let rig = SpoolRig::new();
    let missing = rig.scratch.path("missing/spools");
    let finished = run(rig.command("ticks 20 exit 3").env("CPUPROFILE_SPOOL", &missing));
    let [line] = finished.complaints()[..] else { panic!("not one line: {}", finished.stderr) };
    assert!(line.contains(&*missing.to_string_lossy()) && line.contains("No such file"), "{line}");
    assert_eq!((exit_code(finished.status), samples_at(&rig.profile())), (3, 20));
}

/// A set-user-ID program starts the profiler: its environment does not choose the directory.
#[test]
fn the_environment_of_a_setuid_program_does_not_choose_the_directory() {
    if !is_root("make a program of another user") {
        return;
    }
    const OTHER: u32 = 65534;
    let rig = SpoolRig::new();
    let program = rig.scratch.compile("spooled.c", Linkage::Shared, &[]);
    rig.scratch.open_to_all();
    let run_program = |chosen: &str| {
        let directory = rig.scratch.path(chosen);
        let mut command = plain(&program);
        command.env("CPUPROFILE_SPOOL", &directory).arg("start").arg(directory.with_extension("prof"));
        let mut child = start(command.args(["ticks", "20", "say", "ticked", "await"]).stdin(Stdio::piped()));
        read_line(&mut child);
        let made = directory.exists();
        let spool = spool_file_of(&child, Path::new(&format!("/dev/shm/sigprof-{OTHER}")));
        release(&mut child);
        wait(child).expect_success();
        (made, spool.is_some())
    };
    assert_eq!(run_program("own"), (true, false), "the variable serves programs of one's own");
    std::os::unix::fs::chown(&program, Some(OTHER), None).expect("root may");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("our own program");
    let default = PathBuf::from(format!("/dev/shm/sigprof-{OTHER}"));
    let was_there = default.exists();
    assert_eq!(run_program("others"), (false, true));
    if !was_there {
        // Fails if another program of that user has a spool there.
        let _ = fs::remove_dir(default);
    }
}

/// The umask removes all permissions, or none: only the user can read the spool.
#[test]
fn a_umask_does_not_change_the_mode_of_a_spool() {
    for umask in ["0777", "0000", "0277"] {
        let rig = SpoolRig::new();
        let mut command = plain("sh");
        command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh", "env"]);
        command.arg(format!("LD_PRELOAD={}", crate::support::shared_library().display()));
        command.arg(format!("CPUPROFILE={}", rig.profile().display()));
        command.arg(format!("CPUPROFILE_SPOOL={}", rig.spools().display()));
        let finished = run(command.arg(&rig.program).args(rig.words("ticks 20 kill")));
        assert_eq!(exit_code(finished.status), 128 + 9);
        let spool = rig.only_spool();
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o7777;
        assert_eq!((mode(spool.path()), mode(&rig.spools())), (0o600, 0o700), "{umask}");
        assert!(rig.recover().1.samples() >= 20);
    }
}

/// The file size limit is small: the profile is complete, and a spool is truncated or missing.
#[test]
fn a_file_size_limit_truncates_the_spool() {
    // In units of 512 bytes: too small for any spool, and large enough for a truncated one.
    for (blocks, spool, recovered) in [(1000, "unavailable", false), (3000, "truncated", true)] {
        let rig = SpoolRig::new();
        let script = format!("ulimit -f {blocks}; exec \"$@\"");
        let limited = |orders: &str| {
            let mut command = plain("sh");
            command.args(["-c", &script, "sh", "env"]);
            command.arg(format!("LD_PRELOAD={}", crate::support::shared_library().display()));
            command.arg(format!("CPUPROFILE={}", rig.profile().display()));
            command.arg(format!("CPUPROFILE_SPOOL={}", rig.spools().display()));
            command.arg("CPUPROFILE_STATISTICS=1").arg(&rig.program).args(rig.words(orders));
            run(&mut command)
        };
        // The profile itself is within the limit.
        let finished = limited("chains 0 1200 exit 3");
        let lines = &finished.stderr;
        let fits = lines.contains(&format!("spool={spool}"));
        assert!(exit_code(finished.status) == 3 && fits, "{}: {lines}", finished.status);
        if blocks == 3000 {
            assert!(samples_at(&rig.profile()) >= 1200, "nothing is lost for want of a longer file");
            assert!(!finished.stderr.contains("lost)"), "{}", finished.stderr);
        }
        let finished = limited("chains 0 100 kill");
        assert_eq!(exit_code(finished.status), 128 + 9);
        assert_eq!(!rig.spool_names().is_empty(), recovered);
        if recovered {
            assert!(rig.recover().1.samples() >= 100);
        }
    }
}

/// The address space limit is small: most of it remains, and the samples are recovered.
#[test]
fn leaves_most_of_a_limited_address_space() {
    let rig = SpoolRig::new();
    let mut command = plain("sh");
    command.args(["-c", "ulimit -v 131072; exec \"$@\"", "sh", "env"]);
    command.arg(format!("LD_PRELOAD={}", crate::support::shared_library().display()));
    command.arg(format!("CPUPROFILE={}", rig.profile().display()));
    command.arg(format!("CPUPROFILE_SPOOL={}", rig.spools().display()));
    let finished = run(command.arg(&rig.program).args(rig.words("chains 0 500 kill")));
    assert_eq!(exit_code(finished.status), 128 + 9, "{}", finished.stderr);
    assert!(rig.recover().1.samples() >= 500);
}

/// The application locks its memory: reserved memory does not become resident, nor fill the file.
#[test]
fn locked_memory_stays_small() {
    let rig = SpoolRig::new();
    let kilobytes = |finished: &Finished, name: &str| -> u64 {
        let text = finished.text();
        let line = text.lines().find(|line| line.starts_with(name)).expect("the kernel's line").to_owned();
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    };
    let locked = run(&mut rig.command("ticks 20 lock chains 0 1000 kill"));
    if locked.stderr.contains("mlockall") {
        return skip(Lack::Right, format_args!("may not lock memory: {}", locked.stderr));
    }
    let unlocked = run(plain(&rig.program).args(["lock", "return"])).expect_success();
    let added = kilobytes(&locked, "VmRSS").saturating_sub(kilobytes(&unlocked, "VmRSS"));
    assert!(added < 16 << 10, "{added} KiB more are resident");
    assert!(kilobytes(&locked, "RssShmem") < 4 << 10, "{}", locked.text());
    let spool = rig.only_spool();
    let room = fs::metadata(spool.path()).expect("the spool").blocks() * 512;
    assert!(room < 4 << 20, "{room} bytes of the file system are taken");
    assert_eq!(rig.recover().1.samples(), 1020);
}

/// The directory has 256 spools: the application has none, which is reported if the user chose it.
#[test]
fn a_directory_holds_at_most_256_spools() {
    let rig = SpoolRig::new();
    fs::create_dir(rig.spools()).expect("a directory");
    fs::set_permissions(rig.spools(), Permissions::from_mode(0o700)).expect("our own directory");
    for i in 0..256 {
        fs::write(rig.spools().join(format!("{i}-1-0.spool")), "").expect("a file");
    }
    let finished = run(&mut rig.command("ticks 20 exit 3"));
    let [line] = finished.complaints()[..] else { panic!("not one line: {}", finished.stderr) };
    assert!(line.contains(&*rig.spools().to_string_lossy()) && line.contains("full"), "{line}");
    assert_eq!((exit_code(finished.status), samples_at(&rig.profile())), (3, 20));
    assert_eq!(rig.spool_names().len(), 256);
    fs::remove_file(rig.spools().join("7-1-0.spool")).expect("one of them");
    let finished = run(&mut rig.command("ticks 20 exit 3"));
    assert_eq!(finished.complaints(), Vec::<&str>::new(), "there is room for one");
}

/// Programs without samples, such as idle workers, are often killed: their spools are removed.
#[test]
fn spools_of_idle_programs_do_not_pile_up() {
    let rig = SpoolRig::new();
    for _ in 0..32 {
        run(&mut rig.command("kill"));
    }
    assert_eq!(rig.spool_names().len(), 32);
    run(&mut rig.command("ticks 20 kill"));
    assert_eq!(rig.spool_names().len(), 1, "the others had nothing to say");
    assert_eq!(rig.recover().1.samples(), 20);
}

/// The application replaces itself: its samples are written, and the next program has a spool.
#[test]
fn exec_leaves_no_spool_and_the_new_image_has_its_own() {
    let rig = SpoolRig::new();
    let finished = run(&mut rig.command("ticks 20 exec ticks 30 kill"));
    assert_eq!(exit_code(finished.status), 128 + 9, "{}", finished.stderr);
    assert_eq!(samples_at(&rig.profile()), 20);
    let (recovered, profile) = rig.recover();
    assert_eq!(profile.samples(), 30);
    let path = recovered.path.expect("a profile").to_string_lossy().into_owned();
    let pid = path.strip_prefix(&format!("{}_", rig.profile().display())).expect("the process id is added");
    assert!(pid.parse::<u32>().is_ok(), "{path}");
    let rig = SpoolRig::new();
    run(&mut rig.command("ticks 20 exec ticks 30 return")).expect_success();
    assert_eq!(rig.spool_names(), Vec::<String>::new());
}

/// The application forks, and the child is killed: its own spool has its samples.
#[test]
fn a_forked_child_has_a_spool_of_its_own() {
    let rig = SpoolRig::new();
    let finished = run(&mut rig.command("ticks 20 fork ticks 30 kill")).expect_success();
    assert!(finished.text().contains("ended with 137"), "{}", finished.text());
    assert_eq!(samples_at(&rig.profile()), 20, "the parent's");
    let (recovered, profile) = rig.recover();
    assert_eq!(profile.samples(), 30, "the child's");
    assert!(recovered.path.expect("a profile").to_string_lossy().contains("/prof_"));
}

/// A child of `vfork` replaces itself: the only spool is the parent's, and it is intact.
#[test]
fn a_child_by_vfork_has_no_spool() {
    let rig = SpoolRig::new();
    let mut command = rig.command("ticks 20 vfork");
    command.arg(format!("ls {}", rig.spools().display())).args(["ticks", "10", "kill"]);
    let finished = run(&mut command);
    let spools = finished.text().lines().filter(|line| line.ends_with(".spool")).count();
    assert_eq!(spools, 1, "{}{}", finished.text(), finished.stderr);
    assert_eq!(rig.recover().1.samples(), 30);
}

/// A signal toggles profiling: each session has a spool, and only the killed one leaves it.
#[test]
fn each_session_of_a_toggle_has_a_spool() {
    let rig = SpoolRig::new();
    let user2 = Signal::SIGUSR2 as i32;
    let orders = format!("raise {user2} ticks 20 raise {user2} ticks 5 raise {user2} ticks 30 kill");
    let finished = run(rig.command(&orders).env("CPUPROFILESIGNAL", user2.to_string()));
    assert_eq!(exit_code(finished.status), 128 + 9, "{}", finished.stderr);
    assert_eq!(samples_at(&rig.scratch.path("prof.0")), 20);
    let (recovered, profile) = rig.recover();
    assert_eq!((recovered.path, profile.samples()), (Some(rig.scratch.path("prof.1")), 30));
}

/// A linked program starts the profiler twice and is killed: the second session's spool remains.
#[test]
fn each_session_of_a_program_has_a_spool() {
    let rig = SpoolRig::new();
    let program = rig.scratch.compile("spooled.c", Linkage::Shared, &[]);
    let [first, second] = ["first", "second"].map(|name| rig.scratch.path(name));
    let mut command = plain(&program);
    command.env("CPUPROFILE_SPOOL", rig.spools()).arg("start").arg(&first).args(["ticks", "20", "stop"]);
    run(command.arg("start").arg(&second).args(["ticks", "30", "kill"]));
    assert!(samples_at(&first) >= 20);
    let (recovered, profile) = rig.recover();
    assert_eq!(recovered.path, Some(second));
    assert!(profile.samples() >= 30);
}

/// Reads the line that the child prints when it waits.
#[track_caller]
fn read_line(child: &mut Child) {
    use std::io::Read;
    let stdout = child.stdout.as_mut().expect("it is captured");
    let mut byte = [0];
    while byte != [b'\n'] {
        stdout.read_exact(&mut byte).expect("the application says where it is");
    }
}

/// Continues a child that waits.
fn release(child: &mut Child) {
    child.stdin.take().expect("it is ours").write_all(b"\n").expect("it reads");
}

/// The spool of this child in the default directory, which may have others.
fn default_spool_of(child: &Child) -> Option<recover::Spool> {
    let path = spool_file_of(child, &recover::default_directory())?;
    Some(recover::Spool::open(&path).expect("a spool"))
}

fn spool_file_of(child: &Child, directory: &Path) -> Option<PathBuf> {
    let prefix = format!("{}-", child.id());
    let mut paths = fs::read_dir(directory).ok()?.map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
}
