//! A server that forks its processes in advance: their profiles represent their time.

use std::collections::BTreeMap;

use crate::support::outcome::expect_success_without_loss;
use crate::support::{Linkage, Profile, Scratch, SessionTime, profiled, run};

/// A server with eight workers serves a load and is shut down: there are nine profiles, each with
/// its process's time, except for the time that it reports as unaccounted.
#[test]
fn the_profiles_of_a_prefork_server_add_up_to_the_time_used() {
    const PROCESSES: usize = 9;
    /// The resolution of times from the kernel and the profiler.
    const ROUNDED: f64 = 1e-5;
    for frequency in ["100", "1000"] {
        let scratch = Scratch::new();
        let mut command = profiled(scratch.compile("prefork.c", Linkage::None, &[]), &scratch.path("prof"));
        command.env("CPUPROFILE_FREQUENCY", frequency).env("CPUPROFILE_STATISTICS", "1");
        let finished = run(command.arg(scratch.path("socket")));
        expect_success_without_loss(&finished);
        let text = finished.text();
        let seconds_of = |name: &str| -> BTreeMap<String, f64> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().split_once(' '));
            lines
                .map(|(process, micros)| {
                    (format!("prof_{process}"), micros.parse::<f64>().expect("a number") / 1e6)
                })
                .collect()
        };
        let (mut served, ended) = (seconds_of("served"), seconds_of("ended"));
        assert_eq!((served.len(), ended.len()), (PROCESSES, PROCESSES - 1), "{text}");
        let parent = served.keys().find(|name| !ended.contains_key(*name)).expect("is no worker").clone();
        let served_by_parent = served.remove(&parent).expect("a line");
        served.insert("prof".to_owned(), served_by_parent);
        let expected: Vec<&String> = served.keys().collect();
        assert_eq!(
            scratch.names("prof").iter().collect::<Vec<_>>(),
            expected,
            "a worker's time is in no profile"
        );
        for (name, served) in &served {
            let path = scratch.path(name);
            let (profile, time) = (Profile::read(&path), SessionTime::of(&finished, &path));
            assert_eq!(profile.samples(), time.samples, "{name}");
            time.adds_up(profile.period_micros as f64 / 1e6, 1)
                .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert!(time.used + ROUNDED >= *served, "{name} served for {served} s: {time:?}");
            // No figure has the parent's time after its last line.
            if let Some(ended) = ended.get(name) {
                assert!(time.used <= ended + ROUNDED, "{name} had used {ended} s: {time:?}");
            }
        }
    }
}
