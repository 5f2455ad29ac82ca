//! Tests with spools in memory.

use super::*;
use crate::format::Mapping;

/// A spool with these 8-byte words in its arena.
fn spool(words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; ARENA];
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let text = b"1000-2000 r-xp 00000000 00:00 0    /start\n5000-6000 rw-p 0 00:00 0\nnonsense\n";
    bytes[TEXT..TEXT + text.len()].copy_from_slice(text);
    bytes[PATHS..PATHS + 9].copy_from_slice(b"/t/prof/p");
    let numbers = [
        (field::MAGIC, MAGIC),
        (field::VERSION, VERSION),
        (field::WORD_BYTES, 8),
        (field::STATE, SpoolState::Running as u64),
        (field::PROCESS, 17),
        (field::PERIOD_MICROS, 10_000),
        (field::ARENA_BYTES, 8 * words.len() as u64),
        (field::TEXT_BYTES, text.len() as u64),
        (field::TARGET_BYTES, 7),
        (field::PROGRAM_BYTES, 2),
    ];
    for (offset, number) in numbers {
        set(&mut bytes, offset, number);
    }
    bytes
}

fn set(bytes: &mut [u8], offset: usize, number: u64) {
    bytes[offset..offset + 8].copy_from_slice(&number.to_ne_bytes());
}

fn marked(depth: u64) -> u64 {
    MARK_OF_8 | depth
}

fn records(words: &[u64]) -> Vec<(u64, Vec<u64>)> {
    let spool = spool(words);
    let records = Head::read(&spool).unwrap().records(&spool).unwrap();
    records.into_iter().map(|record| (record.count, record.pcs)).collect()
}

#[test]
fn reads_the_thread_of_a_record_if_the_session_is_by_thread() {
    let mut bytes = spool(&[3, marked(2), 10, 2, 1, marked(3), 12, 13, 9, 4, marked(1), 2]);
    let record = |count, pcs: &[u64], thread| SpooledRecord { count, pcs: pcs.to_vec(), thread };
    let head = Head::read(&bytes).unwrap();
    assert_eq!(head.threads(&bytes).unwrap(), []);
    assert_eq!(head.records(&bytes).unwrap()[0], record(3, &[10, 2], 0));
    set(&mut bytes, field::IS_BY_THREAD, 1);
    set(&mut bytes, THREADS, 77);
    bytes[THREADS + 8..][..3].copy_from_slice(b"one");
    set(&mut bytes, THREADS + 7 * THREAD_BYTES, u64::MAX);
    let head = Head::read(&bytes).unwrap();
    assert_eq!(head.records(&bytes).unwrap(), [record(3, &[10], 2), record(1, &[12, 13], 9)]);
    let threads = head.threads(&bytes).unwrap();
    let found = thread_of(&threads, 2).map(|thread| (thread.id, thread.name.to_string()));
    assert_eq!(found, Some((77, "one".to_owned())));
    for word in [0, 1, 3, 9, 2 + MAX_THREADS as u64, u64::MAX] {
        assert_eq!(thread_of(&threads, word), None, "{word}");
    }
}

#[test]
fn reads_process_paths_and_ancestors_from_the_head() {
    let head = Head::read(&spool(&[])).unwrap();
    assert_eq!((head.process, head.period_micros, head.is_complete), (17, 10_000, false));
    assert_eq!((head.target.as_slice(), head.program.as_slice()), (&b"/t/prof"[..], &b"/p"[..]));
    assert!(head.ancestors.is_empty());
    let ancestors = (1..7).fold(Ancestors::default(), Ancestors::of_child);
    assert_eq!(ancestors, Ancestors([6, 5, 4, 3]));
}

#[test]
fn reads_the_figures_of_an_ended_session() {
    let figures = EndFigures {
        elapsed_nanos: 1,
        cpu_nanos: 2,
        unaccounted_nanos: 3,
        interrupted_nanos: 4,
        blocking_threads: 5,
        timers_refused: 6,
        walks: 7,
        complete_walks: 8,
        lost: 9,
        no_samples: 10,
        clock: 11,
    };
    let mut bytes = spool(&[]);
    assert_eq!(Head::read(&bytes).unwrap().figures, None);
    for (i, word) in figures.words().into_iter().enumerate() {
        set(&mut bytes, field::FIGURES + 8 * i, word);
    }
    let head = Head::read(&bytes).unwrap();
    assert_eq!((head.figures, head.target.as_slice()), (Some(figures), &b"/t/prof"[..]));
    for (state, is_ended, is_replaced) in
        [(SpoolState::Ended, true, false), (SpoolState::Replaced, false, true)]
    {
        set(&mut bytes, field::STATE, state as u64);
        let head = Head::read(&bytes).unwrap();
        assert_eq!((head.is_ended, head.is_replaced), (is_ended, is_replaced));
    }
}

#[test]
fn reads_the_last_list_of_mappings_instead_of_the_first() {
    let mut bytes = spool(&[]);
    let head = Head::read(&bytes).unwrap();
    let before = head.text_bytes as usize;
    let list = b"3000-4000 r-xp 00000000 00:00 0    /end\n";
    bytes[TEXT + before..][..list.len()].copy_from_slice(list);
    set(&mut bytes, field::TEXT_BYTES, (before + list.len()) as u64);
    let names = |bytes: &Vec<u8>| -> Vec<Vec<u8>> {
        let mappings = Head::read(bytes).unwrap().mappings(bytes).unwrap();
        mappings.into_iter().map(|mapping| mapping.path.into_owned()).collect()
    };
    assert!(names(&bytes).contains(&b"/start".to_vec()), "until the head says so");
    set(&mut bytes, field::TEXT_FROM, before as u64);
    assert_eq!(names(&bytes), [b"/end"]);
    for from in [TEXT_BYTES as u64, u64::MAX] {
        set(&mut bytes, field::TEXT_FROM, from);
        assert_eq!(names(&bytes), [b""; 0]);
    }
}

#[test]
fn reads_consecutive_records() {
    assert_eq!(records(&[3, marked(2), 10, 11, 1, marked(1), 12]), [(3, vec![10, 11]), (1, vec![12])]);
}

#[test]
fn skips_records_that_were_not_counted_or_not_filled() {
    let uncounted = [0, marked(3), 10, 0, 0];
    let unfilled = [0; 7];
    let half_filled = [3, marked(2), 7, 0];
    let words =
        [&[2, marked(1), 5][..], &uncounted, &unfilled, &half_filled, &[4, marked(1), 6], &unfilled].concat();
    assert_eq!(records(&words), [(2, vec![5]), (4, vec![6])]);
}

#[test]
fn ignores_a_record_that_the_end_of_the_file_truncates() {
    assert_eq!(records(&[2, marked(1), 5, 2, marked(3), 5, 6]), [(2, vec![5])]);
    assert_eq!(records(&[2, marked(1), 5, 2]), [(2, vec![5])]);
}

#[test]
fn ignores_records_with_an_invalid_depth() {
    assert_eq!(records(&[1, marked(0), 1, marked(4097), 2, marked(1), 9]), [(2, vec![9])]);
}

#[test]
fn ignores_mappings_that_are_out_of_order() {
    let mut bytes = spool(&[]);
    let text = b"5000-6000 r-xp 0 0:0 1 /a\n1000-9000 r-xp 0 0:0 2 /b\n5000-6000 r-xp 0 0:0 3 /c\n6000-7000 r-xp 0 0:0 4 /d\n";
    bytes[TEXT..TEXT + text.len()].copy_from_slice(text);
    set(&mut bytes, field::TEXT_BYTES, text.len() as u64);
    let mappings = Head::read(&bytes).unwrap().mappings(&bytes).unwrap();
    let paths: Vec<&[u8]> = mappings.iter().map(|mapping| &*mapping.path).collect();
    assert_eq!(paths, [b"/a", b"/d"]);
}

#[test]
fn lists_later_objects_after_the_first_mappings() {
    let mut bytes = spool(&[]);
    let mut put = |i: usize, state: u64, start: u64, name: &[u8]| {
        let at = OBJECTS + i * OBJECT_BYTES;
        for (j, number) in [state, name.len() as u64, 1, start, start + 0x1000, 0x40].into_iter().enumerate()
        {
            set(&mut bytes, at + 8 * j, number);
        }
        let name_at = at + 8 * (3 + 3 * OBJECT_SEGMENTS);
        bytes[name_at..name_at + name.len()].copy_from_slice(name);
    };
    put(0, 3, 0x9000, b"/newer, met again");
    put(1, 0, 0xa000, b"/not complete");
    put(2, 1, 0x1800, b"/over the start");
    put(3, 2, 0x9000, b"/older");
    put(4, 4, 0xc000, b"/beyond the count");
    set(&mut bytes, field::OBJECTS, 4);
    let mappings = Head::read(&bytes).unwrap().mappings(&bytes).unwrap();
    let shown = |m: &Mapping<'_>| {
        (m.start, m.end, m.offset, m.is_executable(), String::from_utf8_lossy(&m.path).into_owned())
    };
    let expected = [
        // The part that the later object covers is cut off.
        (0x1000, 0x1800, 0, true, "/start"),
        (0x5000, 0x6000, 0, false, ""),
        (0x9000, 0xa000, 0x40, true, "/newer, met again"),
        (0x1800, 0x2800, 0x40, true, "/over the start"),
    ];
    let seen: Vec<_> = mappings.iter().map(shown).collect();
    assert_eq!(seen, expected.map(|(start, end, offset, x, path)| (start, end, offset, x, path.to_owned())));
}

#[test]
fn returns_the_owner_of_an_empty_or_complete_spool() {
    let with = |offset: usize, number: u64, words: &[u64]| {
        let mut bytes = spool(words);
        set(&mut bytes, offset, number);
        owner_of_empty(&bytes).map(|owner| owner.process)
    };
    assert_eq!(with(field::PROCESS_START, 3, &[]), Some(17));
    assert_eq!(with(field::PROCESS_START, 3, &[1]), None);
    assert_eq!(with(field::STATE, SpoolState::Complete as u64, &[1]), Some(17));
    assert_eq!(with(field::VERSION, VERSION + 1, &[]), None);
    assert!(owner_of_empty(&[]).is_none());
}

#[test]
fn refuses_invalid_heads() {
    let refused = |offset: usize, number: u64| {
        let mut bytes = spool(&[]);
        set(&mut bytes, offset, number);
        Head::read(&bytes).unwrap_err()
    };
    assert!(matches!(refused(field::MAGIC, 1), SpoolError::NoSpool));
    assert!(matches!(refused(field::MAGIC, MAGIC.swap_bytes()), SpoolError::OtherVersion));
    assert!(matches!(refused(field::VERSION, VERSION + 1), SpoolError::OtherVersion));
    assert!(matches!(refused(field::STATE, 0), SpoolError::NoSpool));
    for (offset, number) in [
        (field::WORD_BYTES, 5),
        (field::PROCESS, 1 << 32),
        (field::PERIOD_MICROS, 0),
        (field::TARGET_BYTES, 4097),
    ] {
        assert!(matches!(refused(offset, number), SpoolError::Damaged(_)), "{offset}");
    }
    assert!(matches!(Head::read(&Vec::new()), Err(SpoolError::NoSpool)));
}
