//! Names of code outside of its file: moved, deleted, replaced or generated.

use super::support::{Finished, Lack, Rig, compile, skip};
use sigprof_analysis::profile::label;
use std::{fs, path::PathBuf, process::Command};

/// As programs do that put their code into huge pages.
#[test]
fn code_that_a_program_moves_to_memory_keeps_its_names() {
    let rig = Rig::new();
    let program = compile(
        &rig,
        r#"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
extern char __start_moved[], __stop_moved[];
__attribute__((section("moved"), noinline, aligned(4096))) int in_memory(int n) {
    for (int i = 0; i < n; i++) raise(SIGPROF);
    return n + 1;
}
void *mremap(void *, size_t, size_t, int, ...);
int main(void) {
    uintptr_t from = (uintptr_t)__start_moved & ~4095UL, to = ((uintptr_t)__stop_moved + 4095) & ~4095UL;
    char *copy = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, (void *)from, to - from);
    if (mprotect(copy, to - from, PROT_READ | PROT_EXEC)) return 97;
    if (mremap(copy, to - from, to - from, 3, (void *)from) == MAP_FAILED) return 98;
    return in_memory(20) != 21;
}"#,
    );
    rig.record(&[], &[&program]).expect(0);
    assert!(!rig.processes_in(&rig.profile(), "in_memory").is_empty());
}

/// Loads the library in its first argument and takes samples in it. By the second argument, the
/// file is deleted or replaced: immediately, or when the recorder has it. Exits when the recorder
/// has it, with a third argument after a second.
const LOADER: &str = r#"
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether the recorder holds this file open, or what is in memory of it. */
static int is_kept(const struct stat *library) {
    char name[64], link[4096];
    struct stat status;
    snprintf(name, sizeof name, "/proc/%d/fd", getppid());
    DIR *descriptors = opendir(name);
    int kept = 0;
    for (struct dirent *entry; descriptors && (entry = readdir(descriptors));) {
        ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, link, sizeof link - 1);
        if (length < 0) continue;
        link[length] = 0;
        int is_file = !fstatat(dirfd(descriptors), entry->d_name, &status, 0) && status.st_ino == library->st_ino
            && status.st_dev == library->st_dev;
        kept |= is_file || strstr(link, "sigprof-object") != NULL;
    }
    if (descriptors) closedir(descriptors);
    return kept;
}

static void change(const char *path, const char *how) {
    char other[4096];
    snprintf(other, sizeof other, "%s.new", path);
    if (strcmp(how, "delete") ? rename(other, path) : unlink(path)) exit(96);
}

int main(int argc, char **argv) {
    struct stat status;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return puts(dlerror()), 97;
    if (stat(argv[1], &status)) return 95;
    int is_early = strncmp(argv[2], "early-", 6) == 0;
    const char *how = argv[2] + (is_early ? 6 : 0);
    if (is_early) change(argv[1], how);
    ((void (*)(void))dlsym(library, "entry"))();
    for (int i = 0; !is_kept(&status); i++) {
        if (argc > 3 && i == 100) return 0;
        if (i == 3000) return 98;
        usleep(10000);
    }
    if (!is_early) change(argv[1], how);
    return 0;
}"#;

/// Compiles a library with a function `name` that takes samples.
fn library(rig: &Rig, file: &str, name: &str) -> PathBuf {
    let (source, path) = (rig.path("library.c"), rig.path(file));
    let text = format!(
        "#include <signal.h>\n__attribute__((noinline)) void {name}(void) {{ for (int i = 0; i < 20; i++) raise(SIGPROF); }}\n\
            void entry(void) {{ {name}(); __asm__ volatile(\"\"); }}\n"
    );
    fs::write(&source, text).unwrap();
    let compiled =
        Command::new("gcc").args(["-O1", "-g", "-shared", "-fPIC", "-o"]).arg(&path).arg(source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "gcc is missing: ci/setup.sh installs it");
    path
}

/// As programs do that unpack libraries (Java bindings, frozen Python), or install them again.
#[test]
fn a_library_that_is_deleted_or_replaced_keeps_its_names() {
    let rig = Rig::new();
    let program = compile(&rig, LOADER);
    for change in ["delete", "replace", "early-delete", "early-replace"] {
        let path = library(&rig, "library.so", "in_library");
        library(&rig, "library.so.new", "in_another");
        rig.record(&[], &[&program, path.to_str().unwrap(), change]).expect(0);
        let profile = rig.profile();
        assert!(!rig.processes_in(&profile, "in_library").is_empty(), "{change}");
        assert!(rig.processes_in(&profile, "in_another").is_empty(), "{change}");
        let file =
            profile.functions.iter().find(|function| &*function.name == "in_library").unwrap().file.clone();
        assert!(file.ends_with("library.c"), "{change}: its own file has lines: {file}");
    }
}

/// A recorder without permission to open a file by its mapping reads symbols from memory.
#[test]
fn reads_names_of_a_deleted_library_from_memory() {
    let rig = Rig::new();
    let program = compile(&rig, LOADER);
    let path = library(&rig, "library.so", "in_library");
    let mut recorder = if nix::unistd::geteuid().is_root() {
        let mut setpriv = rig.prepared("setpriv");
        setpriv.args(["--bounding-set=-sys_admin,-checkpoint_restore", rig.sigprof()]);
        setpriv
    } else {
        rig.prepared(rig.sigprof())
    };
    recorder.args(["record", "--", &program, path.to_str().unwrap(), "early-delete"]);
    Finished::of(recorder.spawn().expect("setpriv, of util-linux, is there")).expect(0);
    assert!(!rig.processes_in(&rig.profile(), "in_library").is_empty());
}

#[test]
fn no_keep_files_keeps_no_files() {
    let rig = Rig::new();
    let program = compile(&rig, LOADER);
    let path = library(&rig, "library.so", "in_library");
    rig.record(&["--no-keep-files"], &[&program, path.to_str().unwrap(), "early-delete", "a second"])
        .expect(0);
    let profile = rig.profile();
    assert!(profile.total(0) >= 20 && rig.processes_in(&profile, "in_library").is_empty());
}

/// An open file keeps its mount busy: scripts that build images unmount what they mounted.
#[test]
fn a_command_can_unmount_the_file_system_of_its_library() {
    let rig = Rig::new();
    let program = compile(&rig, LOADER);
    let (path, mounted) = (library(&rig, "library.so", "in_library"), rig.path("mounted"));
    fs::create_dir(&mounted).unwrap();
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0} && exec {2} record -- sh -c '{3} {0}/library.so delete second && umount {0}'",
        mounted.display(),
        path.display(),
        rig.sigprof(),
        program,
    );
    let may = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none"]).arg(&mounted).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skip(Lack::Right, "no mounts without root");
    }
    let finished = Finished::of(rig.prepared("unshare").args(["-m", "sh", "-c", &script]).spawn().unwrap());
    finished.expect(0);
}

/// Compiles a function, writes it to the map of its process, and forks. A grandchild calls the
/// function. Then the child executes another program, which compiles and calls it without a map.
const COMPILER: &str = r#"
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* kill(process, signal) */
static const unsigned char CODE[] = {
#if defined __x86_64__
    0xb8, 62, 0, 0, 0, 0x0f, 0x05, 0xc3,
#elif defined __aarch64__
    0x28, 0x10, 0x80, 0xd2, 0x01, 0, 0, 0xd4, 0xc0, 0x03, 0x5f, 0xd6,
#endif
};

static char *compile(void) {
    char *code = mmap((void *)0x200000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (code == MAP_FAILED) _exit(97);
    memcpy(code, CODE, sizeof CODE);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC)) _exit(98);
    __builtin___clear_cache(code, code + sizeof CODE);
    return code;
}

static void call(char *code) {
    for (int i = 0; i < 20; i++) ((int (*)(int, int))code)(getpid(), SIGPROF);
}

static int wait_for(int child) {
    int status;
    return waitpid(child, &status, 0) == child ? status : 1;
}

int main(int argc, char **argv) {
    char path[64];
    char *code = compile();
    if (argc > 1) return call(code), 0;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    printf("%s\n", path);
    FILE *map = fopen(path, "wx");
    if (!map || fprintf(map, "%lx 100 compiled\n", (long)code) < 0 || fclose(map)) return 96;
    fflush(stdout);
    int child = fork();
    if (child) return wait_for(child) != 0;
    int grandchild = fork();
    if (grandchild == 0) {
        call(code);
        printf("%d\n", getpid());
        return 0;
    }
    if (wait_for(grandchild)) return 95;
    execl(argv[0], argv[0], "again", NULL);
    return 94;
}"#;

/// Processes of a server have the code that was compiled before the fork; another program does not.
#[test]
fn code_that_was_compiled_before_a_fork_has_names_in_the_child() {
    let rig = Rig::new();
    let program = compile(&rig, COMPILER);
    let finished = rig.record(&["-F", "1"], &[&program]);
    let mut said = finished.stdout.lines();
    let removed = fs::remove_file(said.next().expect("the path of the map"));
    let grandchild: i64 = said.next().expect("an id").parse().expect("a number");
    finished.expect(0);
    removed.expect("the map is there");
    let profile = rig.profile();
    assert_eq!(rig.processes_in(&profile, "compiled"), [grandchild].into());
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 2, "the other program has samples, too");
}
