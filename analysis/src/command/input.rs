//! Input profiles: options of all reports.

use clap::{Args, CommandFactory as _, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use sigprof_analysis::{
    Error,
    error::ErrorKind,
    formats,
    profile::{Profile, ValueType, compare, merge, subtract},
    record::DEFAULT_OUTPUT,
    symbolize::{Progress, Servers, Symbolizer, SymbolizerOptions},
};
use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Profiles; several are merged. `-` is standard input; a program before profiles is the same as --binary
    /// [default: sigprof.pb.gz]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    operands: Vec<PathBuf>,

    // As in perf-report(1).
    #[arg(short, long, hide = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    input: Vec<PathBuf>,

    /// Compare with this older profile: values are differences, and shares are of OLD
    #[arg(long, alias = "diff", value_name = "OLD", value_hint = ValueHint::FilePath, conflicts_with = "base")]
    diff_base: Vec<PathBuf>,

    /// Subtract this older profile: shares are of all that is left
    #[arg(long, value_name = "OLD", value_hint = ValueHint::FilePath, hide_short_help = true)]
    base: Vec<PathBuf>,

    #[command(flatten)]
    names: NameOptions,
}

/// Sources of names.
#[derive(Debug, Args)]
#[command(next_help_heading = "Names")]
pub(crate) struct NameOptions {
    /// Directory with the binaries and debug files of the profiled machine
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    sysroot: Option<PathBuf>,

    /// The profiled program
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    binary: Option<PathBuf>,

    /// Do not ask the servers of DEBUGINFOD_URLS for files that are not here
    #[arg(long, hide_short_help = true)]
    no_debuginfod: bool,

    /// Show mangled names; regular expressions then match those
    #[arg(long, hide_short_help = true)]
    no_demangle: bool,
}

impl Input {
    /// Creates a comparison of two files.
    pub(crate) fn comparison(old: PathBuf, new: PathBuf, names: NameOptions) -> Self {
        Self { operands: vec![new], input: Vec::new(), diff_base: vec![old], base: Vec::new(), names }
    }

    /// Reads, merges, subtracts the base, combines equal samples, and symbolizes. Prints warnings.
    ///
    /// # Errors
    /// If a profile cannot be read, or profiles cannot be merged.
    pub(crate) fn load(&self) -> Result<Profile, Error> {
        let mut profile = self.load_unnamed()?;
        profile.unite_equal_samples();
        warn_of_merge(&mut profile);
        self.names.give(&mut self.symbolizer(), &mut profile);
        Ok(profile)
    }

    /// Returns the program before the profiles, if any, and the profiles.
    fn named(&self) -> (Option<&Path>, Vec<&Path>) {
        let mut files: Vec<&Path> = self.operands.iter().chain(&self.input).map(PathBuf::as_path).collect();
        let has_program = files.len() > 1 && is_elf(files[0]);
        let program = has_program.then(|| files.remove(0));
        if files.is_empty() {
            files.push(Path::new(DEFAULT_OUTPUT));
        }
        (program, files)
    }

    /// True if no profile is named: the default is read.
    pub(crate) fn is_default(&self) -> bool {
        self.operands.is_empty() && self.input.is_empty()
    }

    /// True if the default profile exists.
    pub(crate) fn has_default(&self) -> bool {
        Path::new(DEFAULT_OUTPUT).exists()
    }

    /// As [`load`](Self::load), with all samples of the files.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub(crate) fn load_all_samples(&self) -> Result<Profile, Error> {
        let mut profile = self.load_unnamed()?;
        self.names.give(&mut self.symbolizer(), &mut profile);
        Ok(profile)
    }

    /// As [`load_all_samples`](Self::load_all_samples), with only the names in the files.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub(crate) fn load_unnamed(&self) -> Result<Profile, Error> {
        self.ensure_one_is_standard_input();
        let (_, files) = self.named();
        if self.is_default() && !self.has_default() {
            let reason = format!("no profile is named, and there is no {DEFAULT_OUTPUT} in this directory");
            return Err(Error::new(ErrorKind::Request, reason)
                .advise("`sigprof record PROGRAM` writes one, or name a FILE"));
        }
        let mut profile = read_all(&files)?;
        self.symbolizer().settle_moved(&mut profile);
        for (bases, combine) in [(&self.base, subtract as Combine), (&self.diff_base, compare)] {
            let bases: Vec<&Path> = bases.iter().map(PathBuf::as_path).collect();
            if let Some(base) = bases.first() {
                let (name, base_name) = (shown_name(files[0]), shown_name(base));
                profile = combine((&name, profile), (&base_name, read_all(&bases)?))?;
            }
        }
        warn_of_merge(&mut profile);
        Ok(profile)
    }

    /// Returns the profiles.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        self.named().1
    }

    /// Calls `f` with each profile, symbolized, in their order. Several are read at a time.
    ///
    /// # Errors
    /// If a profile cannot be read, or is to be compared with others; those of `f`.
    pub(crate) fn for_each(
        &self,
        mut f: impl FnMut(&Path, Profile) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.ensure_one_is_standard_input();
        if !self.base.is_empty() || !self.diff_base.is_empty() {
            return Err(Error::new(ErrorKind::Request, "a database contains no comparison")
                .advise("leave out --base and --diff-base"));
        }
        let (_, files) = self.named();
        let mut symbolizer = self.symbolizer();
        let at_a_time = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for files in files.chunks(at_a_time) {
            let profiles = std::thread::scope(|scope| {
                let readers: Vec<_> = files.iter().map(|file| scope.spawn(|| read_one(file))).collect();
                let join = |reader: std::thread::ScopedJoinHandle<'_, _>| {
                    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                readers.into_iter().map(join).collect::<Vec<Result<Profile, Error>>>()
            });
            for (file, profile) in files.iter().zip(profiles) {
                let mut profile = profile?;
                symbolizer.settle_moved(&mut profile);
                self.names.give(&mut symbolizer, &mut profile);
                f(&shown_name(file), profile)?;
            }
        }
        Ok(())
    }

    /// Exits with a usage error if several profiles are standard input, which can be read once.
    fn ensure_one_is_standard_input(&self) {
        let (_, files) = self.named();
        let named = files.into_iter().chain(self.base.iter().chain(&self.diff_base).map(PathBuf::as_path));
        if named.filter(|path| is_standard_input(path)).count() > 1 {
            let reason = "`-` is standard input, which can be read only once; name files";
            super::Arguments::command().error(clap::error::ErrorKind::ArgumentConflict, reason).exit();
        }
    }

    /// Returns the profile's title: the names of its files.
    pub(crate) fn title(&self) -> String {
        let (_, files) = self.named();
        let names: Vec<String> =
            files.into_iter().map(|path| shown_name(path).display().to_string()).collect();
        names.join(", ")
    }

    /// Creates the symbolizer of the profile.
    pub(crate) fn symbolizer(&self) -> Symbolizer {
        let (program, _) = self.named();
        Symbolizer::new(SymbolizerOptions {
            sysroot: self.names.sysroot.clone(),
            binary: self.names.binary.clone().or_else(|| program.map(PathBuf::from)),
            servers: Servers::from_environment().filter(|_| !self.names.no_debuginfod),
            demangle: !self.names.no_demangle,
            ..SymbolizerOptions::default()
        })
    }
}

impl NameOptions {
    /// Symbolizes a profile, with warnings on stderr, and a progress bar if it takes long.
    pub(crate) fn give(&self, symbolizer: &mut Symbolizer, profile: &mut Profile) {
        let mut bar = Bar::new();
        let warnings = symbolizer.symbolize(profile, &mut |progress| bar.show(progress));
        bar.clear();
        if self.no_demangle {
            // Also names that the file contains.
            for function in &mut profile.functions {
                function.name = function.system_name.clone();
            }
        }
        for warning in warnings {
            eprintln!("sigprof: {warning}");
        }
    }
}

/// Combines a profile with an older one; each comes with its file name.
type Combine = fn((&Path, Profile), (&Path, Profile)) -> Result<Profile, Error>;

/// Printed after the name of a file with numbers that exceed 64 bits.
const CLAMPED: &str = "a value, period or duration exceeds 64 bits: totals and percentages are wrong";

/// True for a file that begins like an ELF file.
pub(crate) fn is_elf(path: &Path) -> bool {
    starts_with(path, b"\x7fELF")
}

/// True for a regular file that begins with `bytes`. Reading a pipe would lose the data.
pub(crate) fn starts_with(path: &Path, bytes: &[u8]) -> bool {
    let mut start = Vec::new();
    path.is_file()
        && File::open(path).is_ok_and(|file| {
            file.take(bytes.len() as u64).read_to_end(&mut start).is_ok_and(|_| start == bytes)
        })
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns a file's name for messages.
fn shown_name(path: &Path) -> PathBuf {
    if is_standard_input(path) { "standard input".into() } else { path.into() }
}

/// Reads a file or standard input; warns of numbers that are too large.
fn read_one(path: &Path) -> Result<Profile, Error> {
    let name = shown_name(path);
    let mut profile = if is_standard_input(path) {
        formats::read_stream(std::io::stdin().lock(), &name)?
    } else {
        formats::read_file(path)?
    };
    // Later marks are of sums.
    if std::mem::take(&mut profile.is_clamped) {
        eprintln!("sigprof: {}: {CLAMPED}", name.display());
    }
    Ok(profile)
}

/// Warns, once, of overflows and omitted sample types after a merge.
fn warn_of_merge(profile: &mut Profile) {
    if std::mem::take(&mut profile.is_clamped) {
        eprintln!("sigprof: integer overflow while merging: totals and percentages are wrong");
    }
    let left_out = std::mem::take(&mut profile.left_out);
    if !left_out.is_empty() {
        let names = |types: &[ValueType]| types.iter().map(|one| &*one.kind).collect::<Vec<_>>().join(", ");
        eprintln!(
            "sigprof: not all profiles have the sample types {}; the report is of {}",
            names(&left_out),
            names(&profile.sample_types)
        );
    }
}

fn read_all(files: &[&Path]) -> Result<Profile, Error> {
    let read = |file: &&Path| read_one(file).map(|profile| (shown_name(file), profile));
    let merged = merge(files.iter().map(read))?;
    Ok(merged.unwrap_or_else(|| Profile::new(Profile::cpu_types())))
}

/// Warns if the sum of a sample type exceeds 64 bits.
pub(crate) fn warn_of_sums(profile: &Profile, mut sample_types: impl Iterator<Item = usize>) {
    if let Some(place) = sample_types.find(|&place| !profile.sums_fit(place)) {
        let ValueType { kind, unit } = &profile.sample_types[place];
        eprintln!(
            "sigprof: the total of {kind} in {unit} exceeds 64 bits: totals and percentages are wrong; \
             read fewer profiles, or choose another --sample-type"
        );
    }
}

/// A progress bar on stderr, if it is a terminal and the work takes long.
struct Bar {
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// Shorter work has no bar.
    const TIMEOUT: Duration = Duration::from_millis(500);

    fn new() -> Self {
        Self { since: Instant::now(), bar: None }
    }

    fn show(&mut self, Progress { done, all, is_asking }: Progress) {
        if self.since.elapsed() < Self::TIMEOUT {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("sigprof: names {bar:25} {pos} of {len} addresses{msg}");
            // Draws on stderr, and only on a terminal.
            ProgressBar::new(all as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(done as u64);
        bar.set_message(if is_asking { "; asking the servers of DEBUGINFOD_URLS" } else { "" });
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
