//! Databases for tests, made byte by byte with the offsets of FORMATS.md: a second implementation
//! of the format.
//!
//! The tree, with the own seconds of two threads; rank 1 has no second thread:
//!
//! ```text
//! main thread (1)
//!   main (2), a.c:10 in /bin/prog
//!     a.c:12 (3)                       0.25   0
//!       helper (4), inlined, a.h:5
//!         a.h:7 (5)                    0.5    1
//!     loop at a.c:14 (6)
//!       a.c:15 (7)
//!         <unknown> (8), /lib/x.so + 0x880
//!           /lib/x.so + 0x8a4 (9)      0      2
//! unknown entry (10)
//!   /lib/x.so + 0x10 (11)              0.125  0
//! ```

use std::collections::HashMap;

/// What differs from the simplest database.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Oddity {
    /// Records with later fields, and a later minor version.
    pub(super) is_later: bool,
    /// Gaps, reserved bytes and pointers of empty arrays contain garbage.
    pub(super) has_garbage: bool,
    /// Blocks of values in another order.
    pub(super) is_shuffled: bool,
    /// Values of the scope `point` are attributed to contexts that meta.db does not have.
    pub(super) has_elided_contexts: bool,
    /// The unknown function has no name, not even `<unknown procedure>`.
    pub(super) is_unnamed: bool,
    /// Only this scope is there, besides the custom one.
    pub(super) only_scope: Option<&'static str>,
}

/// A database in memory, and the offsets of some structures.
pub(super) struct Made {
    pub(super) meta: Vec<u8>,
    pub(super) profile: Vec<u8>,
    pub(super) context: Vec<u8>,
    pub(super) trace: Vec<u8>,
    pub(super) at: HashMap<&'static str, usize>,
}

/// Own values by context, of each thread.
const OWN: [(u32, [f64; 2]); 4] = [(3, [0.25, 0.0]), (5, [0.5, 1.0]), (9, [0.0, 2.0]), (11, [0.125, 0.0])];
/// Parent of each context; 0 for the implicit one.
const PARENTS: [u32; 12] = [0, 0, 1, 2, 3, 4, 2, 6, 7, 8, 0, 10];
/// Contexts that are included in their parents by the scope `function`.
const IS_LEXICAL: [bool; 12] =
    [false, false, false, true, false, true, true, true, false, true, false, false];
const SCOPES: [(&str, u8, u8); 4] =
    [("point", 1, 255), ("function", 3, 0), ("lex_aware", 0, 255), ("execution", 2, 255)];
const KINDS: [&str; 8] =
    ["SUMMARY", "NODE", "RANK", "THREAD", "GPUDEVICE", "GPUCONTEXT", "GPUSTREAM", "CORE"];

enum Field {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F64(f64),
}
use Field::{F64, U8, U16, U32, U64};

struct Out {
    bytes: Vec<u8>,
    fill: u8,
}

impl Out {
    fn new(format: &[u8; 4], odd: Oddity, head: usize) -> Self {
        let mut bytes = b"HPCTOOLKIT".to_vec();
        bytes.extend(format);
        bytes.extend([4, if odd.is_later { 9 } else { 0 }]);
        let fill = if odd.has_garbage { 0xaa } else { 0 };
        bytes.resize(head, fill);
        Self { bytes, fill }
    }

    fn align(&mut self, alignment: usize) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), self.fill);
        self.bytes.len()
    }

    fn put(&mut self, at: usize, field: &Field) {
        let bytes = match field {
            U8(value) => value.to_le_bytes().to_vec(),
            U16(value) => value.to_le_bytes().to_vec(),
            U32(value) => value.to_le_bytes().to_vec(),
            U64(value) => value.to_le_bytes().to_vec(),
            F64(value) => value.to_le_bytes().to_vec(),
        };
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    /// Appends a structure of `size` bytes; returns its offset.
    fn record(&mut self, size: usize, fields: &[(usize, Field)]) -> u64 {
        let at = self.bytes.len();
        self.bytes.resize(at + size, self.fill);
        for (offset, field) in fields {
            self.put(at + offset, field);
        }
        at as u64
    }

    fn text(&mut self, text: &str) -> u64 {
        let at = self.bytes.len();
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        at as u64
    }

    /// Sets the pointer and size of a section that ends here.
    fn section(&mut self, number: usize, start: usize) {
        let size = self.bytes.len() - start;
        self.put(0x10 + 16 * number, &U64(size as u64));
        self.put(0x18 + 16 * number, &U64(start as u64));
        self.align(8);
    }

    fn finish(mut self, footer: &[u8; 8]) -> Vec<u8> {
        self.bytes.extend(footer);
        self.bytes
    }
}

pub(super) fn made(odd: Oddity) -> Made {
    let mut at = HashMap::new();
    let meta = meta(odd, &mut at);
    let values = values(odd);
    let profile = profile(odd, &values, &mut at);
    let context = context(odd, &values, &mut at);
    let trace = trace(odd, &mut at);
    Made { meta, profile, context, trace, at }
}

fn scopes(odd: Oddity) -> Vec<usize> {
    let has = |name: &str| odd.only_scope.is_none_or(|only| only == name || name == "lex_aware");
    (0..SCOPES.len()).filter(|&scope| has(SCOPES[scope].0)).collect()
}

fn meta(odd: Oddity, at: &mut HashMap<&'static str, usize>) -> Vec<u8> {
    let more = if odd.is_later { 8 } else { 0 };
    // A later file has another section.
    let mut out = Out::new(b"meta", odd, 0x90 + 2 * more);
    let start = out.align(8);
    at.insert("General", start);
    out.record(0x10 + more, &[]);
    let (title, description) = (out.text("prog"), out.text("made by a test"));
    out.put(start, &U64(title));
    out.put(start + 8, &U64(description));
    out.section(0, start);

    let start = out.align(8);
    out.record(0x10 + more, &[(8, U8(KINDS.len() as u8))]);
    let names = out.record(8 * KINDS.len(), &[]);
    for (place, kind) in KINDS.iter().enumerate() {
        let name = out.text(kind);
        out.put(names as usize + 8 * place, &U64(name));
    }
    out.put(start, &U64(names));
    at.insert("kinds", names as usize);
    out.section(1, start);

    let start = out.align(8);
    let sizes = [0x20, 0x10, 0x18, 0x10].map(|size| size + more);
    let [metric_size, instance_size, summary_size, scope_size] = sizes;
    let used = scopes(odd);
    out.record(
        0x20 + more,
        &[
            (8, U32(1)),
            (0xc, U8(metric_size as u8)),
            (0xd, U8(instance_size as u8)),
            (0xe, U8(summary_size as u8)),
            (0x18, U16(used.len() as u16)),
            (0x1a, U8(scope_size as u8)),
        ],
    );
    at.insert("Metrics", start);
    let (name, formula) = (out.text("CPUTIME (sec)"), out.text("$$"));
    let names: Vec<u64> = used.iter().map(|&scope| out.text(SCOPES[scope].0)).collect();
    let scopes_at = out.align(8);
    for (&scope, name) in used.iter().zip(names) {
        let (_, kind, index) = SCOPES[scope];
        out.record(scope_size, &[(0, U64(name)), (8, U8(kind)), (9, U8(index))]);
    }
    let scope_at = |place: usize| (scopes_at + place * scope_size) as u64;
    let instances = out.align(8);
    for (place, &scope) in used.iter().enumerate() {
        out.record(instance_size, &[(0, U64(scope_at(place))), (8, U16(scope as u16))]);
    }
    let summaries = out.align(8);
    for (place, &scope) in used.iter().enumerate() {
        let fields = [(0, U64(scope_at(place))), (8, U64(formula)), (0x10, U8(0)), (0x12, U16(scope as u16))];
        out.record(summary_size, &fields);
    }
    let metric = out.record(
        metric_size,
        &[
            (0, U64(name)),
            (8, U64(instances as u64)),
            (0x10, U64(summaries as u64)),
            (0x18, U16(used.len() as u16)),
            (0x1a, U16(used.len() as u16)),
        ],
    );
    out.put(start, &U64(metric));
    out.put(start + 0x10, &U64(scopes_at as u64));
    at.insert("scopes", scopes_at);
    at.insert("instances", instances);
    at.insert("summaries", summaries);
    out.section(2, start);

    let start = out.align(8);
    let mut strings = HashMap::new();
    for text in [
        "/bin/prog",
        "/lib/x.so",
        "src/work/a.c",
        "/work/a.h",
        "[x.so]",
        "main [prog]",
        "helper",
        "<unknown procedure> 0x880 [x.so]",
        "main thread",
        "unknown entry",
    ] {
        strings.insert(text, out.text(text));
    }
    at.insert("Strings", start);
    out.section(4, start);

    let list = |out: &mut Out, number: usize, size: usize, rows: Vec<Vec<(usize, Field)>>| {
        let start = out.align(8);
        out.record(0x10 + more, &[(8, U32(rows.len() as u32)), (0xc, U16(size as u16))]);
        let first = out.align(8);
        for row in rows {
            out.record(size, &row);
        }
        out.put(start, &U64(first as u64));
        out.section(number, start);
        move |place: usize| (first + place * size) as u64
    };
    let path = |text: &str, flags: u32| vec![(0, U32(flags)), (8, U64(strings[text]))];
    let module = list(&mut out, 5, 0x10 + more, vec![path("/bin/prog", 0), path("/lib/x.so", 0)]);
    let files = vec![path("src/work/a.c", 1), path("/work/a.h", 0), path("[x.so]", 0)];
    let file = list(&mut out, 6, 0x10 + more, files);
    let function = |name: u64, module: u64, offset: u64, file: u64, line: u32| {
        vec![
            (0, U64(name)),
            (8, U64(module)),
            (0x10, U64(offset)),
            (0x18, U64(file)),
            (0x20, U32(line)),
            (0x24, U32(0)),
        ]
    };
    let unknown = if odd.is_unnamed { 0 } else { strings["<unknown procedure> 0x880 [x.so]"] };
    let functions = vec![
        function(strings["main [prog]"], module(0), 0x1100, file(0), 10),
        function(strings["helper"], module(0), 0, file(1), 5),
        function(unknown, module(1), 0x880, file(2), 0),
    ];
    let function = list(&mut out, 7, 0x28 + more, functions);
    at.extend([
        ("module", module(0) as usize),
        ("file", file(0) as usize),
        ("function", function(0) as usize),
    ]);

    // Children before their parents.
    let start = out.align(8);
    out.record(0x10 + more, &[(8, U16(2)), (0xa, U8(0x20 + more as u8))]);
    struct Node {
        id: u32,
        flags: u8,
        relation: u8,
        lexical: u8,
        words: Vec<u64>,
    }
    let context = |out: &mut Out, node: Node, children: (u64, u64)| {
        let later = if odd.is_later { 1 } else { 0 };
        let at = out.record(
            0x20 + 8 * (node.words.len() + later),
            &[
                (0, U64(children.1)),
                (8, U64(children.0)),
                (0x10, U32(node.id)),
                (0x14, U8(node.flags)),
                (0x15, U8(node.relation)),
                (0x16, U8(node.lexical)),
                (0x17, U8((node.words.len() + later) as u8)),
                (0x18, U16(u16::from(IS_LEXICAL[node.id as usize]))),
            ],
        );
        for (place, &word) in node.words.iter().enumerate() {
            out.put(at as usize + 0x20 + 8 * place, &U64(word));
        }
        (at, out.bytes.len() as u64 - at)
    };
    let garbage = if odd.has_garbage { 0xaaaa_aaaa_0000_0000 } else { 0 };
    let line = |file: u64, line: u64| vec![file, line | garbage];
    let node = |id: u32, flags: u8, relation: u8, lexical: u8, words: Vec<u64>| Node {
        id,
        flags,
        relation,
        lexical,
        words,
    };
    let nine = context(&mut out, node(9, 4, 0, 3, vec![module(1), 0x8a4]), (0, 0));
    let eight = context(&mut out, node(8, 1, 1, 0, vec![function(2)]), nine);
    let seven = context(&mut out, node(7, 2, 0, 2, line(file(0), 15)), eight);
    let five = context(&mut out, node(5, 2, 0, 2, line(file(1), 7)), (0, 0));
    let four = context(&mut out, node(4, 1, 2, 0, vec![function(1)]), five);
    let three = context(&mut out, node(3, 2, 0, 2, line(file(0), 12)), four);
    let six = context(&mut out, node(6, 2, 0, 1, line(file(0), 14)), seven);
    let two = context(&mut out, node(2, 1, 1, 0, vec![function(0)]), (three.0, three.1 + six.1));
    let eleven = context(&mut out, node(11, 4, 1, 3, vec![module(1), 0x10]), (0, 0));
    let entry = |id: u32, kind: u16, name: &str, children: (u64, u64)| {
        vec![
            (0, U64(children.1)),
            (8, U64(children.0)),
            (0x10, U32(id)),
            (0x14, U16(kind)),
            (0x18, U64(strings[name])),
        ]
    };
    let entries = out.record(0x20 + more, &entry(1, 1, "main thread", two));
    out.record(0x20 + more, &entry(10, 0, "unknown entry", eleven));
    out.put(start, &U64(entries));
    at.extend([("entries", entries as usize), ("main", two.0 as usize), ("line 12", three.0 as usize)]);
    at.extend([("loop", six.0 as usize), ("instruction", nine.0 as usize)]);
    out.section(3, start);
    out.finish(b"_meta.db")
}

/// (thread, context, scope, value), sorted.
type Values = Vec<(usize, u32, usize, f64)>;

fn values(odd: Oddity) -> Values {
    let mut values = Values::new();
    for thread in 0..2 {
        let mut sums = [[0.0; 4]; 12];
        for (context, own) in OWN {
            let own = own[thread];
            if odd.has_elided_contexts && own != 0.0 {
                values.push((thread, 100 + context, 0, own));
            } else {
                sums[context as usize][0] += own;
            }
            let (mut context, mut is_in_function) = (context, true);
            loop {
                sums[context as usize][3] += own;
                if is_in_function && !matches!(context, 0 | 1 | 10) {
                    sums[context as usize][1] += own;
                    sums[context as usize][2] += own;
                }
                is_in_function &= IS_LEXICAL[context as usize];
                if context == 0 {
                    break;
                }
                context = PARENTS[context as usize];
            }
        }
        for (context, sums) in sums.iter().enumerate() {
            for (scope, &value) in sums.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                values.push((thread, context as u32, scope, value));
            }
        }
    }
    values.retain(|value| scopes(odd).contains(&value.2));
    values.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    values
}

fn profile(odd: Oddity, values: &Values, at: &mut HashMap<&'static str, usize>) -> Vec<u8> {
    let more = if odd.is_later { 8 } else { 0 };
    let size = 0x30 + more;
    let mut out = Out::new(b"prof", odd, 0x30);
    let start = out.align(8);
    out.record(0x10, &[(8, U32(3)), (0xc, U8(size as u8))]);
    let infos = out.record(3 * size, &[]) as usize;
    out.put(start, &U64(infos as u64));
    out.section(0, start);
    let start = out.align(8);
    let tuple = |out: &mut Out, rank: u32| {
        let at = out.record(8, &[(0, U16(3))]);
        let ids =
            [(1, 1, 0, 0xa8c0_1234), (2, 0, rank, u64::from(rank)), (3, 0, 1 - rank, u64::from(1 - rank))];
        for (kind, flags, logical, physical) in ids {
            out.record(16, &[(0, U8(kind)), (2, U16(flags)), (4, U32(logical)), (8, U64(physical))]);
        }
        at
    };
    let tuples = [tuple(&mut out, 0), tuple(&mut out, 1)];
    out.section(1, start);
    let mut order = [0, 1, 2];
    if odd.is_shuffled {
        order.reverse();
    }
    for place in order {
        let block: Vec<(u32, usize, f64)> = if place == 0 {
            let mut sums: Vec<(u32, usize, f64)> = Vec::new();
            let mut all: Vec<_> =
                values.iter().map(|&(_, context, scope, value)| (context, scope, value)).collect();
            all.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
            for (context, scope, value) in all {
                match sums.last_mut() {
                    Some(last) if (last.0, last.1) == (context, scope) => last.2 += value,
                    _ => sums.push((context, scope, value)),
                }
            }
            sums
        } else {
            let of_thread = values.iter().filter(|value| value.0 + 1 == place);
            of_thread.map(|&(_, context, scope, value)| (context, scope, value)).collect()
        };
        let values_at = out.align(2);
        for &(_, scope, value) in &block {
            out.record(10, &[(0, U16(scope as u16)), (2, F64(value))]);
        }
        let index_at = out.align(4);
        let mut count = 0_u32;
        for (first, of_context) in block.iter().enumerate() {
            if first == 0 || block[first - 1].0 != of_context.0 {
                out.record(12, &[(0, U32(of_context.0)), (4, U64(first as u64))]);
                count += 1;
            }
        }
        let info = infos + place * size;
        out.put(info, &U64(block.len() as u64));
        out.put(info + 8, &U64(values_at as u64));
        out.put(info + 0x10, &U32(count));
        out.put(info + 0x18, &U64(index_at as u64));
        out.put(info + 0x20, &U64(if place == 0 { 0 } else { tuples[place - 1] }));
        out.put(info + 0x28, &U32(u32::from(place == 0)));
        if place == 1 {
            at.extend([("values", values_at), ("index", index_at)]);
        }
    }
    at.extend([("infos", infos), ("info", infos + size), ("tuple", tuples[0] as usize)]);
    out.finish(b"_prof.db")
}

fn context(odd: Oddity, values: &Values, at: &mut HashMap<&'static str, usize>) -> Vec<u8> {
    let more = if odd.is_later { 8 } else { 0 };
    let size = 0x20 + more;
    // hpcprof reserves 16 bytes after the header.
    let mut out = Out::new(b"ctxt", odd, if odd.has_garbage { 0x30 } else { 0x20 });
    let start = out.align(8);
    let count = values.iter().map(|value| value.1 + 1).max().unwrap_or(0).max(12);
    out.record(0x10, &[(8, U32(count)), (0xc, U8(size as u8))]);
    let infos = out.record(count as usize * size, &[]) as usize;
    out.put(start, &U64(infos as u64));
    out.section(0, start);
    let mut order: Vec<u32> = (0..count).collect();
    if odd.is_shuffled {
        order.reverse();
    }
    for id in order {
        let mut block: Vec<(usize, usize, f64)> = values
            .iter()
            .filter(|value| value.1 == id)
            .map(|&(thread, _, scope, value)| (scope, thread, value))
            .collect();
        block.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        let values_at = out.align(4);
        for &(_, thread, value) in &block {
            out.record(12, &[(0, U32(thread as u32 + 1)), (4, F64(value))]);
        }
        let index_at = out.align(2);
        let mut metrics = 0_u16;
        for (first, of_metric) in block.iter().enumerate() {
            if first == 0 || block[first - 1].0 != of_metric.0 {
                out.record(10, &[(0, U16(of_metric.0 as u16)), (2, U64(first as u64))]);
                metrics += 1;
            }
        }
        let info = infos + id as usize * size;
        out.put(info, &U64(block.len() as u64));
        out.put(info + 8, &U64(values_at as u64));
        out.put(info + 0x10, &U16(metrics));
        out.put(info + 0x18, &U64(index_at as u64));
        if id == 5 {
            at.extend([("context info", info), ("context values", values_at), ("context index", index_at)]);
        }
    }
    at.insert("contexts", start);
    out.finish(b"__ctx.db")
}

fn trace(odd: Oddity, at: &mut HashMap<&'static str, usize>) -> Vec<u8> {
    let size = if odd.is_later { 0x20 } else { 0x18 };
    let mut out = Out::new(b"trce", odd, 0x20);
    let start = out.align(8);
    out.record(0x20, &[(8, U32(2)), (0xc, U8(size as u8)), (0x10, U64(1_000)), (0x18, U64(5_000))]);
    let traces = out.record(2 * size, &[]) as usize;
    out.put(start, &U64(traces as u64));
    out.section(0, start);
    for (place, samples) in
        [[(1_000, 3), (2_000, 5), (3_000, 0)], [(1_500, 9), (4_000, 0), (5_000, 5)]].iter().enumerate()
    {
        let first = out.align(8);
        for &(nanos, context) in samples {
            out.record(12, &[(0, U64(nanos)), (8, U32(context))]);
        }
        let trace = traces + place * size;
        out.put(trace, &U32(place as u32 + 1));
        out.put(trace + 8, &U64(first as u64));
        let end = out.bytes.len() as u64;
        out.put(trace + 0x10, &U64(end));
        if place == 0 {
            at.extend([("trace", trace), ("trace samples", first)]);
        }
    }
    at.insert("traces", start);
    out.finish(b"trace.db")
}
