//! Compiled objects, and profiles with samples in them.

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use sigprof_analysis::{
    profile::{Known, LabelSetId, Location, LocationId, Mapping, MappingId, Profile},
    symbolize::{Symbolizer, SymbolizerOptions},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Line 3 is in `inner`, inlined into `middle` at line 6, which is inlined into `outer` at line 9.
const C: &str = "\
volatile int sink;
static inline __attribute__((always_inline)) int inner(int x) {
    sink = x * 3; return sink;
}
static inline __attribute__((always_inline)) int middle(int x) {
    return inner(x) + 1;
}
__attribute__((noinline)) int outer(int x) {
    return middle(x) * 2;
}
static __attribute__((noinline)) int hidden(int x) {
    sink = x + 1; return sink * x;
}
int main(int argc, char **argv) { (void)argv; return outer(argc) + hidden(argc); }
";

pub(crate) struct Fixture {
    pub(crate) directory: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the file is written");
        path
    }

    /// Runs a program in the directory; no word of `command` contains spaces.
    pub(crate) fn run(&self, command: &str) {
        let mut words = command.split_ascii_whitespace();
        let program = words.next().expect("a program");
        let output = Command::new(program).args(words).current_dir(&self.directory).output();
        let output = output.unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Compiles the program above as `name`.
    pub(crate) fn c(&self, name: &str, options: &str) -> PathBuf {
        self.write("program.c", C);
        self.run(&format!("gcc -O2 {options} -o {name} program.c"));
        self.path(name)
    }

    pub(crate) fn options(&self) -> SymbolizerOptions {
        // Nothing from this machine.
        SymbolizerOptions {
            debug_directories: vec![self.path("debug")],
            perf_map_directory: self.path("maps"),
            ..SymbolizerOptions::default()
        }
    }
}

/// Returns the address of a function's symbol in the file.
pub(crate) fn symbol(path: &Path, name: &str) -> u64 {
    let bytes = fs::read(path).expect("the object is read");
    let elf = object::File::parse(&*bytes).expect("is ELF");
    let mut symbols = elf.symbols().chain(elf.dynamic_symbols());
    let found = symbols.find(|symbol| symbol.name() == Ok(name));
    found.unwrap_or_else(|| panic!("{name} is in {}", path.display())).address()
}

pub(crate) fn build_id(path: &Path) -> String {
    let bytes = fs::read(path).expect("the object is read");
    let elf = object::File::parse(&*bytes).expect("is ELF");
    let id = elf.build_id().expect("notes").expect("an id");
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The addresses of position-independent objects in the process.
const BASE: u64 = 0x5555_5555_0000;

/// Returns a profile with a sample at each address in the file, and the load offset.
pub(crate) fn profile(path: &Path, addresses: &[u64]) -> (Profile, u64) {
    let bytes = fs::read(path).expect("the object is read");
    let elf = object::File::parse(&*bytes).expect("is ELF");
    let base = if elf.kind() == object::ObjectKind::Executable { 0 } else { BASE };
    let mut profile = Profile::new(Profile::cpu_types());
    for segment in elf.segments() {
        let start = (segment.address() & !0xfff) + base;
        profile.mappings.push(Mapping {
            start,
            end: (segment.address() + segment.size()).next_multiple_of(0x1000) + base,
            file_offset: segment.file_range().0 & !0xfff,
            file: path.into(),
            build_id: "".into(),
            is_deleted: false,
            is_moved: false,
            process: Some(4711),
            has: Known::default(),
        });
    }
    for &address in addresses {
        add(&mut profile, address + base);
    }
    (profile, base)
}

pub(crate) fn add(profile: &mut Profile, address: u64) {
    let mapping =
        profile.mappings.iter().rposition(|mapping| (mapping.start..mapping.end).contains(&address));
    let id = LocationId::at(profile.locations.len());
    profile.locations.push(Location { mapping: mapping.map(MappingId::at), address, ..Location::default() });
    profile.samples.push(&[id], &[1, 10], LabelSetId(0));
}

/// Returns each location's lines, innermost first, as `name file:line` without directories.
pub(crate) fn shown(profile: &Profile) -> Vec<Vec<String>> {
    let line = |line: &sigprof_analysis::profile::Line| {
        let function = profile.function(line.function);
        let file = Path::new(&*function.file).file_name().unwrap_or_default().to_string_lossy();
        format!("{} {file}:{}", function.name, line.line)
    };
    profile.locations.iter().map(|location| location.lines.iter().map(line).collect()).collect()
}

pub(crate) fn names(profile: &Profile) -> Vec<Vec<&str>> {
    let name = |line: &sigprof_analysis::profile::Line| &*profile.function(line.function).name;
    profile.locations.iter().map(|location| location.lines.iter().map(name).collect()).collect()
}

/// Names these addresses of `path`; returns the profile and the warnings.
pub(crate) fn symbolize(
    options: SymbolizerOptions,
    path: &Path,
    addresses: &[u64],
) -> (Profile, Vec<String>) {
    let (mut profile, _) = profile(path, addresses);
    let warnings = Symbolizer::new(options).symbolize(&mut profile, &mut |_| {});
    assert_eq!(profile.check(), Ok(()));
    (profile, warnings)
}

const CHAIN: [&str; 3] = ["inner program.c:3", "middle program.c:6", "outer program.c:9"];

/// Asserts that the chain is complete at the first store in `outer`, which belongs to `inner`.
pub(crate) fn assert_chain(fixture: &Fixture, of: &Path, path: &Path, options: SymbolizerOptions) {
    let start = symbol(of, "outer");
    let (profile, warnings) = symbolize(options, path, &(start..start + 12).collect::<Vec<_>>());
    assert_eq!(warnings, [""; 0], "{}", path.display());
    let shown = shown(&profile);
    assert!(shown.iter().any(|calls| calls == &CHAIN), "{shown:?} in {:?}", fixture.directory);
    assert!(
        shown.iter().all(|calls| calls.last().is_some_and(|call| call.starts_with("outer program.c:"))),
        "{shown:?}"
    );
    let outer = profile.functions.iter().find(|function| &*function.name == "outer").expect("is there");
    assert_eq!(outer.start_line, 8);
    let has = profile.mapping_of(&profile.locations[0]).expect("is mapped").has;
    assert_eq!(has, Known { functions: true, files: true, lines: true, inlines: true });
}
