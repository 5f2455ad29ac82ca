//! Output of pictures and converted profiles: an atomically written file, or standard output.

use clap::{
    Args, ValueHint,
    builder::{PathBufValueParser, TypedValueParser},
};
use sigprof_analysis::{Error, error::ErrorKind, record::reason_alone};
use std::{
    fs,
    io::{self, BufWriter, IsTerminal as _, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Whether the output is suitable for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// Text.
    AsText,
    /// Data for a file or another program.
    Not,
}

/// The option.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Target {
    /// Write to this file, and replace it if it exists; `-` is standard output [default: standard output; on a terminal,
    /// `report` writes sigprof.html and `flamegraph` sigprof.svg]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

impl Target {
    /// Returns the file, or `-`, if given.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Returns standard output, if it is the output.
    pub(crate) fn terminal(&self) -> Option<io::Stdout> {
        self.path().is_none_or(|path| path == Path::new("-")).then(io::stdout)
    }

    /// Writes text.
    ///
    /// # Errors
    /// As for [`stream`].
    pub(crate) fn write_text<T>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> Result<T, Error> {
        let mut done = None;
        stream(self.path(), OutputKind::AsText, |out| {
            done = Some(write(out).map_err(Error::output)?);
            Ok(())
        })?;
        Ok(done.expect("what is written without an error was written"))
    }

    /// Writes a file for a browser. If no output is named, and standard output is a terminal or the
    /// file `is_opened`, it is `default` in the working directory; its path is printed on stderr.
    ///
    /// # Errors
    /// As for [`stream`]; also if standard output is to be opened, or no program opens the file.
    pub(crate) fn write_for_browser(
        &self,
        bytes: &[u8],
        default: &str,
        is_opened: bool,
    ) -> Result<(), Error> {
        let is_default = self.path().is_none() && (is_opened || io::stdout().is_terminal());
        let path = if is_default { Some(Path::new(default)) } else { self.path() };
        if is_opened && path == Some(Path::new("-")) {
            return Err(Error::new(ErrorKind::Request, "--open: standard output cannot be opened")
                .advise("name a file with `-o FILE`"));
        }
        stream(path, OutputKind::Not, |out| out.write_all(bytes).map_err(Error::output))?;
        let Some(path) = path.filter(|_| is_default || is_opened) else { return Ok(()) };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
        // stderr may be closed.
        let _ = writeln!(io::stderr(), "sigprof: wrote {}", absolute.display());
        if is_opened {
            open::that(&absolute).map_err(|error| {
                Error::io(&absolute, "open it in a browser", error)
                    .advise("open it by hand, or install xdg-utils")
            })?;
        }
        Ok(())
    }
}

/// Title of a picture or page.
#[derive(Debug, Args)]
pub(crate) struct Title {
    /// Title [default: the recorded command, or the name of the program]
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

/// Parses a profile's file name.
pub(crate) fn profile_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path == Path::new("-") {
            return Err("a profile cannot be written to standard output; for a file with this name use ./-");
        }
        Ok(path)
    })
}

/// Calls `fill` to write the file `path` atomically. `-` is standard output. So is None, unless
/// standard output is a terminal and the output is not text.
///
/// # Errors
/// Those of `fill`, with the name of the output, and those of the file, which is then unchanged.
pub(crate) fn stream(
    path: Option<&Path>,
    shown: OutputKind,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    match path {
        Some(path) if path != Path::new("-") => to_file(path, fill),
        None if shown == OutputKind::Not && io::stdout().is_terminal() => {
            Err(Error::new(ErrorKind::Request, "the output is not text, and standard output is a terminal")
                .advise("name a file with `-o FILE`"))
        }
        _ => fill_buffered(Path::new("standard output"), io::stdout().lock(), fill),
    }
}

fn to_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> Result<(), Error> {
    let fails = |error| Error::io(path, "write", error);
    // A symbolic link is kept; its target is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let before = fs::metadata(&target).ok();
    if let Some(status) = before.as_ref().filter(|status| !status.is_file()) {
        if status.is_dir() {
            return Err(fails(io::ErrorKind::IsADirectory.into()));
        }
        // A pipe or device is written directly and cannot be replaced.
        let file = fs::OpenOptions::new().write(true).open(&target).map_err(fails)?;
        return fill_buffered(path, file, fill);
    }
    let directory = match target.parent() {
        Some(parent) if parent != Path::new("") => PathBuf::from(parent),
        _ => PathBuf::from("."),
    };
    // The umask is applied to the mode.
    let mode = before.as_ref().map_or(0o666, |status| status.permissions().mode() & 0o777);
    let mut file = tempfile::Builder::new()
        .prefix(".sigprof-")
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(&directory)
        .map_err(|error| fails(reason_alone(&directory, error)).advise("name another file by `-o FILE`"))?;
    fill_buffered(path, &mut file, fill)?;
    file.persist(&target).map_err(|error| fails(error.error))?;
    Ok(())
}

fn fill_buffered(
    path: &Path,
    out: impl Write,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut out = BufWriter::with_capacity(64 << 10, out);
    // Errors in the profile do not concern the output.
    fill(&mut out).map_err(|error| if error.kind() == ErrorKind::Io { error.at(path) } else { error })?;
    out.flush().map_err(|error| Error::io(path, "write", error))
}
