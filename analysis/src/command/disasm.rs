//! `sigprof disasm`: instructions with what they take.

use super::{
    Input, Shown, View,
    functions::{ensure_profile, no_match},
};
use clap::Args;
use sigprof_analysis::{
    Error,
    filter::expression,
    granularity::Granularity,
    report::disasm::{Disassembly, Wanted},
};
use std::process::ExitCode;

/// Show the instructions of functions that match, with what each takes
///
/// The binaries have to be there, as they were when the program ran. What was inlined counts for the function that holds it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sigprof disasm '^main$' cpu.prof
  sigprof disasm 0x401136 --intel-syntax cpu.prof")]
pub(crate) struct Options {
    /// The functions, or an address within one (0x...), of the process or of the binary
    #[arg(value_name = "REGEX|ADDRESS")]
    functions: String,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    view: View,

    /// Write instructions of x86 as Intel does, not as AT&T
    #[arg(long, help_heading = "Output")]
    intel_syntax: bool,

    #[command(flatten)]
    shown: Shown,
}

impl Options {
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        ensure_profile(&self.functions, &self.input)?;
        let digits = self.functions.strip_prefix("0x");
        let wanted = Wanted {
            functions: expression("REGEX", &self.functions)?,
            address: digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()),
            intel: self.intel_syntax,
        };
        let mut profile = self.input.load()?;
        let mut symbolizer = self.input.symbolizer();
        // It knows the program's own mapping, and the file to take for it, once it has seen the profile; that has names now.
        symbolizer.symbolize(&mut profile, &mut |_| {});
        let (profile, context) = self.view.look_at(profile, Granularity::Addresses, false)?;
        let disassembly = Disassembly::new(&profile, &wanted, &mut symbolizer)?;
        if disassembly.is_empty() {
            return Err(no_match(&self.functions, &self.input));
        }
        self.shown.print(&profile, context, |context, out| disassembly.write(&profile, context, out))?;
        Ok(ExitCode::SUCCESS)
    }
}
