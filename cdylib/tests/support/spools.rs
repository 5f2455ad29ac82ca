//! Programs that come to a bad end, and what is left of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use sigprof::recover::{self, Recovered, Spool};

use super::process::profiled;
use super::profile::Profile;
use super::scratch::{Linkage, Scratch, names_in};
use super::symbols::Symbolizer;

/// An application that does what it is told, with a directory for its spools.
pub(crate) struct SpoolRig {
    pub(crate) scratch: Scratch,
    pub(crate) program: PathBuf,
    plugin: PathBuf,
}

impl SpoolRig {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let program = scratch.compile("spooled.c", Linkage::None, &["-fno-optimize-sibling-calls"]);
        let plugin = scratch.compile_library("spooled_plugin.c", &[]);
        Self { scratch, program, plugin }
    }

    /// Where the spools go.
    pub(crate) fn spools(&self) -> PathBuf {
        self.scratch.spools()
    }

    /// Where the profile goes.
    pub(crate) fn profile(&self) -> PathBuf {
        self.scratch.path("prof")
    }

    /// The application under the profiler, with a spool in our own directory; `orders` as at the head of `spooled.c`, `PLUGIN`
    /// for its plugin. There is one tick of the timer for a second of CPU time, so that what counts is what it sends.
    pub(crate) fn command(&self, orders: &str) -> Command {
        let mut command = self.with_default_spools(orders);
        command.env("CPUPROFILE_SPOOL", self.spools());
        command
    }

    /// The same with spools where they go unless anybody says otherwise.
    pub(crate) fn with_default_spools(&self, orders: &str) -> Command {
        let mut command = profiled(&self.program, &self.profile());
        command.env("CPUPROFILE_FREQUENCY", "1").args(self.words(orders));
        command
    }

    /// The application's arguments.
    pub(crate) fn words(&self, orders: &str) -> Vec<String> {
        let plugin = self.plugin.to_str().expect("a plain path");
        orders.split(' ').map(|word| if word == "PLUGIN" { plugin } else { word }.to_owned()).collect()
    }

    /// The names of all files in the directory for spools.
    pub(crate) fn spool_names(&self) -> Vec<String> {
        if self.spools().exists() { names_in(&self.spools(), "") } else { Vec::new() }
    }

    /// The one spool that was left behind.
    #[track_caller]
    pub(crate) fn only_spool(&self) -> Spool {
        let found = recover::spools(&self.spools()).expect("the directory can be read").spools;
        let [spool] = <[Spool; 1]>::try_from(found).unwrap_or_else(|found| {
            let bytes = std::fs::metadata(self.profile()).map_or(0, |status| status.len());
            panic!("the application's samples are lost: {} spools, and {bytes} bytes of profile", found.len())
        });
        spool
    }

    /// Recovers the one spool that was left behind, to where its profile was meant for.
    #[track_caller]
    pub(crate) fn recover(&self) -> (Recovered, Profile) {
        let recovered = self.only_spool().recover().unwrap_or_else(|error| panic!("{error}"));
        let profile = Profile::read(recovered.path.as_deref().expect("there are samples"));
        (recovered, profile)
    }
}

/// How many samples have a chain that goes through the function `name`.
pub(crate) fn samples_in(profile: &Profile, name: &str) -> usize {
    let mut symbols = Symbolizer::default();
    let holds =
        |record: &&super::profile::Record| symbols.names(profile, record).iter().any(|found| found == name);
    profile.records.iter().filter(holds).map(|record| record.count).sum()
}

/// Panics unless `path` is a profile of its own, and gives its samples.
#[track_caller]
pub(crate) fn samples_at(path: &Path) -> usize {
    Profile::read(path).samples()
}
