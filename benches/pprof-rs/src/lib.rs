//! Profiles the program that preloads this library with pprof-rs, at `CPUPROFILE_FREQUENCY`. It
//! writes no report: the benches measure the cost of sampling. At exit,
//! `OVERHEAD_SAMPLES=1` prints the number of samples, `OVERHEAD_FUNCTIONS=NAME,NAME` the number in
//! which each function is the innermost of these.

use pprof::ProfilerGuard;
use std::sync::Mutex;

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
    let functions = std::env::var("OVERHEAD_FUNCTIONS").ok();
    let outcome = match functions {
        Some(functions) => print_functions(&guard, &functions.split(',').collect::<Vec<_>>()),
        None => Ok(()),
    };
    let outcome = outcome.and_then(|()| match std::env::var_os("OVERHEAD_SAMPLES") {
        Some(_) => print_samples(&guard),
        None => Ok(()),
    });
    if let Err(error) = outcome {
        eprintln!("pprof-rs: {error}");
    }
}

fn print_samples(guard: &ProfilerGuard<'_>) -> pprof::Result<()> {
    let report = guard.report().build_unresolved()?;
    eprintln!("pprof-rs: {} samples", report.data.values().sum::<isize>());
    Ok(())
}

/// Prints for each function in how many samples it is the innermost of them.
fn print_functions(guard: &ProfilerGuard<'_>, functions: &[&str]) -> pprof::Result<()> {
    let mut counts = vec![0; functions.len()];
    for (stack, count) in &guard.report().build()?.data {
        let mut frames = stack.frames.iter().flatten().map(pprof::Symbol::name);
        let innermost =
            frames.find_map(|frame| functions.iter().position(|function| frame.contains(function)));
        if let Some(sum) = innermost.and_then(|function| counts.get_mut(function)) {
            *sum += count;
        }
    }
    for (function, count) in functions.iter().zip(counts) {
        eprintln!("pprof-rs: {count} in {function}");
    }
    Ok(())
}
