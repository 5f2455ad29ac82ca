//! Disassembler.

use crate::error::{Error, ErrorKind};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction as Decoded, IntelFormatter};
use object::{Architecture, Object as _, ObjectSegment as _};
use std::{fs::File, ops::Range, path::Path, process::Command};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) address: u64,
    pub(super) text: String,
    /// Target of a direct jump or call.
    pub(super) target: Option<u64>,
}

/// Limit for ranges of damaged files; no function is larger.
const MAX_BYTES: u64 = 16 << 20;

/// Disassembles code of an ELF file: x86 in Intel or AT&T syntax, others by objdump.
///
/// # Errors
/// If the file cannot be read, does not contain the range, or no objdump supports it.
pub(super) fn read(path: &Path, range: Range<u64>, intel: bool) -> Result<Vec<Instruction>, Error> {
    let fails = |error| Error::io(path, "read the binary", error);
    let file = File::open(path).map_err(fails)?;
    let bytes = crate::formats::map_file(&file).map_err(fails)?;
    let broken = |error: object::Error| {
        Error::new(ErrorKind::Format, format!("not a valid ELF file ({error})")).at(path).caused_by(error)
    };
    let elf = object::File::parse(&*bytes).map_err(broken)?;
    let size = range.end.saturating_sub(range.start).min(MAX_BYTES);
    let mut segments =
        elf.segments().filter_map(|segment| segment.data_range(range.start, size).ok().flatten());
    let code = segments.next().ok_or_else(|| {
        let reason = format!("has no code at {:#x} to {:#x}", range.start, range.end);
        Error::new(ErrorKind::Mismatch, reason).at(path).advise("name the profiled program by --binary")
    })?;
    match elf.architecture() {
        Architecture::X86_64 => Ok(decode_x86(code, 64, range.start, intel)),
        Architecture::I386 => Ok(decode_x86(code, 32, range.start, intel)),
        other => objdump(path, &range, other),
    }
}

fn decode_x86(code: &[u8], bits: u32, address: u64, intel: bool) -> Vec<Instruction> {
    let mut formatter: Box<dyn Formatter> =
        if intel { Box::new(IntelFormatter::new()) } else { Box::new(GasFormatter::new()) };
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    options.set_show_branch_size(false);
    options.set_space_after_operand_separator(false);
    options.set_first_operand_char_index(8);
    let mut instructions = Vec::new();
    let mut decoded = Decoded::default();
    let mut decoder = Decoder::with_ip(bits, code, address, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        let mut text = String::new();
        formatter.format(&decoded, &mut text);
        if decoded.is_ip_rel_memory_operand() {
            text += &format!(" # {:#x}", decoded.ip_rel_memory_address());
        }
        let target = Some(decoded.near_branch_target()).filter(|&target| target != 0);
        instructions.push(Instruction { address: decoded.ip(), text, target });
    }
    instructions
}

/// Runs objdump of binutils: the one of this architecture only, or the system's.
fn objdump(path: &Path, range: &Range<u64>, architecture: Architecture) -> Result<Vec<Instruction>, Error> {
    let name = match architecture {
        Architecture::Aarch64 => "aarch64",
        Architecture::Arm => "arm",
        Architecture::Riscv64 => "riscv64",
        Architecture::PowerPc64 => "powerpc64le",
        Architecture::S390x => "s390x",
        _ => "objdump",
    };
    for program in [format!("{name}-linux-gnu-objdump"), "objdump".into()] {
        let mut command = Command::new(program);
        command.args(["-d", "--no-show-raw-insn", "--wide"]);
        command
            .arg(format!("--start-address={:#x}", range.start))
            .arg(format!("--stop-address={:#x}", range.end));
        command.arg("--").arg(path);
        if let Ok(output) = command.output() {
            let instructions = parse_objdump(&String::from_utf8_lossy(&output.stdout));
            if output.status.success() && !instructions.is_empty() {
                return Ok(instructions);
            }
        }
    }
    let reason = format!("no objdump can disassemble {architecture:?}");
    Err(Error::new(ErrorKind::Io, reason)
        .at(path)
        .advise(format!("install the package binutils, or binutils-{name}-linux-gnu")))
}

/// Parses a listing: lines of an address, a colon, a tab and text.
fn parse_objdump(listing: &str) -> Vec<Instruction> {
    let parse = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        let address = u64::from_str_radix(address.trim(), 16).ok()?;
        // Remove objdump's symbols in < and >; the caller adds symbols for all architectures.
        let text = text.split(" <").next().unwrap_or(text).replace('\t', " ");
        Some(Instruction { address, text: text.trim_end().to_owned(), target: None })
    };
    listing.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disassembles_x86_in_both_syntaxes() {
        let code = [0x55, 0x48, 0x89, 0xe5, 0xe8, 0x07, 0, 0, 0, 0xc3, 0x8b, 0x05, 0x10, 0, 0, 0];
        let shown = |intel| {
            let instructions = decode_x86(&code, 64, 0x1000, intel);
            instructions.iter().map(|one| format!("{:x} {}", one.address, one.text)).collect::<Vec<_>>()
        };
        let att = ["1000 push    %rbp", "1001 mov     %rsp,%rbp", "1004 call    0x1010", "1009 ret"];
        assert_eq!(shown(false)[..4], att);
        assert_eq!(shown(false)[4..], ["100a mov     0x10(%rip),%eax # 0x1020"]);
        let intel = ["1000 push    rbp", "1001 mov     rbp,rsp", "1004 call    0x1010", "1009 ret"];
        assert_eq!(shown(true)[..4], intel);
        assert_eq!(shown(true)[4..], ["100a mov     eax,[rip+0x10] # 0x1020"]);
        assert_eq!(decode_x86(&code, 64, 0x1000, false)[2].target, Some(0x1010));
        // Invalid bytes are shown, and the listing continues.
        let odd = decode_x86(&[0x06, 0xc3, 0x55, 0xc3], 64, 0, false);
        assert_eq!(
            odd.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(),
            ["(bad)", "push    %rbp", "ret"]
        );
    }

    #[test]
    fn parses_a_listing_of_objdump() {
        let listing = "\nx:     file format elf64-littleaarch64\n\nDisassembly of section .text:\n\n\
                       0000000000000714 <main>:\n 714:\tstp\tx29, x30, [sp, #-16]!\n 718:\tbl\t600 <f@plt>\n\t...\n";
        let read = |address, text: &str| Instruction { address, text: text.into(), target: None };
        assert_eq!(parse_objdump(listing), [read(0x714, "stp x29, x30, [sp, #-16]!"), read(0x718, "bl 600")]);
    }
}
