//! The choice of the file for a mapping's names.

use super::support::{Fixture, add, build_id, names, profile, symbol};
use sigprof_analysis::{
    profile::{Known, LabelSetId, Location, LocationId, Mapping},
    symbolize::{Symbolizer, SymbolizerOptions},
};
use std::{fs, path::PathBuf};

#[test]
fn a_library_that_is_mapped_in_pieces_and_moved_is_one_object() {
    let fixture = Fixture::new();
    let path = fixture.c("library.so", "-g -shared -fpic -Wl,-z,separate-code");
    let outer = symbol(&path, "outer");
    let (mut profile, base) = profile(&path, &[outer]);
    // The code's mapping is split in the middle of the function.
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
fn ignores_names_in_a_file_that_is_not_the_one_that_ran() {
    let fixture = Fixture::new();
    let path = fixture.c("program", "-g -Wl,--build-id");
    let outer = symbol(&path, "outer");
    let try_with = |change: &dyn Fn(&mut Mapping), options: SymbolizerOptions| {
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
    // Go's build IDs are not comparable with a linker's.
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

    // The user names the file.
    let given = SymbolizerOptions { binary: Some(path.clone()), ..fixture.options() };
    assert_eq!(try_with(&missing, given), (outer_name.clone(), vec![]));
    let root = SymbolizerOptions { sysroot: Some(fixture.path("root")), ..fixture.options() };
    fs::create_dir_all(fixture.path("root/no/such")).expect("made");
    fs::copy(&path, fixture.path("root/no/such/program")).expect("copied");
    assert_eq!(try_with(&missing, root), (outer_name.clone(), vec![]));

    // The file is gone, but its debug file exists.
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
fn reports_files_that_are_not_objects() {
    let fixture = Fixture::new();
    let path = fixture.c("program", "");
    for (bytes, reason) in [
        (&b""[..], "empty"),
        (b"#!/bin/sh\n", "not a valid ELF file"),
        (b"\x7fELF\x02\x01\x01", "not a valid ELF file"),
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
    fixture.write("maps/perf-4710.map", "7f0000001000 80 Parent:hidden\n7f0000001100 80 Parent:loop\n");
    fixture.write("maps/perf-1.map", "7f0000001100 80 First:hidden\n7f0000002000 1000 First:hidden\n");
    let ancestors = [(4711, vec![4710, 4, 1]), (4710, vec![3])].into();
    let options = SymbolizerOptions { ancestors, ..fixture.options() };
    let warnings = Symbolizer::new(options).symbolize(&mut profile, &mut |_| {});
    let expected = ["Interpret:loop", "Parent:loop", "elsewhere"].map(|name| vec![name]);
    assert_eq!((names(&profile), warnings.len()), (expected.to_vec(), 0));

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
fn vdso_functions_have_names_if_the_kernel_is_the_same() {
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
fn skips_locations_without_samples_and_in_named_mappings() {
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
    // This mapping's functions are named already, and this one had no name.
    profile.samples.push(&[LocationId(1)], &[1, 10], LabelSetId(0));
    let before = profile.clone();
    symbolizer.symbolize(&mut profile, &mut |progress| assert_eq!(progress.all, 0));
    assert_eq!(profile.locations, before.locations);
    assert_eq!(profile.functions, before.functions);
}
