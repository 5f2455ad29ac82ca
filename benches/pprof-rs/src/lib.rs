//! Has pprof-rs profile the program that this library is preloaded into, as often as `CPUPROFILE_FREQUENCY` says. No report
//! is made: what is measured is what sampling costs. `OVERHEAD_SAMPLES=1` prints at the end how many samples there are,
//! `INNERMOST_OF="NAME NAME"` in how many each of these functions is the innermost of them.

use pprof::{Frames, ProfilerGuard};
use std::{collections::BTreeMap, sync::Mutex};

static GUARD: Mutex<Option<ProfilerGuard<'static>>> = Mutex::new(None);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_load() {
    let frequency = std::env::var("CPUPROFILE_FREQUENCY").ok().and_then(|value| value.parse().ok());
    let built = pprof::ProfilerGuardBuilder::default().frequency(frequency.unwrap_or(100)).build();
    match built {
        Ok(guard) => *GUARD.lock().expect("nobody has panicked") = Some(guard),
        Err(error) => eprintln!("pprof-rs: {error}"),
    }
}

extern "C" fn at_exit() {
    let Some(guard) = GUARD.lock().expect("nobody has panicked").take() else { return };
    let outcome = if std::env::var_os("OVERHEAD_SAMPLES").is_some() {
        guard.report().build_unresolved().map(|report| {
            eprintln!("pprof-rs: {} samples", report.data.values().sum::<isize>());
        })
    } else if let Ok(names) = std::env::var("INNERMOST_OF") {
        guard.report().build().map(|report| print_innermost(&names, &report.data.into_iter().collect::<Vec<_>>()))
    } else {
        Ok(())
    };
    if let Err(error) = outcome {
        eprintln!("pprof-rs: {error}");
    }
}

/// Prints how many samples have each of these functions as the innermost of them.
fn print_innermost(names: &str, samples: &[(Frames, isize)]) {
    let mut counts: BTreeMap<&str, isize> = names.split(' ').map(|name| (name, 0)).collect();
    for (frames, count) in samples {
        let functions = frames.frames.iter().flatten().map(|symbol| symbol.name());
        let innermost = functions.into_iter().find(|function| counts.contains_key(function.as_str()));
        if let Some(sum) = innermost.and_then(|function| counts.get_mut(function.as_str())) {
            *sum += count;
        }
    }
    for (name, count) in counts {
        eprintln!("pprof-rs: {name} {count}");
    }
}
