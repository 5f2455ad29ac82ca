//! Profiles at paths of links and of existing files, also without write permission. Links and
//! permissions are kept; a file that cannot be replaced by a complete profile is unchanged.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Lack, Linkage, Scratch, assignment, expect_one_line, expect_status, in_shell, plain, profiled, quietly,
    run, samples_at, shared_library, skip,
};

fn app(scratch: &Scratch) -> PathBuf {
    scratch.compile("app.c", Linkage::None, &[])
}

/// A symbolic link remains; its target, also through another link, has the profile.
#[test]
fn the_target_of_a_link_is_written() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    scratch.directory("far");
    let target = scratch.write("far/target", "old");
    symlink("far/target", scratch.path("near")).expect("our own directory");
    symlink(scratch.path("near"), scratch.path("link")).expect("our own directory");
    for name in ["near", "link"] {
        fs::write(&target, "old").expect("our own file");
        let finished =
            run(quietly(&mut profiled(&program, &scratch.path(name))).args(["raise", "3", "PROF"]));
        expect_status(&finished, 0);
        assert_eq!(samples_at(&target), 3, "{name}");
    }
    assert_eq!(fs::read_link(scratch.path("near")).expect("still a link"), Path::new("far/target"));
    assert_eq!(fs::read_link(scratch.path("link")).expect("still a link"), scratch.path("near"));
    assert_eq!(fs::read_dir(scratch.path("far")).expect("our own directory").count(), 1);
}

#[test]
fn the_missing_target_of_a_link_is_created() {
    let scratch = Scratch::new();
    let link = scratch.path("link");
    symlink("target", &link).expect("our own directory");
    expect_status(&run(quietly(&mut profiled(app(&scratch), &link)).args(["raise", "3", "PROF"])), 0);
    assert_eq!(fs::read_link(&link).expect("still a link"), Path::new("target"));
    assert_eq!(samples_at(&scratch.path("target")), 3);
    assert_eq!(scratch.names(""), ["app", "link", "target"]);
}

/// The profile does not fit: the link's target has its old contents, or does not exist.
#[test]
fn a_profile_that_does_not_fit_keeps_the_target_of_a_link() {
    for old in [None, Some("old")] {
        let scratch = Scratch::new();
        let program = app(&scratch);
        let (link, target) = (scratch.path("link"), scratch.path("target"));
        symlink("target", &link).expect("our own directory");
        if let Some(old) = old {
            scratch.write("target", old);
        }
        let finished = run(in_shell("ulimit -f 1", &program, &link).args(["burn", "60", "exit", "3"]));
        expect_status(&finished, 3);
        expect_one_line(&finished, &link, "file too large");
        let left = fs::read(&target).ok();
        assert!(
            left.as_deref() == old.map(str::as_bytes),
            "{} bytes are left",
            left.map_or(0, |left| left.len())
        );
        let names = ["app", "link", "target"];
        assert_eq!(scratch.names(""), names[..if old.is_some() { 3 } else { 2 }]);
    }
}

/// A file without write permission, in a writable directory, is unchanged.
#[test]
fn a_read_only_file_is_not_replaced() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    let path = scratch.write("prof", "old");
    fs::set_permissions(&path, Permissions::from_mode(0o444)).expect("our own file");
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o777)).expect("our own directory");
    let Some(mut command) = as_ordinary_user(&scratch, &program, &path) else {
        return skip(Lack::Tool, "no setpriv to become a user whom permissions bind");
    };
    let finished = run(command.args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, &path, "permission denied");
    assert_eq!(fs::read_to_string(&path).expect("the file is there"), "old");
}

/// The program under the profiler, run by an unprivileged user (65534 if the tests run as root).
fn as_ordinary_user(scratch: &Scratch, program: &Path, profile: &Path) -> Option<Command> {
    if !nix::unistd::geteuid().is_root() {
        return Some(profiled(program, profile));
    }
    if !Path::new("/usr/bin/setpriv").exists() {
        return None;
    }
    // A copy: other users may have no access to the build's directory.
    let library = scratch.path("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let mut command = plain("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"]);
    command.arg(assignment("LD_PRELOAD", &library)).arg(assignment("CPUPROFILE", profile)).arg(program);
    Some(command)
}

#[test]
fn permissions_of_an_existing_file_are_kept() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    let path = scratch.write("prof", "old");
    for mode in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our own file");
        expect_status(&run(quietly(&mut profiled(&program, &path)).args(["raise", "3", "PROF"])), 0);
        let permissions = fs::metadata(&path).expect("the file is there").permissions();
        assert_eq!(permissions.mode() & 0o777, mode);
        assert_eq!(samples_at(&path), 3);
    }
}
