//! HPCToolkit databases of about a megabyte: trees that are deep, shared or wide.

use std::{fs, path::Path};

/// A database file in memory, with the sections of its header.
pub(crate) struct DbFile {
    bytes: Vec<u8>,
}

impl DbFile {
    fn new(format: &[u8; 4], sections: usize) -> Self {
        let mut bytes = [&b"HPCTOOLKIT"[..], format, &[4, 0]].concat();
        bytes.resize(16 + 16 * sections, 0);
        Self { bytes }
    }

    /// Appends 8-byte words at a multiple of 8, and returns their offset.
    fn put(&mut self, words: &[u64]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let start = self.bytes.len() as u64;
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        start
    }

    fn text(&mut self, text: &str) -> u64 {
        let start = self.bytes.len() as u64;
        self.bytes.extend([text.as_bytes(), b"\0"].concat());
        start
    }

    fn section(&mut self, number: usize, start: u64, size: u64) {
        let at = 16 + 16 * number;
        self.bytes[at..at + 8].copy_from_slice(&size.to_le_bytes());
        self.bytes[at + 8..at + 16].copy_from_slice(&start.to_le_bytes());
    }
}

/// Contexts under one entry point: each has the offset and size of its children.
pub(crate) type Contexts = fn(&mut DbFile, function: u64) -> (u64, u64);

/// Appends a function's context, a call; returns its offset.
fn context(meta: &mut DbFile, id: u32, children: (u64, u64), function: u64) -> u64 {
    // flags: a function; relation: a call; one word follows.
    let kinds = u64::from(id) | 1 << 32 | 1 << 40 | 1 << 56;
    meta.put(&[children.1, children.0, kinds, 0, function])
}

const CONTEXT_BYTES: u64 = 40;
const COUNT: u32 = 20_000;

/// Calls in one another: their stacks have 200 million frames.
pub(crate) fn chain(meta: &mut DbFile, function: u64) -> (u64, u64) {
    (1..=COUNT).fold((0, 0), |children, id| (context(meta, id, children, function), CONTEXT_BYTES))
}

/// Pairs with the same children: a tree of 2^1000 contexts.
pub(crate) fn shared(meta: &mut DbFile, function: u64) -> (u64, u64) {
    (0..1000).fold((0, 0), |children, pair| {
        let first = context(meta, 2 * pair + 1, children, function);
        context(meta, 2 * pair + 2, children, function);
        (first, 2 * CONTEXT_BYTES)
    })
}

pub(crate) fn siblings(meta: &mut DbFile, function: u64) -> (u64, u64) {
    let first = context(meta, 1, (0, 0), function);
    (2..=COUNT).for_each(|id| {
        context(meta, id, (0, 0), function);
    });
    (first, u64::from(COUNT) * CONTEXT_BYTES)
}

/// Writes a database with one metric, and a value of each context. Returns its bytes.
pub(crate) fn write(directory: &Path, contexts: Contexts) -> u64 {
    let mut meta = DbFile::new(b"meta", 8);
    let title = meta.text("title");
    let start = meta.put(&[title, title]);
    meta.section(0, start, 16);
    let names = meta.put(&[title]);
    let start = meta.put(&[names, 1]);
    meta.section(1, start, 9);
    let metric_name = meta.text("CPUTIME (sec)");
    let scope_name = meta.text("execution");
    // Kind 2.
    let scope = meta.put(&[scope_name, 2 | 255 << 8]);
    let instance = meta.put(&[scope, 0]);
    let metric = meta.put(&[metric_name, instance, 0, 1]);
    let start = meta.put(&[metric, 1 | 32 << 32 | 16 << 40 | 24 << 48, scope, 1 | 16 << 16]);
    meta.section(2, start, 32);
    let function_name = meta.text("work");
    let function = meta.put(&[function_name, 0, 0, 0, 0]);
    let children = contexts(&mut meta, function);
    let entry_name = meta.text("main thread");
    let entry = meta.put(&[children.1, children.0, u64::from(u32::MAX) | 1 << 32, entry_name]);
    let start = meta.put(&[entry, 1 | 32 << 16]);
    meta.section(3, start, 16);
    for number in 4..8 {
        let start = meta.put(&[0, 0]);
        meta.section(number, start, 16);
    }
    meta.bytes.extend(b"_meta.db");

    let mut profile = DbFile::new(b"prof", 2);
    let (values, indices) = (u64::from(COUNT), profile.bytes.len());
    for id in 1..=COUNT {
        profile.bytes.extend([&id.to_le_bytes()[..], &u64::from(id - 1).to_le_bytes()].concat());
    }
    let start_of_values = profile.bytes.len() as u64;
    for id in 1..=COUNT {
        profile.bytes.extend([&0_u16.to_le_bytes()[..], &f64::from(id).to_le_bytes()].concat());
    }
    let tuple = profile.put(&[1, 3 | 1 << 32, 1]);
    profile.section(1, tuple, 24);
    let infos = profile.put(&[values, start_of_values, values, indices as u64, tuple, 0]);
    let start = profile.put(&[infos, 1 | 48 << 32]);
    profile.section(0, start, 16);
    profile.bytes.extend(b"_prof.db");

    let mut context = DbFile::new(b"ctxt", 1);
    let start = context.put(&[0, 0]);
    context.section(0, start, 16);
    context.bytes.extend(b"__ctx.db");

    let files = [("meta.db", &meta), ("profile.db", &profile), ("cct.db", &context)];
    for (name, file) in files {
        fs::write(directory.join(name), &file.bytes).expect("is written");
    }
    files.iter().map(|(_, file)| file.bytes.len() as u64).sum()
}
