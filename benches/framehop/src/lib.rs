//! Walks stacks with framehop at each SIGPROF, and writes the records of the profiler's
//! `src/sample/stamps.rs`: the same programs, handler context and measure. It keeps no chains.
//!
//! The parts that framehop leaves to its user work as in the profiler: reads of the stack check
//! each page first, and modules are those loaded at the start. All threads share a cache and an
//! unwinder, one at a time; a tick that finds them in use is dropped.

mod modules;
mod stack;

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, MustNotAllocateDuringUnwind, Unwinder};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::time::Instant;

/// The profiler's default.
const DEPTH: usize = 254;
const MOST: usize = 1 << 16;
const COLUMNS: [&str; 8] = ["entered", "claimed", "walked", "added", "left", "depth", "misses", "faults"];

/// Counts calls and bytes in use.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes all calls to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the layout's size is not 0, guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: `place` is from `System` with this layout, guaranteed by the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Cache = CacheX86_64<MustNotAllocateDuringUnwind>;

struct Walker {
    busy: AtomicBool,
    unwinder: UnwinderX86_64<&'static [u8], MustNotAllocateDuringUnwind>,
    /// Only used by the thread that set `busy`.
    cache: UnsafeCell<Cache>,
    chain: UnsafeCell<[u64; DEPTH]>,
}

static WALKER: AtomicPtr<Walker> = AtomicPtr::new(core::ptr::null_mut());
static RECORDS: [[AtomicU64; COLUMNS.len()]; MOST] =
    [const { [const { AtomicU64::new(0) }; COLUMNS.len()] }; MOST];
static USED: AtomicUsize = AtomicUsize::new(0);
static ALLOCATED_IN_WALKS: AtomicU64 = AtomicU64::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_load() {
    if std::env::var_os("SIGPROF_STAMPS").is_none() {
        return;
    }
    let (begin, before) = (Instant::now(), HELD.load(Ordering::Relaxed));
    let mut unwinder = UnwinderX86_64::new();
    let modules = modules::loaded();
    let count = modules.len();
    modules.into_iter().for_each(|module| unwinder.add_module(module));
    let walker = Walker {
        busy: AtomicBool::new(false),
        unwinder,
        cache: UnsafeCell::new(Cache::new_in()),
        chain: UnsafeCell::new([0; DEPTH]),
    };
    WALKER.store(Box::into_raw(Box::new(walker)), Ordering::Release);
    let held = HELD.load(Ordering::Relaxed) - before;
    eprintln!(
        "framehop: {count} modules, {held} bytes, {:.1} us to set up; {} bytes of cache for each thread at once",
        begin.elapsed().as_secs_f64() * 1e6,
        size_of::<Cache>(),
    );

    // SAFETY: zero is a valid value of every field.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    // Not on alternate stacks: Rust's have 8 KiB, which framehop overflows (seen in cargo).
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the mask is a local.
    unsafe { libc::sigfillset(&mut action.sa_mask) };
    // SAFETY: the handler has the type for SA_SIGINFO.
    unsafe { libc::sigaction(libc::SIGPROF, &action, core::ptr::null_mut()) };
    let frequency: i64 =
        std::env::var("CPUPROFILE_FREQUENCY").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let period = libc::timeval { tv_sec: 1 / frequency, tv_usec: 1_000_000 / frequency % 1_000_000 };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: both structures are locals; this is setitimer(2).
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_PROF, &timer, 0) };
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    let faults = stack::minor_faults();
    let entered = time_stamp();
    let walker = WALKER.load(Ordering::Acquire);
    if walker.is_null() {
        return;
    }
    // SAFETY: published once, never freed.
    let walker = unsafe { &*walker };
    if walker.busy.swap(true, Ordering::Acquire) {
        return;
    }
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let [pc, sp, bp] =
        [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP].map(|register| registers[register as usize] as u64);
    // SAFETY: only this thread uses it while `busy` is set.
    let cache = unsafe { &mut *walker.cache.get() };
    // SAFETY: as above.
    let chain = unsafe { &mut *walker.chain.get() };
    let misses = cache.stats().misses();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    let claimed = time_stamp();

    let mut reader = stack::Reader::new(sp);
    let mut read = |address| reader.read(address);
    let mut registers = UnwindRegsX86_64::new(pc, sp, bp);
    let mut address = FrameAddress::InstructionPointer(pc);
    let mut depth = 0;
    while let Some(place) = chain.get_mut(depth) {
        *place = address.address();
        depth += 1;
        let Ok(Some(caller)) = walker.unwinder.unwind_frame(address, &mut registers, cache, &mut read) else {
            break;
        };
        let Some(next) = FrameAddress::from_return_address(caller) else { break };
        address = next;
    }

    let walked = time_stamp();
    let misses = cache.stats().misses() - misses;
    ALLOCATED_IN_WALKS.fetch_add(ALLOCATIONS.load(Ordering::Relaxed) - allocations, Ordering::Relaxed);
    walker.busy.store(false, Ordering::Release);
    let left = time_stamp();
    let faults = stack::minor_faults() - faults;
    let Some(record) = RECORDS.get(USED.fetch_add(1, Ordering::Relaxed)) else { return };
    let values = [entered, claimed, walked, walked, left, depth as u64, misses, faults];
    record.iter().zip(values).for_each(|(place, value)| place.store(value, Ordering::Relaxed));
}

extern "C" fn at_exit() {
    // SAFETY: zero is a valid value of every field; it disarms the timer.
    let never: libc::itimerval = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is a local.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_PROF, &never, 0) };
    let Ok(path) = std::env::var("SIGPROF_STAMPS") else { return };
    let mut text = COLUMNS.join(" ");
    for record in RECORDS.iter().take(USED.load(Ordering::Relaxed)) {
        let numbers = record.each_ref().map(|word| word.load(Ordering::Relaxed).to_string());
        let _ = write!(text, "\n{}", numbers.join(" "));
    }
    text.push('\n');
    let _ = std::fs::write(format!("{path}.{}", std::process::id()), text);
    eprintln!("framehop: {} allocations in all walks", ALLOCATED_IN_WALKS.load(Ordering::Relaxed));
}

fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { core::arch::x86_64::_mm_lfence() };
    // SAFETY: Linux allows this instruction in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}
