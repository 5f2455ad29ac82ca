//! Which functions a report is of.

use clap::Args;
use sigprof_analysis::{Error, error::ErrorKind, filter::expression};

#[derive(Debug, Args)]
pub(crate) struct Functions {
    /// The functions: a regular expression of their names, as reports show them
    #[arg(value_name = "REGEX", value_hint = clap::ValueHint::Other)]
    functions: String,
}

impl Functions {
    /// What their names match.
    ///
    /// # Errors
    /// Where it is no regular expression.
    pub(crate) fn expression(&self) -> Result<regex::Regex, Error> {
        expression("REGEX", &self.functions)
    }

    /// The error where none does.
    pub(crate) fn no_match(&self) -> Error {
        no_match(&self.functions)
    }
}

/// The error where no function matches.
pub(crate) fn no_match(functions: &str) -> Error {
    Error::new(ErrorKind::Request, format!("no function of the profile matches `{functions}`"))
        .advise("`sigprof top --nodefraction 0` shows all there are")
}
