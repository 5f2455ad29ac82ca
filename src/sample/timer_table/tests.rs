use super::*;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

#[derive(Default)]
struct Kernel {
    made: RefCell<i32>,
    there: RefCell<BTreeSet<i32>>,
    /// Timer, first expiry and period of each arming.
    armed: RefCell<Vec<(i32, u64, u64)>>,
    closed: RefCell<BTreeSet<i32>>,
    gone: RefCell<BTreeSet<u32>>,
    refuses: RefCell<bool>,
    precise: RefCell<bool>,
    left: RefCell<BTreeSet<i32>>,
    clocks: RefCell<BTreeMap<u32, u64>>,
    process: RefCell<u32>,
    /// Threads that may tick in one period; 0 for all.
    crowd: RefCell<u32>,
}

impl Timers for Kernel {
    fn create(&self, _index: usize, _thread: u32) -> Result<i32, i32> {
        if *self.refuses.borrow() {
            return Err(11);
        }
        let timer = *self.made.borrow();
        *self.made.borrow_mut() += 1;
        self.there.borrow_mut().insert(timer);
        Ok(timer)
    }
    fn create_fallback(&self, index: usize, thread: u32) -> Result<i32, i32> {
        self.create(index, thread)
    }
    fn is_there(&self, timer: i32, _thread: u32) -> bool {
        !self.closed.borrow().contains(&timer)
    }
    fn arm(&self, timer: i32, first: u64, period: u64) {
        self.armed.borrow_mut().push((timer, first, period));
    }
    fn is_precise(&self, _timer: i32) -> bool {
        *self.precise.borrow()
    }
    fn close_copy(&self, timer: i32, _thread: u32) {
        assert!(self.left.borrow_mut().insert(timer));
    }
    fn delete(&self, timer: i32, _thread: u32) {
        assert!(self.there.borrow_mut().remove(&timer), "timer {timer} is not there");
    }
    fn process(&self) -> u32 {
        *self.process.borrow()
    }
    fn is_gone(&self, thread: u32) -> bool {
        self.gone.borrow().contains(&thread)
    }
    fn clock_of(&self, thread: u32) -> Option<u64> {
        self.clocks.borrow().get(&thread).copied()
    }
    fn periods_of_a_tick(&self, used: u32) -> u32 {
        match *self.crowd.borrow() {
            0 => 1,
            crowd => used.div_ceil(crowd).max(1),
        }
    }
}

const PERIOD: u64 = 10_000_000;

fn table() -> TimerTable<Vec<TimerEntry>> {
    let entries = (0..MAX_THREADS).map(|_| TimerEntry::unused());
    TimerTable::new(entries.collect())
}

fn thread_at(threads: &TimerTable<Vec<TimerEntry>>, thread: u32, now: u64) -> TickThread {
    TickThread { thread, generation: threads.generation(), now }
}

/// Adopts a thread at the clock `now`. Returns the entry's index, the timer and the first expiry.
fn adopted(
    threads: &TimerTable<Vec<TimerEntry>>,
    kernel: &Kernel,
    thread: u32,
    now: u64,
) -> (usize, i32, u64) {
    threads.adopt(kernel, thread_at(threads, thread, now), FirstTick::AtRandom);
    let (timer, first, _) = *kernel.armed.borrow().last().unwrap();
    let index = threads.entries.iter().position(|entry| entry.timer.load(Ordering::Relaxed) == timer + 1);
    (index.unwrap(), timer, now + first)
}

#[test]
fn covers_a_thread_until_the_session_ends() {
    let (threads, kernel) = (table(), Kernel::default());
    assert_eq!(threads.generation(), 0);
    threads.begin(&kernel, PERIOD);
    assert!(!threads.ensure_covered(&kernel, thread_at(&threads, 7, 0)));
    adopted(&threads, &kernel, 7, 0);
    assert!(threads.ensure_covered(&kernel, thread_at(&threads, 7, 1)));
    assert!(!threads.ensure_covered(&kernel, thread_at(&threads, 8, 1)));
    threads.end(&kernel);
    assert!(kernel.there.borrow().is_empty());
    assert_eq!(threads.generation(), 0);
    threads.begin(&kernel, PERIOD);
    assert!(!threads.ensure_covered(&kernel, thread_at(&threads, 7, 1)));
    assert_eq!(threads.used.load(Ordering::Relaxed), 0);
}

/// With kernel ticks of 4 ms, weights are the cells with a past expiry.
#[test]
fn sums_weights_to_the_time_within_one_period() {
    for period in [100_000, 1_000_000, 4_000_000, 10_000_000, 1_000_000_000] {
        let (threads, kernel) = (table(), Kernel::default());
        threads.begin(&kernel, period);
        let begin = 12_345_678;
        let (index, _, _) = adopted(&threads, &kernel, 7, begin);
        let mut sum = 0;
        for tick in 1..10_000 {
            let now = begin + tick * 4_000_000;
            sum += threads.tick(&kernel, index, thread_at(&threads, 7, now), |_| {}) * period;
            assert!(sum.abs_diff(now - begin) <= period, "{sum} ns of {} at {period} ns", now - begin);
        }
        assert!(sum > 0);
    }
}

#[test]
fn draws_places_uniformly_and_weighs_one() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (index, _, mut due) = adopted(&threads, &kernel, 7, 0);
    let mut tenths = [0u32; 10];
    for tick in 1..=40_000 {
        let armings = kernel.armed.borrow().len();
        assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {}), 1);
        tenths[(due - 1) as usize % PERIOD as usize * 10 / PERIOD as usize] += 1;
        // The kernel continues from the last arming.
        due = match kernel.armed.borrow().get(armings) {
            Some((_, first, _)) => due + first,
            None => due + PERIOD,
        };
        assert_eq!(kernel.armed.borrow().len() > armings, tick % TICKS_OF_A_PLACE == FIRST_DRAW);
    }
    // 10 000 draws, so 1000 a tenth with a deviation of 30, each for four ticks.
    assert!(tenths.iter().all(|&tenth| (3400..4600).contains(&tenth)), "{tenths:?}");
}

/// A program that repeats itself in each period is sampled at random.
#[test]
fn draws_the_place_of_each_precise_tick() {
    let (threads, kernel) = (table(), Kernel { precise: RefCell::new(true), ..Kernel::default() });
    threads.begin(&kernel, PERIOD);
    let (index, _, mut due) = adopted(&threads, &kernel, 7, 0);
    let (mut firsts, mut equal, mut before) = (0, 0, false);
    for _ in 0..40_000 {
        assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {}), 1);
        let is_in_first_half = (due - 1) % PERIOD < PERIOD / 2;
        firsts += u32::from(is_in_first_half);
        equal += u32::from(is_in_first_half == before);
        before = is_in_first_half;
        due += kernel.armed.borrow_mut().drain(..).next_back().expect("armed at each tick").1;
    }
    // With deviations of 100.
    assert!((19_500..20_500).contains(&firsts) && (19_500..20_500).contains(&equal), "{firsts}, {equal}");
}

/// Forty threads, of which four may tick in a period: a tick represents up to ten periods.
#[test]
fn lengthens_cells_with_more_threads_and_loses_no_time() {
    let (threads, kernel) = (table(), Kernel::default());
    *kernel.crowd.borrow_mut() = 4;
    threads.begin(&kernel, PERIOD);
    let (index, _, mut due) = adopted(&threads, &kernel, 7, 0);
    assert!(due <= PERIOD);
    let (mut sum, mut ticks) = (0, 0u64);
    for tick in 1..=400 {
        if tick <= 39 {
            adopted(&threads, &kernel, 8 * tick, 0);
        }
        let armings = kernel.armed.borrow().len();
        let weight = threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {});
        sum += weight * PERIOD;
        ticks += 1;
        assert!(weight <= 10 && sum.abs_diff(due) <= 10 * PERIOD, "{sum} ns of {due}");
        due = match kernel.armed.borrow().get(armings) {
            Some((_, first, _)) => due + first,
            None => due + weight * PERIOD,
        };
    }
    assert!(threads.used() == 40 && sum > 9 * ticks * PERIOD, "{sum} ns in {ticks} ticks");
    kernel.gone.borrow_mut().extend((1..=39).map(|thread| 8 * thread));
    threads.reap(&kernel, 100);
    assert_eq!(threads.used(), 1);
    let before = due;
    for _ in 0..8 {
        due += 10 * PERIOD;
        sum += threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {}) * PERIOD;
    }
    assert!(sum.abs_diff(due) <= 10 * PERIOD, "{sum} ns of {due}, {before} before");
    let (_, first, period) = *kernel.armed.borrow().last().unwrap();
    assert!(period == PERIOD && first <= 2 * PERIOD, "{first} and then {period} ns");
}

#[test]
fn sums_the_unaccounted_time_of_all_threads() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    for thread in 1..=100 {
        adopted(&threads, &kernel, thread, 0);
        kernel.clocks.borrow_mut().insert(thread, 3 * PERIOD);
    }
    assert!(threads.has(thread_at(&threads, 100, 0)) && !threads.has(thread_at(&threads, 101, 0)));
    assert_eq!(threads.unaccounted(&kernel), 300 * PERIOD as i64);
}

/// The counter deviates from the CPU clock by microseconds, either way.
#[test]
fn weighs_precise_ticks_with_jitter_as_one() {
    for begin in 777..827 {
        let (threads, kernel) = (table(), Kernel::default());
        *kernel.precise.borrow_mut() = true;
        threads.begin(&kernel, PERIOD);
        let (index, timer, mut next) = adopted(&threads, &kernel, 7, begin);
        let mut interval = next - begin;
        for tick in 1..=400u64 {
            let now = next - 3000 + tick * 7919 % 6000;
            assert_eq!(threads.index_of(7, timer), Some(index));
            let armings = kernel.armed.borrow().len();
            let weight = threads.tick(&kernel, index, thread_at(&threads, 7, now), |_| {});
            assert_eq!(weight, 1, "{begin}, tick {tick} at {now}");
            if let Some((_, length, _)) = kernel.armed.borrow().get(armings) {
                assert!(*length <= 2 * PERIOD);
                interval = *length;
                next = now;
            }
            next += interval;
            assert!((tick * PERIOD).abs_diff(now - begin) <= PERIOD + 6000, "tick {tick}: {}", now - begin);
        }
    }
}

#[test]
fn ticks_first_after_one_period_on_request() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    threads.adopt(&kernel, thread_at(&threads, 7, 123), FirstTick::AfterPeriod);
    assert_eq!(*kernel.armed.borrow(), [(0, PERIOD, PERIOD)]);
    assert_eq!(threads.tick(&kernel, 7 * WINDOW, thread_at(&threads, 7, 123 + PERIOD), |_| {}), 1);
}

#[test]
fn weighs_early_ticks_and_deleted_timers_as_zero() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (index, _, due) = adopted(&threads, &kernel, 7, 0);
    assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due - 1), |_| {}), 0, "too early");
    assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 8, due), |_| {}), 0, "another's");
    assert_eq!(threads.tick(&kernel, MAX_THREADS, thread_at(&threads, 7, due), |_| {}), 0, "no such entry");
    threads.end(&kernel);
    assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {}), 0, "over");
}

#[test]
fn frees_the_entry_of_a_reused_thread_id() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    for (since, later) in [(1_000_000_000, 3_000_000), (0, PERIOD * 6 + OVERDUE_NANOS)] {
        adopted(&threads, &kernel, 7, since);
        assert!(threads.ensure_covered(&kernel, thread_at(&threads, 7, since + PERIOD)));
        assert!(!threads.ensure_covered(&kernel, thread_at(&threads, 7, later)));
        assert!(kernel.there.borrow().is_empty());
    }
}

#[test]
fn deletes_timers_of_exited_threads() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    for thread in 1..=3000 {
        adopted(&threads, &kernel, thread, 0);
    }
    kernel.gone.borrow_mut().extend(1..3000);
    for _ in 0..3000 {
        threads.reap(&kernel, 1);
    }
    assert_eq!(kernel.there.borrow().len(), 1);
    assert!(threads.ensure_covered(&kernel, thread_at(&threads, 3000, 1)));
}

#[test]
fn reuses_the_entry_of_an_exited_thread() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let of_one_window = |i: u32| 1 + i * (MAX_THREADS / WINDOW) as u32;
    for i in 0..WINDOW as u32 {
        adopted(&threads, &kernel, of_one_window(i), 0);
    }
    let next = thread_at(&threads, of_one_window(WINDOW as u32), 0);
    threads.adopt(&kernel, next, FirstTick::AtRandom);
    assert_eq!((threads.refused(), threads.ensure_covered(&kernel, next)), (1, false));
    kernel.gone.borrow_mut().insert(of_one_window(3));
    threads.adopt(&kernel, next, FirstTick::AtRandom);
    assert_eq!((threads.refused(), threads.ensure_covered(&kernel, next)), (1, true));
}

#[test]
fn counts_a_refused_timer_and_frees_its_entry() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    *kernel.refuses.borrow_mut() = true;
    threads.adopt(&kernel, thread_at(&threads, 1, 0), FirstTick::AtRandom);
    assert_eq!((threads.refused(), threads.used.load(Ordering::Relaxed)), (1, 0));
    *kernel.refuses.borrow_mut() = false;
    threads.adopt(&kernel, thread_at(&threads, 1, 0), FirstTick::AtRandom);
    assert_eq!((threads.refused(), kernel.there.borrow().len()), (1, 1));
}

/// Closed three and a half periods before the process's timer finds that.
#[test]
fn replaces_a_closed_timer_and_loses_no_time() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (index, old, due) = adopted(&threads, &kernel, 7, 0);
    let mut sum = threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {}) * PERIOD;
    kernel.closed.borrow_mut().insert(old);
    assert!(threads.ensure_covered(&kernel, thread_at(&threads, 7, due + PERIOD)));
    assert_eq!(kernel.there.borrow().iter().copied().collect::<Vec<_>>(), [old]);
    let found = due + 7 * PERIOD / 2;
    assert!(threads.ensure_covered(&kernel, thread_at(&threads, 7, found)), "it has another");
    let there: Vec<_> = kernel.there.borrow().iter().copied().collect();
    assert_eq!(there, [old + 1], "the old one is deleted");
    assert_eq!(*kernel.armed.borrow().last().unwrap(), (old + 1, 1, PERIOD));
    assert_eq!((threads.used(), threads.refused()), (1, 0));
    for tick in 0..100 {
        let now = found + 1000 + tick * PERIOD;
        sum += threads.tick(&kernel, index, thread_at(&threads, 7, now), |_| {}) * PERIOD;
        assert!(sum.abs_diff(now) <= PERIOD, "{sum} ns of {now}");
    }
}

#[test]
fn replaces_a_closed_timer_of_another_thread() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (index, old, due) = adopted(&threads, &kernel, 7, 0);
    adopted(&threads, &kernel, 8, 0);
    kernel.closed.borrow_mut().insert(old);
    threads.reap(&kernel, 2);
    let there: Vec<_> = kernel.there.borrow().iter().copied().collect();
    assert_eq!((there, threads.used()), (vec![old + 1, old + 2], 2));
    assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due + PERIOD), |_| {}), 2);
}

/// The new thread is younger than the time that the old one's ticks represent.
#[test]
fn neither_covers_nor_surveys_a_reused_thread_id() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (index, _, due) = adopted(&threads, &kernel, 7, 0);
    assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due + 2 * PERIOD), |_| {}), 3);
    assert!(threads.has_ticked(thread_at(&threads, 7, 0)) && !threads.has_ticked(thread_at(&threads, 8, 0)));
    kernel.clocks.borrow_mut().insert(7, 60_000);
    assert_eq!(threads.unaccounted(&kernel), 0, "the time of the thread that had the id before");
    assert!(threads.ensure_covered(&kernel, thread_at(&threads, 7, due + 2 * PERIOD)));
    assert!(!threads.ensure_covered(&kernel, thread_at(&threads, 7, 60_000)));
}

/// The process's timer samples the thread then.
#[test]
fn frees_the_entry_of_a_closed_timer_without_replacement() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (_, old, due) = adopted(&threads, &kernel, 7, 0);
    kernel.closed.borrow_mut().insert(old);
    *kernel.refuses.borrow_mut() = true;
    assert!(!threads.ensure_covered(&kernel, thread_at(&threads, 7, due + PERIOD)));
    assert_eq!((threads.used(), kernel.there.borrow().len()), (0, 0));
}

#[test]
fn returns_the_time_since_the_last_ticks() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    assert_eq!(threads.unaccounted(&kernel), 0);
    let (index, _, due) = adopted(&threads, &kernel, 7, 1_000);
    adopted(&threads, &kernel, 8, 2_000);
    kernel.clocks.borrow_mut().extend([(7, 1_000), (8, 502_000)]);
    assert_eq!(threads.unaccounted(&kernel), 500_000);
    assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {}), 1);
    kernel.clocks.borrow_mut().insert(7, due);
    assert_eq!(threads.unaccounted(&kernel), 500_000 + (due - 1_000) as i64 - PERIOD as i64);
    // Exited threads do not count, nor new threads with their IDs.
    kernel.clocks.borrow_mut().insert(7, 10);
    assert_eq!(threads.unaccounted(&kernel), 500_000);
    kernel.clocks.borrow_mut().remove(&8);
    assert_eq!(threads.unaccounted(&kernel), 0);
    threads.end(&kernel);
    threads.begin(&kernel, PERIOD);
    for thread in 1..=320 {
        adopted(&threads, &kernel, thread, 0);
        kernel.clocks.borrow_mut().insert(thread, 1000 * u64::from(thread));
    }
    assert_eq!(threads.unaccounted(&kernel), 1000 * 320 * 321 / 2);
    kernel.gone.borrow_mut().extend(1..=320);
    (0..320).for_each(|_| threads.reap(&kernel, 1));
    assert_eq!((threads.unaccounted(&kernel), threads.used.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn deletes_no_timers_of_another_process() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    adopted(&threads, &kernel, 7, 0);
    *kernel.process.borrow_mut() = 1;
    assert!(!threads.is_this_process(&kernel));
    threads.end(&kernel);
    assert_eq!((kernel.there.borrow().len(), threads.generation()), (1, 1));
}

/// A survey may read a clock before a tick, and the sum after it. The tick charges whole cells.
#[test]
fn keeps_the_time_after_a_tick_in_the_sum() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (index, _, due) = adopted(&threads, &kernel, 7, 0);
    let now = due + 4 * PERIOD - 1;
    kernel.clocks.borrow_mut().insert(7, now);
    assert_eq!(threads.survey(&kernel), now as i64);
    let mut charged = 0;
    threads.tick(&kernel, index, thread_at(&threads, 7, now), |weight| charged = weight * PERIOD);
    assert_eq!(charged, 4 * PERIOD);
    assert_eq!(threads.unaccounted.load(Ordering::Relaxed) as i64, now as i64 - charged as i64);
}

#[test]
fn survey_deletes_timers_of_exited_threads_and_replaces_closed_ones() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    for thread in 1..=3 {
        adopted(&threads, &kernel, thread, 0);
    }
    let timers: Vec<i32> = kernel.there.borrow().iter().copied().collect();
    // The first has exited. The others' timers are closed; a tick of the third may still come.
    kernel.clocks.borrow_mut().extend([(2, 2 * PERIOD + 1), (3, PERIOD)]);
    kernel.gone.borrow_mut().insert(1);
    kernel.closed.borrow_mut().extend([timers[1], timers[2]]);
    assert_eq!(threads.survey(&kernel), 3 * PERIOD as i64 + 1);
    let left: Vec<i32> = kernel.there.borrow().iter().copied().collect();
    assert_eq!((threads.used(), left), (2, vec![timers[2], timers[2] + 1]));
    assert_eq!(kernel.armed.borrow().last().unwrap().0, timers[2] + 1);
}

/// A concurrent survey finds the time unaccounted, and not in the remainder.
#[test]
fn charges_a_tick_before_the_entry_changes() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    let (index, _, due) = adopted(&threads, &kernel, 7, 0);
    kernel.clocks.borrow_mut().insert(7, due);
    let mut seen = 0;
    threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| seen = threads.unaccounted(&kernel));
    assert_eq!(seen, due as i64);
    assert!(threads.unaccounted(&kernel) <= 0);
}

#[test]
fn forked_child_deletes_no_timers_of_its_parent() {
    let (threads, kernel) = (table(), Kernel::default());
    threads.begin(&kernel, PERIOD);
    adopted(&threads, &kernel, 7, 0);
    threads.reset_after_fork(&kernel);
    assert_eq!(kernel.left.borrow().len(), 1);
    assert_eq!(kernel.there.borrow().len(), 1, "as the parent's, of which the child has none");
    threads.begin(&kernel, PERIOD);
    assert!(!threads.ensure_covered(&kernel, thread_at(&threads, 7, 1)));
    let (index, _, due) = adopted(&threads, &kernel, 7, 0);
    assert_eq!(threads.tick(&kernel, index, thread_at(&threads, 7, due), |_| {}), 1);
}
