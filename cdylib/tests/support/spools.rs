//! Programs that are killed or crash, and their spools.

use std::path::{Path, PathBuf};
use std::process::Command;

use sigprof::recover::{self, Recovered, Spool};

use super::process::profiled;
use super::profile::Profile;
use super::scratch::{Linkage, Scratch, names_in};
use super::symbols::Symbolizer;

/// An application that follows orders, with a directory for its spools.
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

    pub(crate) fn spools(&self) -> PathBuf {
        self.scratch.spools()
    }

    pub(crate) fn profile(&self) -> PathBuf {
        self.scratch.path("prof")
    }

    /// The application under the profiler, with our own spool directory; `orders` as at the head of
    /// `spooled.c`, PLUGIN for its plugin. The timer ticks only once in a second of CPU time.
    pub(crate) fn command(&self, orders: &str) -> Command {
        let mut command = self.with_default_spools(orders);
        command.env("CPUPROFILE_SPOOL", self.spools());
        command
    }

    /// The same with spools in the default directory.
    pub(crate) fn with_default_spools(&self, orders: &str) -> Command {
        let mut command = profiled(&self.program, &self.profile());
        command.env("CPUPROFILE_FREQUENCY", "1").args(self.words(orders));
        command
    }

    pub(crate) fn words(&self, orders: &str) -> Vec<String> {
        let plugin = self.plugin.to_str().expect("a plain path");
        orders.split(' ').map(|word| if word == "PLUGIN" { plugin } else { word }.to_owned()).collect()
    }

    pub(crate) fn spool_names(&self) -> Vec<String> {
        if self.spools().exists() { names_in(&self.spools(), "") } else { Vec::new() }
    }

    #[track_caller]
    pub(crate) fn only_spool(&self) -> Spool {
        let found = recover::spools(&self.spools()).expect("the directory can be read").spools;
        let [spool] = <[Spool; 1]>::try_from(found).unwrap_or_else(|found| {
            let bytes = std::fs::metadata(self.profile()).map_or(0, |status| status.len());
            panic!("the application's samples are lost: {} spools, and {bytes} bytes of profile", found.len())
        });
        spool
    }

    /// Recovers the only remaining spool to its target.
    #[track_caller]
    pub(crate) fn recover(&self) -> (Recovered, Profile) {
        let recovered = self.only_spool().recover().unwrap_or_else(|error| panic!("{error}"));
        let profile = Profile::read(recovered.path.as_deref().expect("there are samples"));
        (recovered, profile)
    }
}

/// The number of samples with the function `name` in their stack.
pub(crate) fn samples_in(profile: &Profile, name: &str) -> usize {
    let mut symbols = Symbolizer::default();
    let holds =
        |record: &&super::profile::Record| symbols.names(profile, record).iter().any(|found| found == name);
    profile.records.iter().filter(holds).map(|record| record.count).sum()
}

#[track_caller]
pub(crate) fn samples_at(path: &Path) -> usize {
    Profile::read(path).samples()
}
