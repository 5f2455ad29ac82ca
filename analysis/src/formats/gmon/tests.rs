use super::*;

const LAYOUTS: [Layout; 4] = [
    Layout { is_big_endian: false, is_64_bit: true },
    Layout { is_big_endian: true, is_64_bit: true },
    Layout { is_big_endian: false, is_64_bit: false },
    Layout { is_big_endian: true, is_64_bit: false },
];
const X86_64: Layout = LAYOUTS[0];

fn example() -> Gmon {
    Gmon {
        histograms: vec![
            Histogram { low: 0x1000, high: 0x1008, bins: vec![0, 70_000, 65_535, 200_000] },
            Histogram { low: 0x2000, high: 0x2004, bins: vec![1, 2] },
        ],
        dimension: Some(Dimension::seconds(1000)),
        arcs: vec![
            CallArc { from: 0x1002, callee: 0x2000, count: 7 },
            CallArc { from: 0x1004, callee: 0x2000, count: 0 },
            CallArc { from: 0x1006, callee: 0x1000, count: 12_000_000_000 },
        ],
        blocks: vec![Block { address: 0x1000, count: 3 }, Block { address: 0x1004, count: 5 }],
    }
}

fn written(gmon: &Gmon, layout: Layout) -> Vec<u8> {
    let mut bytes = Vec::new();
    gmon.write(layout, &mut bytes).expect("the values fit");
    bytes
}

fn read(bytes: &[u8], layout: Layout, format: FileFormat) -> Result<(Gmon, FileInfo), Error> {
    let mut gmon = Gmon::default();
    let info = gmon.read(bytes, layout, format)?;
    Ok((gmon, info))
}

#[test]
fn reads_what_it_writes_in_each_layout() {
    for layout in LAYOUTS {
        let bytes = written(&example(), layout);
        let (mut gmon, info) = read(&bytes, layout, FileFormat::Auto).expect("it was just written");
        // 200 000 samples need four records of 65 535, and 12 000 000 000 calls need three of 2^32 - 1.
        assert_eq!(info, FileInfo { version: Some(1), histograms: 5, arcs: 5, blocks: 1 }, "{layout:?}");
        gmon.merge_repeated();
        assert_eq!(gmon, example(), "{layout:?}");
    }
}

#[test]
fn bytes_are_as_documented() {
    let gmon = Gmon {
        histograms: vec![Histogram { low: 0x10, high: 0x14, bins: vec![1, 0x203] }],
        dimension: Some(Dimension { rate: 100, unit: "bytes".into(), abbreviation: 'B' }),
        arcs: vec![CallArc { from: 1, callee: 2, count: 3 }],
        blocks: vec![Block { address: 4, count: 5 }],
    };
    let mut expected = b"gmon\x01\0\0\0".to_vec();
    expected.extend([0; 12]);
    expected.extend(b"\0\x10\0\0\0\x14\0\0\0\x02\0\0\0\x64\0\0\0bytes\0\0\0\0\0\0\0\0\0\0B\x01\0\x03\x02");
    expected.extend(b"\x01\x01\0\0\0\x02\0\0\0\x03\0\0\0");
    expected.extend(b"\x02\x01\0\0\0\x04\0\0\0\x05\0\0\0");
    assert_eq!(written(&gmon, LAYOUTS[2]), expected);
}

#[test]
fn reads_headers_of_bsd() {
    let mut bsd = Vec::new();
    let number = |out: &mut Vec<u8>, value: u64, bytes: usize| out.extend(&value.to_le_bytes()[..bytes]);
    for (value, bytes) in [(0x1000, 8), (0x1008, 8), (20 + 8, 4), (1, 2), (2, 2), (3, 2), (4, 2)] {
        number(&mut bsd, value, bytes);
    }
    for value in [0x1002, 0x1004, 5_000_000_000] {
        number(&mut bsd, value, 8);
    }
    let (gmon, info) = read(&bsd, X86_64, FileFormat::Auto).expect("the header is correct");
    assert_eq!(info, FileInfo { version: None, histograms: 1, arcs: 1, blocks: 0 });
    assert_eq!(gmon.histograms, [Histogram { low: 0x1000, high: 0x1008, bins: vec![1, 2, 3, 4] }]);
    assert_eq!(gmon.arcs, [CallArc { from: 0x1002, callee: 0x1004, count: 5_000_000_000 }]);
    assert_eq!(gmon.dimension, Some(Dimension::seconds(100)));

    let mut bsd44 = Vec::new();
    for (value, bytes) in [(0x1000, 8), (0x1004, 8), (40 + 4, 4), (0x51879, 4), (250, 4)] {
        number(&mut bsd44, value, bytes);
    }
    bsd44.extend([0; 12]);
    bsd44.extend([9, 0, 8, 0]);
    let (gmon, _) = read(&bsd44, X86_64, FileFormat::Auto).expect("the header is correct");
    assert_eq!(gmon.histograms, [Histogram { low: 0x1000, high: 0x1004, bins: vec![9, 8] }]);
    assert_eq!(gmon.dimension, Some(Dimension::seconds(250)));
    read(&bsd44, X86_64, FileFormat::Bsd44).expect("it has this format");
    read(&bsd44, X86_64, FileFormat::Gmon).expect_err("it has another format");
}

#[test]
fn damaged_files_are_errors() {
    let bytes = written(&example(), X86_64);
    let records: Vec<usize> =
        (0..bytes.len()).filter(|&length| read(&bytes[..length], X86_64, FileFormat::Auto).is_ok()).collect();
    // A file without its last records cannot be recognised as incomplete.
    assert_eq!(records.len(), 11, "{records:?}");
    let fails = |place: usize, value: u8, part: &str| {
        let mut bytes = bytes.clone();
        bytes[place] = value;
        let error = read(&bytes, X86_64, FileFormat::Auto).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    fails(4, 2, "unsupported version 2");
    fails(20, 7, "at offset 20: unknown record with tag 7");
    // The range of the second histogram.
    let second = 20 + 4 * (1 + 40 + 8);
    assert_eq!(bytes[second..second + 10], [0, 0, 0x20, 0, 0, 0, 0, 0, 0, 4]);
    fails(second + 2, 0x0f, "overlapping histograms");
    fails(second + 9, 0x44, "have bins of different sizes");
    let other =
        Gmon { dimension: Some(Dimension { unit: "bytes".into(), ..Dimension::seconds(100) }), ..example() };
    let error = example().read(&written(&other, X86_64), X86_64, FileFormat::Auto).expect_err("mixed units");
    assert!(error.to_string().contains("of bytes"), "{error}");
    let error = read(b"cpu", X86_64, FileFormat::Auto).expect_err("too short").to_string();
    assert!(error.contains("not a gmon.out file"), "{error}");
}

#[test]
fn does_not_write_what_does_not_fit() {
    let mut gmon = example();
    gmon.arcs[0].from = 1 << 40;
    gmon.write(LAYOUTS[2], &mut Vec::new()).expect_err("the address has more than 4 bytes");
    gmon.arcs[0].count = u64::MAX;
    gmon.write(X86_64, &mut Vec::new()).expect_err("it would take four billion records");
}
