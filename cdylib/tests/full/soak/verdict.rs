//! The checks of a run: its own, and that each profile is complete and accounts for the ticks.

use std::collections::HashMap;
use std::path::Path;

use super::rig::{Rig, Variant, is_other_library, seconds};
use super::watch::Outcome;
use crate::support::{Profile, Record, Symbolizer, exit_code, names_in};

/// The function that sends ticks to its own thread: each of them is found in the profile.
const OWN_TICK: &str = "torture_own_tick";

/// Figures of the library's statistics line.
struct Statistics(HashMap<String, usize>);

impl Statistics {
    /// Returns those of the last session with the profile at `path`.
    fn find(errors: &str, path: &Path) -> Option<Self> {
        let end = format!(" profile={}", path.display());
        let mut lines =
            errors.lines().filter(|line| line.starts_with("sigprof: statistics: ") && line.ends_with(&end));
        let figures = lines.next_back()?.split(' ').filter_map(|word| word.split_once('='));
        Some(Self(figures.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()))
    }

    #[track_caller]
    fn get(&self, name: &str) -> usize {
        *self.0.get(name).unwrap_or_else(|| panic!("no figure {name}"))
    }

    /// Ticks that are in no profile.
    #[track_caller]
    fn lost(&self) -> usize {
        self.get("no_slot") + self.get("table_full") + self.get("no_pc")
    }
}

/// Panics unless the program and its profiles pass, and prints a line with all figures.
#[track_caller]
pub(crate) fn check(rig: &Rig, variant: &Variant, outcome: &Outcome) {
    let rounds: Vec<String> = outcome
        .workers
        .iter()
        .map(|worker| format!("{}={}", worker.name.replace(' ', "_"), worker.rounds))
        .collect();
    let rounds = rounds.join(" ");
    let name = variant.name;
    let errors = rig.errors();
    let complaints: Vec<&str> = errors.lines().filter(|line| !is_expected(line)).collect();
    if let Some(hang) = &outcome.hang {
        panic!("{name}: {hang}\nstderr: {complaints:#?}\nrounds: {rounds}");
    }
    let after = format!("after {} of {} s", outcome.seconds, seconds());
    let code = exit_code(outcome.status);
    assert_eq!(code, 0, "{name}: the program ended {after}: {complaints:#?}\nrounds: {rounds}");
    assert_eq!(complaints, Vec::<&str>::new(), "{name}");
    assert!(outcome.workers.iter().all(|worker| worker.rounds > 0), "{name}: a worker got nowhere: {rounds}");
    assert_eq!(outcome.leftovers, Vec::<u32>::new(), "{name}: processes are left over");
    let spools = rig.scratch.spools();
    let left = if spools.exists() { names_in(&spools, "") } else { Vec::new() };
    assert_eq!(left, Vec::<String>::new(), "{name}: spools are left over");
    let stuck =
        errors.split(' ').filter_map(|word| word.strip_prefix("stuck_handlers=")).any(|count| count != "0");
    assert!(!stuck, "{name}: a handler did not come back: {errors}");
    let account = account(rig, variant);
    println!("torture: {name}: well {after}; {account}; rounds {rounds}");
}

/// Lines that report no fault: the library's at the end of a session.
fn is_expected(line: &str) -> bool {
    ["PROFILE: interrupts/evictions/bytes = ", "sigprof: statistics: ", "sigprof: thread: "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Reads all profiles, and returns a description of the ticks.
#[track_caller]
fn account(rig: &Rig, variant: &Variant) -> String {
    let names = rig.scratch.names("prof");
    let profiles: Vec<Profile> = names.iter().map(|name| Profile::read(&rig.scratch.path(name))).collect();
    let figure = |name: &str| -> usize {
        let output = rig.output();
        let value = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("no line {name:?}:\n{output}"))
    };
    let (sent, own, diverted) = (figure("sent"), figure("own"), figure("diverted"));
    if !variant.has_one_session() {
        let is_profiled = variant.profiler != super::rig::Profiler::None;
        assert_eq!(is_profiled, !profiles.is_empty(), "profiles: {names:?}");
        let samples: usize = profiles.iter().map(Profile::samples).sum();
        return format!("{sent} signals sent, {} profiles with {samples} samples", profiles.len());
    }
    // Others are of a grandchild with a tick of the timer.
    let profile = profiles.first().filter(|_| names[0] == "prof").expect("the program's own profile");
    let samples = profile.samples();
    let statistics = Statistics::find(&rig.errors(), &rig.profile());
    let lost = statistics.as_ref().map_or(0, Statistics::lost);
    let found = own_ticks(profile);
    assert!(
        found + lost >= own - diverted,
        "{found} of {own} ticks are in the profile, {diverted} were the application's"
    );
    let Some(statistics) = statistics else {
        assert!(is_other_library(), "no statistics");
        return format!("{sent} signals sent, {samples} samples");
    };
    let (foreign, timer) = (statistics.get("foreign_ticks"), statistics.get("timer_ticks"));
    let of_timer = samples - foreign;
    assert_eq!(samples, statistics.get("samples"), "the file has what was counted");
    assert!(found <= own - diverted + of_timer, "{found} ticks of {own} that were sent");
    assert!(foreign <= sent - diverted, "{foreign} ticks of {sent} that were sent");
    let (walks, whole) = (statistics.get("walks"), statistics.get("complete"));
    format!(
        "{sent} signals sent, {samples} samples ({foreign} of signals, {timer} ticks of the timer), {lost} lost; own ticks: \
         {own} sent, {diverted} to the application, {found} found; {walks} walks, {whole} whole"
    )
}

/// The samples that [`OWN_TICK`] sent.
fn own_ticks(profile: &Profile) -> usize {
    let mut symbols = Symbolizer::default();
    let mut known: HashMap<Vec<usize>, bool> = HashMap::new();
    let mut is_own = |record: &&Record| {
        // The system call and its caller.
        let pcs: Vec<usize> = record.pcs.iter().take(2).copied().collect();
        *known.entry(pcs.clone()).or_insert_with(|| {
            let inner = Record { count: record.count, pcs };
            symbols.names(profile, &inner).iter().any(|name| name == OWN_TICK)
        })
    };
    profile.records.iter().filter(&mut is_own).map(|record| record.count).sum()
}
