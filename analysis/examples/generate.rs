//! Writes a CPU profile of any size, to measure readers and reports: RECORDS different call chains
//! of DEPTH frames, with addresses in this program and its libraries.
//!
//! ```text
//! cargo run --release -p sigprof-analysis --example generate -- 1000000 10 large.prof    # 96 MB
//! ```
//!
//! Equal arguments make equal chains, except for the program's load address.

use sigprof::format::{Mapping, ProfileWriter, SlotLayout, SlotWidth};
use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{BufWriter, Write},
    process::ExitCode,
};

/// Different addresses, of leaves and callers together: large programs that run for long have about as many.
const ADDRESSES: usize = 20_000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [records, depth, path] = arguments.as_slice() else {
        eprintln!("usage: generate RECORDS DEPTH FILE");
        return Ok(ExitCode::from(2));
    };
    let (records, depth) = (records.parse()?, depth.parse()?);
    generate(records, depth, File::create(path)?)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn generate(records: u64, depth: usize, file: File) -> Result<(), Box<dyn Error>> {
    let maps = fs::read("/proc/self/maps")?;
    let lines = maps.split(|&byte| byte == b'\n').filter_map(Mapping::parse_line);
    let mappings: Vec<Mapping<'_>> =
        lines.filter(|mapping| mapping.is_executable() && mapping.path.starts_with(b"/")).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let addresses: Vec<u64> = (0..ADDRESSES)
        .map(|_| {
            let mapping = &mappings[random.below(mappings.len())];
            // Far enough apart that none is the return address less one of another.
            mapping.start + (random.below((mapping.end - mapping.start) as usize) as u64 & !15) + 8
        })
        .collect();
    let mut writer = ProfileWriter::new(BufWriter::with_capacity(1 << 20, file), SlotLayout::NATIVE);
    writer.header(10_000)?;
    let mut pcs = vec![0; depth];
    for record in 0..records {
        // The outermost frames are those of few threads, as they are in programs.
        for (place, pc) in pcs.iter_mut().rev().enumerate() {
            let choice = if place < 3 { 4 << place } else { ADDRESSES };
            *pc = addresses[random.below(choice)];
        }
        writer.record(1 + record % 3, &pcs)?;
    }
    writer.trailer()?;
    for mapping in &mappings {
        mapping.write_line(writer.text(), SlotWidth::NATIVE)?;
    }
    writer.text().flush()?;
    Ok(())
}

/// A xorshift generator, which needs no crate.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}
