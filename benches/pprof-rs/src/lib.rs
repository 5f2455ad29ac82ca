//! Has pprof-rs profile the program that this library is preloaded into, as often as `CPUPROFILE_FREQUENCY` says. No report
//! is made: what is measured is what sampling costs. `OVERHEAD_SAMPLES=1` says at the end how many samples there are.

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
    let guard = GUARD.lock().expect("nobody has panicked").take();
    let Some(guard) = guard.filter(|_| std::env::var_os("OVERHEAD_SAMPLES").is_some()) else { return };
    match guard.report().build_unresolved() {
        Ok(report) => eprintln!("pprof-rs: {} samples", report.data.values().sum::<isize>()),
        Err(error) => eprintln!("pprof-rs: {error}"),
    }
}
