//! Debug information in the forms and places of compilers and distributions.

use super::support::{Fixture, assert_chain, build_id, names, shown, symbol, symbolize};
use sigprof_analysis::{
    profile::Profile,
    symbolize::{Symbolizer, SymbolizerOptions},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[test]
fn all_versions_of_dwarf_give_functions_lines_and_inlined_calls() {
    let fixture = Fixture::new();
    for version in 2..=5 {
        for kind in ["-no-pie -fno-pie", "-pie -fpie"] {
            let path = fixture.c("program", &format!("-gdwarf-{version} {kind}"));
            assert_chain(&fixture, &path, &path, fixture.options());
        }
    }
    // 64-bit DWARF.
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
        // With version 5, SIGSEGV kills binutils' dwp.
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
        // Without these files there are symbols and lines.
        let (profile, _) = symbolize(fixture.options(), &path, &[symbol(&path, "hidden")]);
        assert!(shown(&profile)[0][0].starts_with("hidden program.c:1"), "{:?}", shown(&profile));
    }
}

/// As distributions install it: the program is stripped, and its debug information is another file.
#[test]
fn split_debug_information_is_found_wherever_debuggers_find_it() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("built")).expect("made");
    let full = fixture.c("built/program", "-gdwarf-4 -gsplit-dwarf -Wl,--build-id");
    fixture.run("dwp -e built/program -o package");
    fixture.write("other.c", "int main(void) { return 0; }");
    fixture.run("gcc -gdwarf-4 -gsplit-dwarf -o other other.c");
    fixture.run("dwp -e other -o other.dwp");
    let is_dwo = |name: &str| name.starts_with("program") && name.ends_with(".dwo");
    let entries = fs::read_dir(fixture.path("built")).expect("is read").map(|entry| entry.expect("is read"));
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let dwo = names.into_iter().find(|name| is_dwo(name)).expect("the compiler has made one");
    let compiled = fixture.path("built").join(&dwo);
    fs::rename(&compiled, fixture.path("dwo")).expect("renamed");

    let id = build_id(&full);
    let ids = fixture.path("debug/.build-id").join(&id[..2]);
    for folder in [&ids, &fixture.path("bin")] {
        fs::create_dir_all(folder).expect("made");
    }
    fixture.run("strip -o bin/program built/program");
    let path = fixture.path("bin/program");
    let debug = ids.join(format!("{}.debug", &id[2..]));
    fixture.run(&format!("objcopy --only-keep-debug built/program {}", debug.display()));
    let global = fixture
        .path("debug")
        .join(path.canonicalize().expect("is there").strip_prefix("/").expect("absolute"));
    let added = |path: &Path, end: &str| PathBuf::from(format!("{}{end}", path.display()));

    let is_found = || {
        let outer = symbol(&full, "outer");
        let (profile, _) = symbolize(fixture.options(), &path, &(outer..outer + 12).collect::<Vec<_>>());
        shown(&profile).iter().any(|calls| calls.len() > 1)
    };
    assert!(!is_found(), "inlined calls are in the split file alone");
    for (from, places) in [
        (
            "package",
            vec![
                added(&path, ".dwp"),
                added(&debug, ".dwp"),
                ids.join(format!("{}.dwp", &id[2..])),
                added(&global, ".dwp"),
            ],
        ),
        (
            "dwo",
            vec![
                compiled.clone(),
                fixture.path("bin").join(&dwo),
                fixture.path("bin/built").join(&dwo),
                ids.join(&dwo),
                fixture.path("debug").join(&dwo),
            ],
        ),
    ] {
        for place in places {
            fs::create_dir_all(place.parent().expect("has one")).expect("made");
            fs::copy(fixture.path(from), &place).expect("copied");
            assert_chain(&fixture, &full, &path, fixture.options());
            fs::remove_file(&place).expect("removed");
            assert!(!is_found(), "without {}", place.display());
        }
    }

    // A package of another program hides nothing.
    fs::copy(fixture.path("other.dwp"), added(&path, ".dwp")).expect("copied");
    fs::copy(fixture.path("package"), added(&debug, ".dwp")).expect("copied");
    assert_chain(&fixture, &full, &path, fixture.options());
    fs::remove_file(added(&debug, ".dwp")).expect("removed");
    fs::copy(fixture.path("dwo"), &compiled).expect("copied");
    assert_chain(&fixture, &full, &path, fixture.options());
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

    // By build ID, also below a sysroot.
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
        // Another program's debug file is ignored, even if its name matches.
        fixture.write("other.c", "int outer(int x) { return x; } int main(void) { return outer(1); }");
        fixture.run("gcc -g -Wl,--build-id -o other other.c");
        fs::copy(fixture.path("other"), &place).expect("copied");
        let (profile, _) = symbolize(options, &path, &[outer]);
        assert_eq!(names(&profile), [[format!("[program]+{outer:#x}")]]);
        fs::remove_file(place).expect("removed");
    }

    // By link: beside the file, in .debug, and in the global directory; without an ID, by checksum.
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

/// A profile is recorded with available names; debug packages are installed later.
#[test]
fn functions_without_names_get_them_when_their_debug_file_is_there() {
    let fixture = Fixture::new();
    let full = fixture.c("full", "-g -Wl,--build-id");
    fixture.run("strip -o program full");
    let path = fixture.path("program");
    let (mut profile, warnings) =
        symbolize(fixture.options(), &path, &[symbol(&full, "outer"), symbol(&full, "hidden")]);
    let stand_ins = shown(&profile);
    assert!(
        stand_ins.iter().all(|calls| calls[0].starts_with("[program]+0x")) && warnings.len() == 1,
        "{stand_ins:?}"
    );
    let again = |profile: &mut Profile| Symbolizer::new(fixture.options()).symbolize(profile, &mut |_| {});
    assert_eq!(again(&mut profile), [""; 0], "it was said before");
    assert_eq!(shown(&profile), stand_ins);

    // The names also stay if the program lacks their source, or is missing.
    fs::rename(&path, fixture.path("elsewhere")).expect("renamed");
    fixture.run("objcopy -R .eh_frame -R .eh_frame_hdr elsewhere program");
    assert_eq!(again(&mut profile), [""; 0]);
    assert_eq!(shown(&profile), stand_ins);
    fs::remove_file(&path).expect("it was there");
    assert_eq!(again(&mut profile), [""; 0]);
    assert_eq!(shown(&profile), stand_ins);

    let mut without_id = profile.clone();
    profile.mappings.iter_mut().for_each(|mapping| mapping.build_id = build_id(&full).as_str().into());
    fixture.run("objcopy --only-keep-debug full program.debug");
    fixture.run("objcopy --add-gnu-debuglink=program.debug elsewhere program");
    assert_eq!(again(&mut profile), [""; 0]);
    let functions: Vec<&str> = names(&profile).iter().map(|calls| *calls.last().expect("is named")).collect();
    assert_eq!(functions, ["outer", "hidden"]);

    // Without a build ID the file may not be the one that ran, unless the user names it.
    assert_eq!(again(&mut without_id), [""; 0]);
    assert_eq!(shown(&without_id), stand_ins);
    let options = SymbolizerOptions { binary: Some(path), ..fixture.options() };
    Symbolizer::new(options).symbolize(&mut without_id, &mut |_| {});
    assert_eq!(names(&without_id), names(&profile));
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
