//! Names of real objects: made by gcc, g++ and rustc, and taken apart as distributions do (Debian: gcc, g++, binutils, xz-utils).

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use sigprof_analysis::{
    profile::{Known, LabelSetId, Location, LocationId, Mapping, MappingId, Profile},
    symbolize::{Options, Symbolizer},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Line 3 is in `inner`, which is inlined into `middle`, and that into `outer`, at lines 6 and 9.
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

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the file is written");
        path
    }

    /// Runs a program in the directory; the words of `command` have no spaces in them.
    fn run(&self, command: &str) {
        let mut words = command.split_ascii_whitespace();
        let program = words.next().expect("a program");
        let output = Command::new(program).args(words).current_dir(&self.directory).output();
        let output = output.unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Compiles the program above as `name`.
    fn c(&self, name: &str, options: &str) -> PathBuf {
        self.write("program.c", C);
        self.run(&format!("gcc -O2 {options} -o {name} program.c"));
        self.path(name)
    }

    fn options(&self) -> Options {
        // Nothing of this machine.
        Options {
            debug_directories: vec![self.path("debug")],
            perf_map_directory: self.path("maps"),
            ..Options::default()
        }
    }
}

/// An address of a function, in the file: where its symbol begins.
fn symbol(path: &Path, name: &str) -> u64 {
    let bytes = fs::read(path).expect("the object is read");
    let elf = object::File::parse(&*bytes).expect("is ELF");
    let mut symbols = elf.symbols().chain(elf.dynamic_symbols());
    let found = symbols.find(|symbol| symbol.name() == Ok(name));
    found.unwrap_or_else(|| panic!("{name} is in {}", path.display())).address()
}

fn build_id(path: &Path) -> String {
    let bytes = fs::read(path).expect("the object is read");
    let elf = object::File::parse(&*bytes).expect("is ELF");
    let id = elf.build_id().expect("notes").expect("an id");
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where the objects lie in the process, those that can be moved.
const BASE: u64 = 0x5555_5555_0000;

/// A profile with a sample at each address, given as in the file, and the distance between the two.
fn profile(path: &Path, addresses: &[u64]) -> (Profile, u64) {
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
            process: Some(4711),
            has: Known::default(),
        });
    }
    for &address in addresses {
        add(&mut profile, address + base);
    }
    (profile, base)
}

fn add(profile: &mut Profile, address: u64) {
    let mapping =
        profile.mappings.iter().rposition(|mapping| (mapping.start..mapping.end).contains(&address));
    let id = LocationId::at(profile.locations.len());
    profile.locations.push(Location { mapping: mapping.map(MappingId::at), address, ..Location::default() });
    profile.samples.push(&[id], &[1, 10], LabelSetId(0));
}

/// The names, files and lines of each location, innermost first, as `name file:line` without the directory.
fn shown(profile: &Profile) -> Vec<Vec<String>> {
    let line = |line: &sigprof_analysis::profile::Line| {
        let function = profile.function(line.function);
        let file = Path::new(&*function.file).file_name().unwrap_or_default().to_string_lossy();
        format!("{} {file}:{}", function.name, line.line)
    };
    profile.locations.iter().map(|location| location.lines.iter().map(line).collect()).collect()
}

fn names(profile: &Profile) -> Vec<Vec<&str>> {
    let name = |line: &sigprof_analysis::profile::Line| &*profile.function(line.function).name;
    profile.locations.iter().map(|location| location.lines.iter().map(name).collect()).collect()
}

/// Names one address of each of these symbols of `of`, as if `path` had run.
fn symbolize(options: Options, path: &Path, addresses: &[u64]) -> (Profile, Vec<String>) {
    let (mut profile, _) = profile(path, addresses);
    let warnings = Symbolizer::new(options).symbolize(&mut profile, &mut |_| {});
    assert_eq!(profile.check(), Ok(()));
    (profile, warnings)
}

const CHAIN: [&str; 3] = ["inner program.c:3", "middle program.c:6", "outer program.c:9"];

/// Asserts that the full chain is found at the first instruction of `outer` that stores, which is one of `inner`.
fn assert_chain(fixture: &Fixture, of: &Path, path: &Path, options: Options) {
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

#[test]
fn all_versions_of_dwarf_give_functions_lines_and_inlined_calls() {
    let fixture = Fixture::new();
    for version in 2..=5 {
        for kind in ["-no-pie -fno-pie", "-pie -fpie"] {
            let path = fixture.c("program", &format!("-gdwarf-{version} {kind}"));
            assert_chain(&fixture, &path, &path, fixture.options());
        }
    }
    // Another class: 4-byte addresses and offsets of 64 bits.
    let path = fixture.c("program", "-gdwarf-5 -gdwarf64");
    assert_chain(&fixture, &path, &path, fixture.options());
}

#[test]
fn compressed_sections_are_read() {
    let fixture = Fixture::new();
    let plain = fixture.c("plain", "-g");
    for kind in ["zlib-gnu", "zlib-gabi", "zstd"] {
        fixture.run(&format!("objcopy --compress-debug-sections={kind} plain {kind}"));
        let path = fixture.path(kind);
        assert!(fs::metadata(&path).expect("is there").len() < fs::metadata(&plain).expect("is there").len());
        assert_chain(&fixture, &plain, &path, fixture.options());
    }
}

#[test]
fn split_debug_information_is_found_beside_the_objects_of_the_compiler() {
    let fixture = Fixture::new();
    for version in [4, 5] {
        let path = fixture.c("program", &format!("-gdwarf-{version} -gsplit-dwarf"));
        assert_chain(&fixture, &path, &path, fixture.options());
        // Binutils' program for packages ends by SIGSEGV where the version is 5.
        if version == 4 {
            fixture.run("dwp -e program -o program.dwp");
        }
        for file in fs::read_dir(&fixture.directory).expect("is read") {
            let file = file.expect("is read").path();
            if file.extension().is_some_and(|end| end == "dwo") {
                fs::remove_file(file).expect("removed");
            }
        }
        if version == 4 {
            assert_chain(&fixture, &path, &path, fixture.options());
            fs::remove_file(fixture.path("program.dwp")).expect("removed");
        }
        // Without these there are symbols and lines.
        let (profile, _) = symbolize(fixture.options(), &path, &[symbol(&path, "hidden")]);
        assert!(shown(&profile)[0][0].starts_with("hidden program.c:1"), "{:?}", shown(&profile));
    }
}

#[test]
fn debug_files_are_found_by_build_id_and_by_link() {
    let fixture = Fixture::new();
    let full = fixture.c("full", "-g -Wl,--build-id");
    fixture.run("objcopy --only-keep-debug full program.debug");
    fixture.run("strip -o program full");
    let path = fixture.path("program");
    let outer = symbol(&full, "outer");
    let (profile, warnings) = symbolize(fixture.options(), &path, &[outer]);
    assert_eq!(names(&profile), [[format!("[program]+{outer:#x}")]]);
    assert!(warnings[0].contains("install its debug package"), "{warnings:?}");

    // By build id, also below a sysroot.
    let id = build_id(&full);
    for root in ["debug", "root/usr/lib/debug"] {
        let place = fixture.path(root).join(".build-id").join(&id[..2]);
        fs::create_dir_all(&place).expect("made");
        let place = place.join(format!("{}.debug", &id[2..]));
        fs::copy(fixture.path("program.debug"), &place).expect("copied");
        let mut options = fixture.options();
        if root != "debug" {
            options.debug_directories = vec!["/usr/lib/debug".into()];
            options.sysroot = Some(fixture.path("root"));
        }
        assert_chain(&fixture, &full, &path, options.clone());
        // Another program's debug file is not taken, whatever its name is.
        fixture.write("other.c", "int outer(int x) { return x; } int main(void) { return outer(1); }");
        fixture.run("gcc -g -Wl,--build-id -o other other.c");
        fs::copy(fixture.path("other"), &place).expect("copied");
        let (profile, _) = symbolize(options, &path, &[outer]);
        assert_eq!(names(&profile), [[format!("[program]+{outer:#x}")]]);
        fs::remove_file(place).expect("removed");
    }

    // By link: beside the file, in .debug, and in the global directory; by checksum where there is no id.
    for ids in [true, false] {
        if !ids {
            fixture.run("objcopy --remove-section=.note.gnu.build-id full full");
            fixture.run("objcopy --only-keep-debug full program.debug");
        }
        fixture.run("strip -o linked full");
        fixture.run("objcopy --add-gnu-debuglink=program.debug linked");
        let path = fixture.path("linked");
        let below =
            fixture.path("debug").join(fixture.directory.path().strip_prefix("/").expect("is absolute"));
        let places = [fixture.path(""), fixture.path(".debug"), below];
        let debug = fs::read(fixture.path("program.debug")).expect("read");
        fs::remove_file(fixture.path("program.debug")).expect("removed");
        for place in places {
            fs::create_dir_all(&place).expect("made");
            let place = place.join("program.debug");
            fs::write(&place, &debug).expect("written");
            assert_chain(&fixture, &full, &path, fixture.options());
            fs::copy(fixture.path("other"), &place).expect("copied");
            let (profile, _) = symbolize(fixture.options(), &path, &[outer]);
            assert_eq!(names(&profile), [[format!("[linked]+{outer:#x}")]]);
            fs::remove_file(place).expect("removed");
        }
    }
}

#[test]
fn tables_of_symbols_that_xz_has_compressed_give_names() {
    let fixture = Fixture::new();
    let full = fixture.c("full", "-Wl,--build-id");
    fixture.run("objcopy -S full program");
    fixture.run("objcopy --only-keep-debug full mini");
    fixture.run("xz mini");
    fixture.run("objcopy --add-section .gnu_debugdata=mini.xz program");
    let (profile, warnings) =
        symbolize(fixture.options(), &fixture.path("program"), &[symbol(&full, "hidden") + 1]);
    assert_eq!((names(&profile), warnings.len()), (vec![vec!["hidden"]], 0));

    // What is damaged is said, and the rest is used.
    let mut bytes = fs::read(fixture.path("mini.xz")).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(fixture.path("mini.xz"), bytes).expect("written");
    fixture.run("objcopy -S full program");
    fixture.run("objcopy --add-section .gnu_debugdata=mini.xz program");
    let hidden = symbol(&full, "hidden");
    let (profile, warnings) = symbolize(fixture.options(), &fixture.path("program"), &[hidden + 1]);
    assert_eq!(names(&profile), [[format!("[program]+{hidden:#x}")]]);
    assert!(warnings[0].contains(".gnu_debugdata"), "{warnings:?}");
}

#[test]
fn names_that_dwz_has_moved_to_a_common_file_are_followed() {
    let fixture = Fixture::new();
    fixture.c("one", "-g -gdwarf-4 -Wl,--build-id -DONE");
    fixture.c("two", "-g -gdwarf-4 -Wl,--build-id -DTWO -O1");
    fixture.run("dwz -m common.debug -r one two");
    let one = fixture.path("one");
    assert!(fixture.path("common.debug").exists(), "dwz has made a common file");
    assert_chain(&fixture, &one, &one, fixture.options());
    fs::remove_file(fixture.path("common.debug")).expect("removed");
    let (_, warnings) = symbolize(fixture.options(), &one, &[symbol(&one, "outer")]);
    assert!(warnings[0].contains("dwz"), "{warnings:?}");
}

#[test]
fn exported_and_local_symbols_are_enough_for_names() {
    let fixture = Fixture::new();
    let full = fixture.c("full", "-shared -fpic");
    let (outer, hidden) = (symbol(&full, "outer"), symbol(&full, "hidden"));
    let (profile, warnings) = symbolize(fixture.options(), &full, &[outer + 1, hidden + 1]);
    assert_eq!((names(&profile), warnings.len()), (vec![vec!["outer"], vec!["hidden"]], 0));
    // Exported ones alone: the other function is told from its neighbours, and all of its samples come together.
    fixture.run("strip -o library.so full");
    let path = fixture.path("library.so");
    let (profile, warnings) = symbolize(fixture.options(), &path, &[outer + 1, hidden + 1, hidden + 3]);
    let nameless = format!("[library.so]+{hidden:#x}");
    assert_eq!(
        (names(&profile), warnings.len()),
        (vec![vec!["outer"], vec![&*nameless], vec![&*nameless]], 0)
    );
    assert_eq!(profile.functions.len(), 2);
}

#[test]
fn cpp_and_rust_names_are_as_they_were_written() {
    let fixture = Fixture::new();
    fixture.write(
        "shape.cc",
        "namespace shape { struct Box { int edge; __attribute__((noinline)) int area(const double &by) const; };
        int Box::area(const double &by) const { return edge * int(by); } }
        int main(int argc, char **) { shape::Box box{argc}; return box.area(2.0); }",
    );
    fixture.write(
        "shape.rs",
        "mod shape { pub struct Cube(pub u32); impl Cube { #[inline(never)] pub fn area(&self) -> u32 { self.0 * self.0 } } }
        fn main() { std::process::exit(shape::Cube(std::env::args().count() as u32).area() as i32) }",
    );
    let mut cases = vec![
        ("g++ -g -O1 -o shape shape.cc", "_ZNK5shape3Box4areaERKd", "shape::Box::area(double const&) const"),
        ("g++ -g1 -O1 -o shape shape.cc", "_ZNK5shape3Box4areaERKd", "shape::Box::area(double const&) const"),
        ("g++ -O1 -o shape shape.cc", "_ZNK5shape3Box4areaERKd", "shape::Box::area(double const&) const"),
    ];
    for mangling in ["v0", "legacy"] {
        for debug in [0, 1, 2] {
            let command = format!(
                "rustc -O -Cdebuginfo={debug} -Csymbol-mangling-version={mangling} -o shape shape.rs"
            );
            // The other one is for nightly compilers alone in new versions.
            if Command::new("rustc")
                .args(command.split(' ').skip(1))
                .current_dir(&fixture.directory)
                .output()
                .is_ok_and(|output| output.status.success())
            {
                cases.push((command.leak(), "4Cube4area", "<shape::shape::Cube>::area"));
            }
        }
    }
    assert!(cases.len() >= 6, "rustc can be run");
    for (command, mangled, expected) in cases {
        fixture.run(command);
        let path = fixture.path("shape");
        let bytes = fs::read(&path).expect("read");
        let elf = object::File::parse(&*bytes).expect("is ELF");
        let mut symbols = elf.symbols().map(|symbol| (symbol.name().expect("a name"), symbol.address()));
        let (system_name, address) = symbols.find(|(name, _)| name.contains(mangled)).expect("is there");
        let (profile, _) = symbolize(fixture.options(), &path, &[address]);
        let function = &profile.functions[0];
        // The older way of Rust has no place for the brackets.
        let is_same = *function.name == *expected || *function.name == *"shape::shape::Cube::area";
        assert!(is_same, "{command}: {}", function.name);
        assert_eq!(&*function.system_name, system_name, "{command}");
        let plain = Options { demangle: false, ..fixture.options() };
        let (profile, _) = symbolize(plain, &path, &[address]);
        assert_eq!(&*profile.functions[0].name, system_name, "{command}");
    }
}

/// Functions that the linker has no names for, inlined into `work`.
const NAMELESS: &str = "\
#define INLINE inline __attribute__((always_inline))
volatile int sink;
namespace outer { namespace inner {
static INLINE int helper(int x) { sink = x; return sink + 1; }
namespace {
struct Hidden {
    int v;
    INLINE int get(int k) { sink = k * v; return sink; }
    template <class T> INLINE T conv(T k) { sink = (int)k * v; return sink; }
};
INLINE int anonymous(int x) { sink = x * 3; return sink; }
}
extern \"C\" INLINE int exported(int x) { sink = x * 7; return sink; }
static INLINE int quiet(int x) {
    struct Deep { INLINE int run(int k) { sink = k - 9; return sink; } };
    return Deep().run(x);
}
__attribute__((noinline)) int work(int a) {
    Hidden h{a};
    struct Local { int v; INLINE int run(int k) { sink = k - v; return sink; } } l{a};
    auto first = [&](int q) __attribute__((always_inline)) { sink = q + a; return sink; };
    auto second = [&](int q) __attribute__((always_inline)) { sink = q - a; return sink; };
    return helper(a) + h.get(a) + h.conv<long>(a) + anonymous(a) + exported(a) + quiet(a) + l.run(a) + first(a)
        + second(a);
}
}}
int main(int c, char **) { return outer::inner::work(c); }
";

#[test]
fn functions_that_the_linker_does_not_know_are_called_by_what_they_stand_in() {
    let fixture = Fixture::new();
    fixture.write("nameless.cc", NAMELESS);
    // Link-time optimisation leaves declarations in another unit.
    for options in
        ["-gdwarf-5", "-gdwarf-4", "-gdwarf-3", "-gdwarf-5 -gsplit-dwarf", "-g -flto -ffat-lto-objects"]
    {
        fixture.run(&format!("g++ -O2 {options} -o nameless nameless.cc"));
        let path = fixture.path("nameless");
        let start = symbol(&path, "_ZN5outer5inner4workEi");
        let (profile, _) = symbolize(fixture.options(), &path, &(start..start + 160).collect::<Vec<_>>());
        let of_work =
            names(&profile).into_iter().filter(|calls| calls.last() == Some(&"outer::inner::work(int)"));
        let found: std::collections::BTreeSet<&str> = of_work.flatten().collect();
        let expected = [
            "exported",
            "outer::inner::(anonymous namespace)::Hidden::conv<long int>",
            "outer::inner::(anonymous namespace)::Hidden::get",
            "outer::inner::(anonymous namespace)::anonymous",
            "outer::inner::helper",
            "outer::inner::quiet",
            "outer::inner::quiet::Deep::run",
            "outer::inner::work(int)",
            "outer::inner::work(int)::Local::run",
            "outer::inner::work(int)::{lambda at 21:20}::operator()",
            "outer::inner::work(int)::{lambda at 22:21}::operator()",
        ];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{options}");
        let helper = profile.functions.iter().find(|function| function.name.ends_with("::helper"));
        assert_eq!(&*helper.expect("was found").system_name, "helper", "{options}");
    }
}

#[test]
fn a_library_that_is_mapped_in_pieces_and_moved_is_one_object() {
    let fixture = Fixture::new();
    let path = fixture.c("library.so", "-g -shared -fpic -Wl,-z,separate-code");
    let outer = symbol(&path, "outer");
    let (mut profile, base) = profile(&path, &[outer]);
    // The code's own mapping is cut in two in the middle of the function.
    let code = profile.locations[0].mapping.expect("is mapped").index();
    let cut = base + (outer & !0xfff) + 0x1000;
    let (start, offset) = (profile.mappings[code].start, profile.mappings[code].file_offset);
    profile.mappings[code].end = cut;
    let rest = Mapping {
        start: cut,
        end: cut + 0x1000,
        file_offset: offset + (cut - start),
        ..profile.mappings[code].clone()
    };
    profile.mappings.push(rest);
    let mut symbolizer = Symbolizer::new(fixture.options());
    symbolizer.symbolize(&mut profile, &mut |_| {});
    assert_eq!(names(&profile)[0].last(), Some(&"outer"));
    let mapping = &profile.mappings[code];
    assert_eq!(symbolizer.file_of(mapping), Some(path));
    assert_eq!(symbolizer.file_address(mapping, base + outer + 2), Some(outer + 2));
    let range = symbolizer.function_range(mapping, base + outer + 2).expect("is known");
    assert_eq!(range.start, base + outer);
    assert!(range.end > base + outer + 8 && range.end < base + outer + 100, "{range:x?}");
    assert_eq!(symbolizer.file_address(mapping, mapping.end), None);
}

#[test]
fn names_of_a_file_that_is_not_the_one_that_ran_are_not_taken() {
    let fixture = Fixture::new();
    let path = fixture.c("program", "-g -Wl,--build-id");
    let outer = symbol(&path, "outer");
    let try_with = |change: &dyn Fn(&mut Mapping), options: Options| {
        let (mut profile, _) = profile(&path, &[outer]);
        profile.mappings.iter_mut().for_each(change);
        let mut symbolizer = Symbolizer::new(options);
        let warnings = symbolizer.symbolize(&mut profile, &mut |_| {});
        let mapping = profile.mapping_of(&profile.locations[0]).expect("is mapped");
        assert_eq!(symbolizer.file_of(mapping).is_some(), !profile.locations[0].lines.is_empty());
        (names(&profile)[0].last().map(|name| name.to_string()), warnings)
    };
    let id = build_id(&path);
    let outer_name = Some("outer".to_owned());
    assert_eq!(
        try_with(&|mapping| mapping.build_id = id.clone().into(), fixture.options()),
        (outer_name.clone(), vec![])
    );
    let same_id = |mapping: &mut Mapping| (mapping.build_id, mapping.is_deleted) = (id.clone().into(), true);
    assert_eq!(try_with(&same_id, fixture.options()), (outer_name.clone(), vec![]));
    // Go's own ids are no linker's.
    assert_eq!(try_with(&|mapping| mapping.build_id = "abc/def-g".into(), fixture.options()).0, outer_name);

    let (name, warnings) =
        try_with(&|mapping| mapping.build_id = "0123456789abcdef".into(), fixture.options());
    assert_eq!((name, warnings.len()), (None, 1));
    assert!(warnings[0].contains("is not the file that ran") && warnings[0].contains(&id), "{warnings:?}");
    let (name, warnings) = try_with(&|mapping| mapping.is_deleted = true, fixture.options());
    assert_eq!(name, None);
    assert!(warnings[0].contains("deleted or replaced"), "{warnings:?}");
    let missing = |mapping: &mut Mapping| mapping.file = "/no/such/program".into();
    let (name, warnings) = try_with(&missing, fixture.options());
    assert_eq!(name, None);
    assert!(
        warnings[0].starts_with("/no/such/program: ") && warnings[0].contains("--sysroot"),
        "{warnings:?}"
    );

    // The user says where it is.
    let given = Options { binary: Some(path.clone()), ..fixture.options() };
    assert_eq!(try_with(&missing, given), (outer_name.clone(), vec![]));
    let root = Options { sysroot: Some(fixture.path("root")), ..fixture.options() };
    fs::create_dir_all(fixture.path("root/no/such")).expect("made");
    fs::copy(&path, fixture.path("root/no/such/program")).expect("copied");
    assert_eq!(try_with(&missing, root), (outer_name.clone(), vec![]));

    // The file is gone, and its debug file is there.
    let place = fixture.path("debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&place).expect("made");
    let place = place.join(format!("{}.debug", &id[2..]));
    fixture.run(&format!("objcopy --only-keep-debug program {}", place.display()));
    let (mut profile, _) = profile(&path, &[outer]);
    for mapping in &mut profile.mappings {
        (mapping.file, mapping.build_id) = ("/no/such/program".into(), id.clone().into());
    }
    let warnings = Symbolizer::new(fixture.options()).symbolize(&mut profile, &mut |_| {});
    assert_eq!((names(&profile)[0].last().copied(), warnings.len()), (Some("outer"), 0));
}

#[test]
fn files_that_are_no_objects_are_told() {
    let fixture = Fixture::new();
    let path = fixture.c("program", "");
    for (bytes, reason) in [
        (&b""[..], "empty"),
        (b"#!/bin/sh\n", "not an ELF file"),
        (b"\x7fELF\x02\x01\x01", "not an ELF file"),
    ] {
        let (mut profile, _) = profile(&path, &[symbol(&path, "outer")]);
        let broken = fixture.path("broken");
        fs::write(&broken, bytes).expect("written");
        profile.mappings.iter_mut().for_each(|mapping| mapping.file = broken.clone());
        let warnings = Symbolizer::new(fixture.options()).symbolize(&mut profile, &mut |_| {});
        assert!(warnings.len() == 1 && warnings[0].contains(reason), "{warnings:?}");
        profile.mappings.iter_mut().for_each(|mapping| mapping.file = fixture.path(""));
        let warnings = Symbolizer::new(fixture.options()).symbolize(&mut profile, &mut |_| {});
        assert!(warnings.len() == 1 && warnings[0].contains("not a regular file"), "{warnings:?}");
    }
}

#[test]
fn generated_code_has_the_names_that_its_compiler_left() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("maps")).expect("made");
    fixture.write("maps/perf-4711.map", "7f0000001000 80 Interpret:loop\n7f0000002000 80 elsewhere\n");
    let path = fixture.c("program", "");
    let (mut profile, _) = profile(&path, &[]);
    let mut code = profile.mappings[0].clone();
    (code.start, code.end, code.file) = (0x7f00_0000_1000, 0x7f00_0000_2000, PathBuf::new());
    profile.mappings.push(code);
    // In the mapping, between the pieces, and in no mapping.
    for address in [0x7f00_0000_1010, 0x7f00_0000_1100, 0x7f00_0000_2010] {
        add(&mut profile, address);
    }
    let warnings = Symbolizer::new(fixture.options()).symbolize(&mut profile, &mut |_| {});
    assert_eq!(
        (names(&profile), warnings.len()),
        (vec![vec!["Interpret:loop"], vec![], vec!["elsewhere"]], 0)
    );

    for location in &mut profile.locations {
        location.lines.clear();
    }
    profile.mappings.last_mut().expect("is there").has = Known::default();
    fs::remove_file(fixture.path("maps/perf-4711.map")).expect("removed");
    let warnings = Symbolizer::new(fixture.options()).symbolize(&mut profile, &mut |_| {});
    assert!(names(&profile).iter().all(Vec::is_empty));
    assert!(warnings.len() == 1 && warnings[0].contains("perf-4711.map: is not there"), "{warnings:?}");
}

#[test]
fn the_kernels_own_code_has_names_where_it_is_the_same_kernel() {
    let maps = fs::read_to_string("/proc/self/maps").expect("is read");
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).expect("every process has one");
    let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    let (start, end) = (number(start), number(end));
    let mut bytes = vec![0; (end - start) as usize];
    let memory = fs::File::open("/proc/self/mem").expect("is opened");
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start).expect("is read");
    let fixture = Fixture::new();
    let path = fixture.path("vdso");
    fs::write(&path, bytes).expect("written");
    let address = symbol(&path, "__vdso_clock_gettime");
    for (id, is_named) in
        [(build_id(&path), true), ("0123456789abcdef".into(), false), (String::new(), false)]
    {
        let (mut profile, _) = profile(&path, &[address]);
        for mapping in &mut profile.mappings {
            (mapping.file, mapping.build_id) = ("[vdso]".into(), id.clone().into());
        }
        let warnings = Symbolizer::new(fixture.options()).symbolize(&mut profile, &mut |_| {});
        assert_eq!(warnings, [""; 0]);
        let name = names(&profile)[0].first().map(|name| name.contains("clock_gettime"));
        assert_eq!(name, is_named.then_some(true), "{id}");
    }
}

#[test]
fn what_is_known_already_and_what_no_sample_uses_is_left_alone() {
    let fixture = Fixture::new();
    let path = fixture.c("program", "-g");
    let (mut profile, base) = profile(&path, &[symbol(&path, "outer")]);
    profile
        .locations
        .push(Location { address: base + symbol(&path, "hidden"), ..profile.locations[0].clone() });
    let mut steps = Vec::new();
    let mut symbolizer = Symbolizer::new(fixture.options());
    symbolizer.symbolize(&mut profile, &mut |progress| steps.push((progress.done, progress.all)));
    assert_eq!((steps.first(), steps.last()), (Some(&(0, 1)), Some(&(1, 1))));
    assert!(profile.locations[1].lines.is_empty());
    // Whoever named a mapping's functions found no name for this one.
    profile.samples.push(&[LocationId(1)], &[1, 10], LabelSetId(0));
    let before = profile.clone();
    symbolizer.symbolize(&mut profile, &mut |progress| assert_eq!(progress.all, 0));
    assert_eq!(profile.locations, before.locations);
    assert_eq!(profile.functions, before.functions);
}
