//! Which functions a report is of.

use super::Input;
use clap::Args;
use sigprof_analysis::{Error, error::ErrorKind, filter::expression};

#[derive(Debug, Args)]
pub(crate) struct Functions {
    /// Regular expression for the names of functions, as reports show them
    #[arg(value_name = "REGEX", value_hint = clap::ValueHint::Other)]
    functions: String,
}

impl Functions {
    /// The regular expression.
    ///
    /// # Errors
    /// If it is invalid, or the name of a file.
    pub(crate) fn expression(&self, input: &Input) -> Result<regex::Regex, Error> {
        ensure_not_a_file(&self.functions, input)?;
        expression("REGEX", &self.functions)
    }

    /// The error if no function matches.
    pub(crate) fn no_match(&self) -> Error {
        no_match(&self.functions)
    }
}

/// Refuses the name of a file in the place of functions.
///
/// # Errors
/// If it is one, and no profile is named.
pub(crate) fn ensure_not_a_file(functions: &str, input: &Input) -> Result<(), Error> {
    if input.is_default() && std::path::Path::new(functions).is_file() {
        return Err(Error::new(ErrorKind::Request, format!("REGEX is missing: `{functions}` is a file"))
            .advise(format!("name the functions first, such as `main {functions}`")));
    }
    Ok(())
}

/// The error if no function matches.
pub(crate) fn no_match(functions: &str) -> Error {
    Error::new(ErrorKind::Request, format!("no function in the profile matches `{functions}`"))
        .advise("`sigprof top --nodefraction 0` shows all functions")
}
