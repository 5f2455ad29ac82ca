//! Names from symbol tables, and demangled names with their scopes.

use super::support::{Fixture, names, symbol, symbolize};
use object::{Object as _, ObjectSymbol as _};
use sigprof_analysis::symbolize::SymbolizerOptions;
use std::{fs, process::Command};

#[test]
fn finds_names_in_symbol_tables_compressed_by_xz() {
    let fixture = Fixture::new();
    let full = fixture.c("full", "-Wl,--build-id");
    fixture.run("objcopy -S full program");
    fixture.run("objcopy --only-keep-debug full mini");
    fixture.run("xz mini");
    fixture.run("objcopy --add-section .gnu_debugdata=mini.xz program");
    let (profile, warnings) =
        symbolize(fixture.options(), &fixture.path("program"), &[symbol(&full, "hidden") + 1]);
    assert_eq!((names(&profile), warnings.len()), (vec![vec!["hidden"]], 0));

    // Damaged data is reported; the rest is used.
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
fn exported_and_local_symbols_are_enough_for_names() {
    let fixture = Fixture::new();
    let full = fixture.c("full", "-shared -fpic");
    let (outer, hidden) = (symbol(&full, "outer"), symbol(&full, "hidden"));
    let (profile, warnings) = symbolize(fixture.options(), &full, &[outer + 1, hidden + 1]);
    assert_eq!((names(&profile), warnings.len()), (vec![vec!["outer"], vec!["hidden"]], 0));
    // Exported symbols only: the other function has no name, but its samples are together.
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
            // New versions only allow one of them in nightly compilers.
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
        // Rust's legacy mangling cannot express the brackets.
        let is_same = *function.name == *expected || *function.name == *"shape::shape::Cube::area";
        assert!(is_same, "{command}: {}", function.name);
        assert_eq!(&*function.system_name, system_name, "{command}");
        let plain = SymbolizerOptions { demangle: false, ..fixture.options() };
        let (profile, _) = symbolize(plain, &path, &[address]);
        assert_eq!(&*profile.functions[0].name, system_name, "{command}");
    }
}

/// Functions without symbols, inlined into `work`.
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
fn functions_without_symbols_are_named_with_their_scopes() {
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

/// As in libc: a private name in the debug information, public names in the symbol table.
#[test]
fn of_several_names_at_one_address_the_public_one_is_shown() {
    let fixture = Fixture::new();
    fixture.write(
        "aliases.c",
        "__attribute__((noinline)) int __GI___libc_take(int x) { return x * 3; }
        extern __typeof(__GI___libc_take) __libc_take __attribute__((alias(\"__GI___libc_take\")));
        extern __typeof(__GI___libc_take) take __attribute__((weak, alias(\"__GI___libc_take\")));
        static __attribute__((noinline, used)) int __quiet(int x) { return x * 5; }
        static __typeof(__quiet) quiet __attribute__((alias(\"__quiet\"), used));
        int main(int c, char **v) { (void)v; return __GI___libc_take(c) + __quiet(c); }",
    );
    for options in ["-g", "", "-g -s"] {
        fixture.run(&format!(
            "gcc -O2 {options} -shared -fpic -fno-semantic-interposition -o aliases.so aliases.c"
        ));
        let path = fixture.path("aliases.so");
        let address = symbol(&path, "__GI___libc_take");
        let (profile, _) = symbolize(fixture.options(), &path, &[address]);
        assert_eq!(names(&profile), [["take"]], "{options}");
    }
    // If no name is public, the one of the debug information stays.
    fixture.run("gcc -O2 -g -shared -fpic -o aliases.so aliases.c");
    let path = fixture.path("aliases.so");
    let (profile, _) = symbolize(fixture.options(), &path, &[symbol(&path, "__quiet")]);
    assert_eq!(names(&profile), [["__quiet"]]);
}

/// No compiler of these languages is needed: an assembler accepts their linker names.
#[test]
fn functions_of_swift_d_and_ocaml_have_names() {
    let fixture = Fixture::new();
    let cases = [
        ("$s4demo6crunchyyF", "$s4demo6crunchyyF"),
        ("_D4main5crushFiZi", "_D4main5crushFiZi"),
        ("camlDemo__Inner__crunch_270", "Demo.Inner.crunch"),
        ("camlDemo__Inner.crush_271", "Demo.Inner.crush"),
    ];
    let mut text =
        ".text\n.globl before\n.type before, @function\nbefore: ret\n.size before, . - before\n".to_owned();
    for (name, _) in cases {
        text += &format!(
            ".globl \"{name}\"\n.type \"{name}\", @function\n\"{name}\": nop\nret\n.size \"{name}\", . - \"{name}\"\n"
        );
    }
    // Mapping symbols, which only assemblers for Arm write.
    text += "\"$x\":\n\"$d.1\":\nlast: nop\nret\n";
    fixture.write("names.s", &text);
    fixture.run("gcc -shared -o names.so names.s");
    let path = fixture.path("names.so");
    for (name, expected) in cases {
        let (profile, _) = symbolize(fixture.options(), &path, &[symbol(&path, name) + 1]);
        assert_eq!(names(&profile), [[expected]]);
        assert_eq!(&*profile.functions[0].system_name, name);
    }
    let (profile, _) = symbolize(fixture.options(), &path, &[symbol(&path, "last")]);
    assert_eq!(names(&profile), [["last"]]);
}
