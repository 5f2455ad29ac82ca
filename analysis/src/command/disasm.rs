//! `sigprof disasm`: instructions with their values.

use super::{
    Input, Shown, View,
    functions::{ensure_profile, no_match},
};
use clap::Args;
use sigprof_analysis::{
    Error,
    filter::expression,
    granularity::Granularity,
    report::disasm::{Disassembly, Selection},
};
use std::process::ExitCode;

/// Show the instructions of functions, with their time
///
/// The binaries must be unchanged since the program ran. Inlined code is attributed to the function that contains it; of a
/// function that is always inlined, its instructions in those functions are shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof disasm '^main$' cpu.prof
  sigprof disasm 0x401136 --intel-syntax cpu.prof")]
pub(crate) struct DisasmArgs {
    /// Regular expression for the names of functions, or an address in one (0x...)
    #[arg(value_name = "REGEX|ADDRESS")]
    functions: String,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    /// Use Intel syntax for x86 instructions [default: AT&T]
    #[arg(long, help_heading = "Output")]
    intel_syntax: bool,

    #[command(flatten)]
    shown: Shown,
}

impl DisasmArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        ensure_profile(&self.functions, &self.input)?;
        let digits = self.functions.strip_prefix("0x");
        let wanted = Selection {
            functions: expression("REGEX", &self.functions)?,
            address: digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()),
            intel: self.intel_syntax,
        };
        let mut profile = self.input.load()?;
        let mut symbolizer = self.input.symbolizer();
        // The symbolizer recognises the program's mapping only after a profile; this one has names.
        symbolizer.symbolize(&mut profile, &mut |_| {});
        let (profile, context) = self.view.look_at(profile, Granularity::Addresses, true)?;
        let disassembly = Disassembly::new(&profile, &wanted, &mut symbolizer)?;
        if disassembly.is_empty() {
            return Err(no_match(&self.functions, &self.input));
        }
        self.shown.print(&profile, context, |context, out| disassembly.write(&profile, context, out))?;
        Ok(ExitCode::SUCCESS)
    }
}
