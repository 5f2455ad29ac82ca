//! Debug information, in the forms and places that compilers and distributions have for it.

use super::support::{Fixture, assert_chain, build_id, names, shown, symbol, symbolize};
use std::fs;

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
