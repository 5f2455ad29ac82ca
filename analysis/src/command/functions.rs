//! Selection of functions by a regular expression.

use super::Input;
use clap::Args;
use sigprof_analysis::{Error, error::ErrorKind, filter::expression};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct Functions {
    /// Regular expression for the names of functions, as reports show them
    #[arg(value_name = "REGEX", value_hint = clap::ValueHint::Other)]
    functions: String,
}

impl Functions {
    /// Returns the regular expression.
    ///
    /// # Errors
    /// If it is invalid, or the only named file and sigprof.pb.gz does not exist.
    pub(crate) fn expression(&self, input: &Input) -> Result<regex::Regex, Error> {
        ensure_profile(&self.functions, input)?;
        expression("REGEX", &self.functions)
    }

    /// Returns the error for no matching function.
    pub(crate) fn no_match(&self, input: &Input) -> Error {
        no_match(&self.functions, input)
    }
}

/// Checks early whether `functions` is the profile, because the regular expression is missing.
///
/// # Errors
/// If it is a file, and sigprof.pb.gz does not exist.
pub(crate) fn ensure_profile(functions: &str, input: &Input) -> Result<(), Error> {
    if is_profile(functions, input) && !input.has_default() { Err(no_regex(functions)) } else { Ok(()) }
}

/// True if `functions` may be the profile: it is a file, and no profile is named.
fn is_profile(functions: &str, input: &Input) -> bool {
    input.is_default() && Path::new(functions).is_file()
}

fn no_regex(file: &str) -> Error {
    Error::new(ErrorKind::Request, format!("REGEX is missing: `{file}` is a file"))
        .advise(format!("name the functions first, such as `main {file}`"))
}

/// Returns the error for no matching function.
pub(crate) fn no_match(functions: &str, input: &Input) -> Error {
    if is_profile(functions, input) {
        return no_regex(functions);
    }
    Error::new(ErrorKind::Request, format!("no function in the profile matches `{functions}`"))
        .advise("`sigprof top --nodefraction 0` shows all functions")
}
