//! Rust's standard library: collections, formatting, sorting, channels, and panics that are caught.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::ffi::{c_char, c_void};
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::{Arc, Mutex, RwLock, mpsc};

/// As in `step.h`; nothing here asks the stepper for anything.
#[repr(C)]
pub struct Region {
    name: *const c_char,
    prepare: Option<extern "C" fn()>,
    run: Option<extern "C" fn(*const c_void)>,
}

// SAFETY: the pointers are to constants.
unsafe impl Sync for Region {}

const fn region(name: &'static std::ffi::CStr, run: extern "C" fn(*const c_void)) -> Region {
    Region { name: name.as_ptr(), prepare: Some(be_quiet), run: Some(run) }
}

/// The regions, up to one without a name.
// SAFETY: no other object of the program defines it.
#[allow(non_upper_case_globals, reason = "the name that C looks up")]
#[unsafe(no_mangle)]
pub static regions: [Region; 9] = [
    region(c"collections", collections),
    region(c"formatting", formatting),
    region(c"strings", strings),
    region(c"sorting", sorting),
    region(c"channels", channels),
    region(c"panics", panics),
    region(c"files", files),
    region(c"numbers", numbers),
    Region { name: std::ptr::null(), prepare: None, run: None },
];

extern "C" fn be_quiet() {
    std::panic::set_hook(Box::new(|_| ()));
}

extern "C" fn collections(_: *const c_void) {
    let mut map = HashMap::new();
    let mut tree = BTreeMap::new();
    let mut queue = VecDeque::new();
    for i in 0..60u64 {
        map.insert(i * 7919 % 101, i.to_string());
        tree.insert(i * 31 % 61, vec![i; 3]);
        queue.push_front(i);
    }
    for i in 0..30 {
        map.remove(&i);
        tree.remove(&i);
    }
    let set: HashSet<_> = queue.iter().copied().collect();
    let heap: BinaryHeap<_> = queue.into_iter().collect();
    black_box((map, tree, set, heap.into_sorted_vec()));
}

extern "C" fn formatting(_: *const c_void) {
    let mut text = String::new();
    let _ = write!(text, "{:>8}|{:<5}|{:^7}|{:#x}|{:08.3}", "text", 42, 'c', 255, 2.5);
    let _ = write!(text, "{:?} {:#?}", Some("quoted\n"), vec![(1, "one")]);
    let _ = write!(text, "{:e} {} {}", 1234.5f64, f64::MAX, f32::MIN_POSITIVE);
    let _ = write!(text, "{} {}", u128::MAX, i64::MIN);
    black_box(text);
}

extern "C" fn strings(_: *const c_void) {
    let text = "Some words, na\u{ef}ve and caf\u{e9}, repeated ".repeat(5);
    let words: Vec<&str> = text.split_whitespace().collect();
    let joined = words.join("-").to_uppercase().replace("CAF", "x");
    black_box((joined.find("REPEATED"), joined.chars().rev().collect::<String>()));
    black_box((String::from_utf8_lossy(&[0x66, 0xff, 0x6f]).into_owned(), text.contains("zzz")));
}

extern "C" fn sorting(_: *const c_void) {
    let mut numbers: Vec<u32> = (0..200).map(|i| i * 7919 % 1009).collect();
    numbers.sort();
    numbers.sort_by(|a, b| b.cmp(a));
    numbers.sort_unstable_by_key(|value| value % 17);
    numbers.dedup();
    let sum: u32 = numbers.iter().filter(|value| *value % 3 == 0).map(|value| value / 2).sum();
    let mut grown = Vec::new();
    for i in 0..300 {
        grown.push(i);
    }
    black_box((sum, numbers.binary_search(&500).is_ok(), grown));
}

extern "C" fn channels(_: *const c_void) {
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new(Mutex::new(0));
    for i in 0..40 {
        let _ = sender.send(i);
        if let Ok(mut value) = shared.lock() {
            *value += i;
        }
    }
    drop(sender);
    let lock = RwLock::new(receiver.iter().sum::<i32>());
    black_box(lock.read().map(|value| *value).ok());
}

#[inline(never)]
fn fail(depth: u32) -> String {
    let kept = "dropped while unwinding".to_string();
    if depth == 0 {
        panic!("at the bottom of {kept}");
    }
    fail(depth - 1) + &kept
}

extern "C" fn panics(_: *const c_void) {
    black_box(std::panic::catch_unwind(|| fail(4)).is_err());
    black_box(std::panic::catch_unwind(|| black_box(&[1, 2, 3][..])[black_box(5)]).is_err());
}

extern "C" fn files(_: *const c_void) {
    black_box(std::fs::read_to_string("/etc/passwd").map(|text| text.lines().count()).ok());
    black_box(std::fs::metadata("/no/such/file").is_err());
    black_box(std::env::vars().count());
    black_box(std::path::Path::new("/usr/lib/../bin").components().count());
    black_box(std::time::Instant::now().elapsed());
}

extern "C" fn numbers(_: *const c_void) {
    for text in ["3.14159", "1e-320", "179769313486231570000e290", "nan", "x"] {
        black_box(text.parse::<f64>().ok());
    }
    for text in ["12", "-9223372036854775808", "99999999999999999999"] {
        black_box(text.parse::<i64>().ok());
    }
    black_box(black_box(1u128 << 100) / black_box(12345678901234567890u128));
    black_box((black_box(2.5f64).sin(), black_box(10.0f64).powf(0.3)));
}
