//! The program of a command: lookup, and check whether a library can be preloaded into it.

use super::refusal::Refusal;
use object::{
    Endianness, elf,
    read::{
        ReadCache,
        elf::{FileHeader, ProgramHeader as _},
    },
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

/// Limit of nested script interpreters, as in the kernel.
const MAX_INTERPRETERS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Its file.
    pub path: PathBuf,
    /// It is a script without `#!` line; execvp(3) runs it by [`SHELL`].
    pub is_bare_script: bool,
    /// The file that the kernel runs: the program, the last interpreter of a script, or [`SHELL`].
    pub binary: PathBuf,
    /// The loader of `binary`; None if unreadable, or with too many interpreters.
    pub loader: Option<PathBuf>,
}

/// Interpreter of scripts without `#!` line.
pub(super) const SHELL: &str = "/bin/sh";

/// Finds `command` as a shell would, and checks whether `library` can be preloaded into it.
///
/// # Errors
/// If there is no such program, it is not executable, or it would run unprofiled.
pub(super) fn find(command: &OsStr, search: Option<OsString>, library: &Path) -> Result<Program, Refusal> {
    let path = resolve(command, search)?;
    let library = Binary::read(library).ok().flatten().and_then(|binary| binary.kind);
    let mut program = Program { binary: path.clone(), path, is_bare_script: false, loader: None };
    for _ in 0..=MAX_INTERPRETERS {
        let binary = match Binary::read(&program.binary) {
            Ok(Some(binary)) => binary,
            Ok(None) if program.binary == program.path => {
                program.is_bare_script = true;
                program.binary = SHELL.into();
                continue;
            }
            // An unreadable program is not checked. The kernel reports errors of an interpreter.
            Ok(None) | Err(_) => break,
        };
        match binary.interpreter {
            Some(next) if binary.kind.is_none() => program.binary = next,
            loader => {
                check(&program.binary, loader.as_deref(), binary.kind, library)?;
                program.loader = loader;
                break;
            }
        }
    }
    Ok(program)
}

/// Returns a command's file: itself if it has a slash, otherwise the first in the search path.
fn resolve(command: &OsStr, search: Option<OsString>) -> Result<PathBuf, Refusal> {
    let name = Path::new(command);
    let not_found = || Refusal::NotFound(command.into());
    if command.is_empty() {
        return Err(not_found());
    }
    if command.as_bytes().contains(&b'/') {
        return match executable(name) {
            Ok(true) => Ok(name.into()),
            Ok(false) => Err(Refusal::NotExecutable(command.into(), "it is not an executable file".into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found()),
            Err(error) => Err(Refusal::NotExecutable(command.into(), error.to_string())),
        };
    }
    // The default of execvp(3).
    let search = search.unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refused = None;
    for directory in std::env::split_paths(&search) {
        // An empty element is the working directory.
        let path =
            if directory.as_os_str().is_empty() { Path::new(".").join(name) } else { directory.join(name) };
        match executable(&path) {
            Ok(true) => return Ok(path),
            Ok(false) if path.is_file() => refused = Some(path),
            _ => {}
        }
    }
    Err(refused.map_or_else(not_found, |path| {
        Refusal::NotExecutable(path.into(), "it is not an executable file".into())
    }))
}

fn executable(path: &Path) -> io::Result<bool> {
    let status = fs::metadata(path)?;
    Ok(status.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok())
}

/// Refuses programs into which the loader cannot or will not preload the library.
fn check(
    file: &Path,
    loader: Option<&Path>,
    kind: Option<Kind>,
    library: Option<Kind>,
) -> Result<(), Refusal> {
    let cannot =
        |reason: &str, advice: &str| Err(Refusal::Unprofiled(file.into(), reason.into(), advice.into()));
    if let (Some(kind), Some(library)) = (kind, library) {
        if kind.is_64 != library.is_64 {
            let (its, ours) = if kind.is_64 { (64, 32) } else { (32, 64) };
            return cannot(
                &format!("it is a {its}-bit program, and the library has {ours} bits"),
                "build the library for it, and set SIGPROF_LIBRARY",
            );
        }
        if (kind.machine, kind.is_little) != (library.machine, library.is_little) {
            return cannot(
                "it has another architecture than the library",
                "build the library for it, and set SIGPROF_LIBRARY",
            );
        }
    }
    match loader {
        None => {
            return cannot(
                "it is statically linked, so that the library cannot be preloaded",
                "link it with libprofiler.a, or dynamically",
            );
        }
        Some(loader) if loader.as_os_str().as_bytes().windows(7).any(|part| part == b"ld-musl") => {
            return cannot(
                "it is linked with musl, whose loader cannot load the library",
                "link it with glibc",
            );
        }
        Some(_) => {}
    }
    match more_rights(file) {
        Some(rights) => cannot(
            &format!("it runs with more privileges than yours ({rights}), and is never profiled"),
            "profile a copy of it, as the user that it switches to",
        ),
        None => Ok(()),
    }
}

/// Returns why a program has more privileges than its caller: the loader ignores LD_PRELOAD.
fn more_rights(file: &Path) -> Option<&'static str> {
    const GROUP_EXECUTES: u32 = 0o010;
    let status = fs::metadata(file).ok()?;
    let mode = status.permissions().mode();
    if mode & 0o4000 != 0 && status.uid() != nix::unistd::geteuid().as_raw() {
        return Some("setuid");
    }
    if mode & 0o2000 != 0 && mode & GROUP_EXECUTES != 0 && status.gid() != nix::unistd::getegid().as_raw() {
        return Some("setgid");
    }
    let has_capabilities = rustix::fs::getxattr(file, c"security.capability", &mut [0u8; 64]).is_ok();
    (has_capabilities && !nix::unistd::getuid().is_root()).then_some("file capabilities")
}

/// Properties that a library and a program must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    is_64: bool,
    is_little: bool,
    machine: u16,
}

/// A file as the kernel interprets it.
struct Binary {
    /// None for a script.
    kind: Option<Kind>,
    /// The loader, or the interpreter of a script.
    interpreter: Option<PathBuf>,
}

impl Binary {
    /// Reads a file's beginning; None if it is neither a script with an interpreter nor ELF.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        // As many bytes as the kernel reads.
        let mut start = Vec::new();
        File::open(path)?.take(256).read_to_end(&mut start)?;
        if let Some(line) = start.strip_prefix(b"#!") {
            let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_start();
            let name = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            let interpreter = Some(PathBuf::from(OsStr::from_bytes(name)));
            return Ok((!name.is_empty()).then_some(Self { kind: None, interpreter }));
        }
        let file = File::open(path)?;
        Ok(match start.get(..5) {
            Some(b"\x7fELF\x02") => Self::of_elf::<elf::FileHeader64<Endianness>>(file, true),
            Some(b"\x7fELF\x01") => Self::of_elf::<elf::FileHeader32<Endianness>>(file, false),
            _ => None,
        })
    }

    fn of_elf<H: FileHeader<Endian = Endianness>>(file: File, is_64: bool) -> Option<Self> {
        let data = ReadCache::new(file);
        let header = H::parse(&data).ok()?;
        let endian = header.endian().ok()?;
        let kind = Kind { is_64, is_little: endian == Endianness::Little, machine: header.e_machine(endian) };
        let segments = header.program_headers(endian, &data).ok()?;
        let interpreter = segments.iter().find_map(|segment| segment.interpreter(endian, &data).ok()?);
        let interpreter = interpreter.map(|name| PathBuf::from(OsStr::from_bytes(name)));
        Some(Self { kind: Some(kind), interpreter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> PathBuf {
        // Any dynamic object of this machine.
        std::env::current_exe().unwrap()
    }

    fn shell() -> Program {
        let shell = Binary::read(Path::new(SHELL)).unwrap().unwrap();
        assert!(shell.interpreter.is_some(), "it is dynamic");
        Program { path: SHELL.into(), is_bare_script: false, binary: SHELL.into(), loader: shell.interpreter }
    }

    fn write(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn finds_a_command_as_a_shell_does() {
        let scratch = tempfile::tempdir().unwrap();
        let (first, second) = (scratch.path().join("first"), scratch.path().join("second dir"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        fs::write(first.join("tool"), "no program").unwrap();
        let search = std::env::join_paths([&first, &second]).unwrap();
        let find = |name: &str| find(OsStr::new(name), Some(search.clone()), &library());
        assert!(matches!(find("tool"), Err(Refusal::NotExecutable(..))));
        write(&second.join("tool"), b"echo\n");
        let found = find("tool").unwrap();
        assert_eq!(found, Program { path: second.join("tool"), is_bare_script: true, ..shell() });
        for missing in ["nothing", "", "/nothing/at/all"] {
            assert!(matches!(find(missing), Err(Refusal::NotFound(_))), "{missing}");
        }
        assert!(matches!(find(first.to_str().unwrap()), Err(Refusal::NotExecutable(..))), "a directory");
    }

    #[test]
    fn follows_interpreters_of_scripts() {
        let scratch = tempfile::tempdir().unwrap();
        let (inner, outer) = (scratch.path().join("inner"), scratch.path().join("outer"));
        write(&inner, b"#! /bin/sh -e\n");
        write(&outer, format!("#!{}\n", inner.display()).as_bytes());
        let found = find(outer.as_os_str(), None, &library());
        assert_eq!(found.unwrap(), Program { path: outer.clone(), ..shell() });
        let mut elf = fs::read("/bin/sh").unwrap();
        // For another machine.
        elf[18] ^= 0x55;
        write(&inner, &elf);
        let refusal = find(outer.as_os_str(), None, &library()).unwrap_err().to_string();
        assert!(refusal.contains("inner") && refusal.contains("another architecture"), "{refusal}");
        elf[4] = 1;
        write(&inner, &elf);
        let refusal = find(outer.as_os_str(), None, &library()).unwrap_err().to_string();
        assert!(refusal.contains("32-bit"), "{refusal}");
    }

    #[test]
    fn leaves_a_truncated_program_to_the_kernel() {
        let scratch = tempfile::tempdir().unwrap();
        let cut = scratch.path().join("cut");
        for length in [4, 5, 20, 63, 64, 100] {
            write(&cut, &fs::read("/bin/sh").unwrap()[..length]);
            assert!(find(cut.as_os_str(), None, &library()).is_ok(), "{length}");
        }
    }
}
