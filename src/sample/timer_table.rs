//! The table of per-thread timers, described for clock `cpu`. Signal-safe: system calls.
//!
//! A start and some calls of `pthread_create` find threads, and the process's timer the others. A
//! thread that it interrupts for the first time is *adopted*:
//! it gets a timer that counts only its time. A thread that lives for a millisecond needs none:
//! another thread represents its time ([`remainder`](super::remainder)).
//!
//! ```text
//! CPU clock of a thread |----+----x-----+---x-------+x--------+-----x---|   + cell (period) x tick
//!                            first expiry: uniformly random in its cell
//! ```
//!
//! A tick represents its cell, or all cells with a past tick if the kernel sends fewer. In
//! clock `wall` cells are some periods long if there are many threads. The place in the cell is
//! drawn again every few ticks, with a precise timer at each: a program in step with the period
//! must not always be sampled at the same point.
//!
//! | entry's key | its timer | meaning | may become |
//! | --- | --- | --- | --- |
//! | 0 | 0 | free | claimed, by compare-exchange of the key |
//! | a thread's | 0 | claimed; or about to be free | in use; or free |
//! | a thread's | nonzero | in use | about to be free, or in use with another timer; by an exchange |
//!
//! The thread that takes a timer out deletes it, and frees the entry or stores another one.
//! [`TimerTable::end`] withdraws the generation and then takes all timers; an adoption stores the
//! timer and then checks the generation. So one of the two sees the other, and no timer is left.
//!
//! The application can close a perf event's descriptor (`closefrom(3)`), and the kernel keeps an
//! exited thread's timer. [`TimerTable::survey`] repairs both; process ticks replace closed events.
//!
//! A *precise* timer (clock `perf`) has its own counter, some microseconds off the CPU clock: its
//! tick may come half a period early.
//!
//! Any context writes, without waiting: handlers, starts, stops, and hooks (`sigaction`, `prctl`).

mod entry;

pub(crate) use entry::{TickThread, TimerEntry};

use crate::sync::{
    Ordering,
    modelled::{AtomicU32, AtomicU64, fence},
};

/// Threads beyond these are sampled by the process's timer.
pub(crate) const MAX_THREADS: usize = if cfg!(loom) { 64 } else { 4096 };
/// Entries that a thread may use, selected by its ID.
const WINDOW: usize = 8;
/// Ticks between two draws of the place in the cell, if the timer is not precise.
const TICKS_OF_A_PLACE: u32 = 4;
/// The first draw. A thread's rest at an earlier exit is in the remainder; later it averages zero.
const FIRST_DRAW: u32 = 2;
/// Timers that a survey in a handler deletes or replaces at most.
const MAX_REPAIRED: u32 = 32;
/// Nanoseconds, plus some periods, after which a late timer is dead: kernel ticks may miss threads.
const OVERDUE_NANOS: u64 = 200_000_000;

pub(crate) trait Timers {
    /// Creates a timer of the thread's time, with `index` in its signal, or its
    /// descriptor. Returns its ID.
    ///
    /// # Errors
    /// The system's error number, or `EAGAIN` at the limit.
    fn create(&self, index: usize, thread: u32) -> Result<i32, i32>;
    /// The same, with a timer that the application cannot close.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    fn create_fallback(&self, index: usize, thread: u32) -> Result<i32, i32>;
    /// False for a timer that the application has closed.
    fn is_there(&self, timer: i32, thread: u32) -> bool;
    /// Ticks in `first` nanoseconds, then each period (a precise one each `first`).
    fn arm(&self, timer: i32, first: u64, period: u64);
    /// True for a timer with its own counter.
    fn is_precise(&self, timer: i32) -> bool;
    fn delete(&self, timer: i32, thread: u32);
    /// Closes a forked child's copy.
    fn close_copy(&self, timer: i32, thread: u32);
    fn process(&self) -> u32;
    fn is_gone(&self, thread: u32) -> bool;
    /// None if the process has no such thread.
    fn clock_of(&self, thread: u32) -> Option<u64>;
    /// Periods of a cell, if `used` threads have timers.
    fn periods_of_a_tick(&self, _used: u32) -> u32 {
        1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstTick {
    /// At a random place in the first period: many short threads get one tick per period of time.
    AtRandom,
    /// After one period: the number of samples of a short program is certain.
    AfterPeriod,
}

#[derive(Clone, Copy)]
struct IndexedEntry<'t> {
    index: usize,
    entry: &'t TimerEntry,
}

/// `E` holds the entries, which are all zero at first.
pub(crate) struct TimerTable<E> {
    entries: E,
    /// Of the session that adopts threads, or 0.
    generation: AtomicU32,
    /// The last nonzero generation.
    last: AtomicU32,
    /// Entries that are not free.
    used: AtomicU32,
    bits: [AtomicU64; MAX_THREADS / 64],
    cursor: AtomicU32,
    /// Refused timers since the process's start.
    refused: AtomicU64,
    /// Nanoseconds.
    period: AtomicU64,
    /// Sum of the entries' unaccounted time, as an `i64`.
    unaccounted: AtomicU64,
    /// A child that shares the memory has none of the timers.
    owner: AtomicU32,
}

impl<E: AsRef<[TimerEntry]>> TimerTable<E> {
    pub(crate) fn new(entries: E) -> Self {
        Self {
            entries,
            generation: AtomicU32::new(0),
            last: AtomicU32::new(0),
            used: AtomicU32::new(0),
            bits: core::array::from_fn(|_| AtomicU64::new(0)),
            cursor: AtomicU32::new(0),
            refused: AtomicU64::new(0),
            period: AtomicU64::new(1),
            unaccounted: AtomicU64::new(0),
            owner: AtomicU32::new(0),
        }
    }

    /// Permits adoption. For the start of a session.
    pub(crate) fn begin(&self, timers: &impl Timers, period_nanos: u64) {
        self.owner.store(timers.process(), Ordering::Relaxed);
        self.period.store(period_nanos.max(1), Ordering::Relaxed);
        let next = self.last.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.last.store(next, Ordering::Relaxed);
        // Release: pairs with the acquire in `generation`, for the period.
        self.generation.store(next, Ordering::Release);
    }

    /// Deletes all timers, and permits no more.
    pub(crate) fn end(&self, timers: &impl Timers) {
        if self.generation() == 0
            || !self.is_this_process(timers)
            || self.generation.swap(0, Ordering::AcqRel) == 0
        {
            return;
        }
        // Pairs with the fences in `try_adopt` and `replace`.
        fence(Ordering::SeqCst);
        self.visit(0, |place| {
            self.withdraw(timers, place, place.entry.timer.load(Ordering::Acquire));
            true
        });
    }

    /// 0 if no threads are adopted.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// False in a child that shares the memory or has a copy of it.
    pub(crate) fn is_this_process(&self, timers: &impl Timers) -> bool {
        self.owner.load(Ordering::Relaxed) == timers.process()
    }

    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// True if the thread has a timer, even a dead one.
    pub(crate) fn has(&self, tick_thread: TickThread) -> bool {
        let own = |place: &IndexedEntry<'_>| place.entry.key.load(Ordering::Acquire) == tick_thread.key();
        self.window(tick_thread.thread)
            .find(own)
            .is_some_and(|place| place.entry.timer.load(Ordering::Acquire) != 0)
    }

    /// True if the thread's own timer samples it. Frees the entry of a dead timer, which the
    /// application has deleted, or which an exited thread with this ID had.
    pub(crate) fn ensure_covered(&self, timers: &impl Timers, tick_thread: TickThread) -> bool {
        // Acquire: pairs with the releases in `try_adopt`, for the entry's other fields.
        let own = |place: &IndexedEntry<'_>| place.entry.key.load(Ordering::Acquire) == tick_thread.key();
        let Some(place) = self.window(tick_thread.thread).find(own) else { return false };
        let entry = place.entry;
        let timer = entry.timer.load(Ordering::Acquire);
        if timer == 0 {
            return false;
        }
        let period = self.period.load(Ordering::Relaxed);
        let is_overdue = tick_thread.now > entry.due.load(Ordering::Relaxed).saturating_add(period / 2);
        if is_overdue && !timers.is_there(timer.wrapping_sub(1), tick_thread.thread) {
            return self.replace(timers, place, timer, tick_thread);
        }
        let latest =
            entry.due.load(Ordering::Relaxed).saturating_add(OVERDUE_NANOS.saturating_add(4 * period));
        let is_alive = entry.may_be_of(tick_thread.now, period) && tick_thread.now <= latest;
        if !is_alive {
            self.withdraw(timers, place, timer);
        }
        is_alive
    }

    /// Replaces a closed timer. The cells stay: the first tick has the weight of all that have
    /// passed. False if the thread has no timer now.
    fn replace(
        &self,
        timers: &impl Timers,
        place: IndexedEntry<'_>,
        old: i32,
        tick_thread: TickThread,
    ) -> bool {
        let Ok(new) = timers.create_fallback(place.index, tick_thread.thread) else {
            self.withdraw(timers, place, old);
            return false;
        };
        let entry = place.entry;
        let stored = new.wrapping_add(1);
        // AcqRel, as in each exchange: the thread that takes a timer out deletes it.
        if entry.timer.compare_exchange(old, stored, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            timers.delete(new, tick_thread.thread);
            return false;
        }
        timers.delete(old.wrapping_sub(1), tick_thread.thread);
        // Pairs with the fence in `end`. An `end` that took the old timer came first.
        fence(Ordering::SeqCst);
        let is_of_session = self.generation.load(Ordering::Relaxed) == tick_thread.generation;
        // The entry may be another thread's, with a new descriptor of the number `old`.
        let is_its_own = entry.key.load(Ordering::Relaxed) == tick_thread.key();
        if is_of_session && is_its_own {
            let period = self.period.load(Ordering::Relaxed);
            let cell = period.saturating_mul(u64::from(entry.periods.load(Ordering::Relaxed)));
            timers.arm(new, 1, cell);
        } else {
            self.withdraw(timers, place, stored);
        }
        is_of_session && is_its_own
    }

    /// Adopts the calling thread, or one that no tick has found yet, if a timer is available.
    pub(crate) fn adopt(&self, timers: &impl Timers, tick_thread: TickThread, first: FirstTick) {
        if !self.try_adopt(timers, tick_thread, first) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn try_adopt(&self, timers: &impl Timers, tick_thread: TickThread, first: FirstTick) -> bool {
        let Some(place) = self.claim(tick_thread).or_else(|| {
            self.window(tick_thread.thread).for_each(|place| self.withdraw_if_gone(timers, place));
            self.claim(tick_thread)
        }) else {
            return false;
        };
        // A concurrent adoption by a session's start: both give up, and the next tick or scan
        // adopts.
        fence(Ordering::SeqCst);
        let is_other = |other: &IndexedEntry<'_>| {
            other.index != place.index && other.entry.key.load(Ordering::Relaxed) == tick_thread.key()
        };
        if self.window(tick_thread.thread).any(|other| is_other(&other)) {
            self.free(place);
            return true;
        }
        let Ok(timer) = timers.create(place.index, tick_thread.thread) else {
            self.free(place);
            return false;
        };
        let entry = place.entry;
        let period = self.period.load(Ordering::Relaxed);
        let periods = self.periods_of_a_tick(timers);
        let cell = period.saturating_mul(u64::from(periods));
        let first = match first {
            FirstTick::AtRandom => draw(tick_thread.now ^ tick_thread.key(), cell),
            FirstTick::AfterPeriod => cell,
        };
        entry.periods.store(periods, Ordering::Relaxed);
        entry.ticks.store(0, Ordering::Relaxed);
        entry.since.store(tick_thread.now, Ordering::Relaxed);
        entry.due.store(tick_thread.now.wrapping_add(first), Ordering::Relaxed);
        entry.place.store(first, Ordering::Relaxed);
        // Release: pairs with the acquires of the timer, for the fields above.
        entry.timer.store(timer.wrapping_add(1), Ordering::Release);
        // Pairs with the fence in `end` (see the module).
        fence(Ordering::SeqCst);
        if self.generation.load(Ordering::Relaxed) == tick_thread.generation {
            // After an `end`, no timer has this ID; or a new event has it, which this only delays.
            timers.arm(timer, first, cell);
        } else {
            self.withdraw(timers, place, timer.wrapping_add(1));
        }
        true
    }

    /// Returns a tick's weight in periods; 0 for an early tick or a deleted timer. The signal
    /// has led to `index`. Calls `charge` before the entry changes: a concurrent survey finds the
    /// time unaccounted, not counted twice.
    pub(crate) fn tick(
        &self,
        timers: &impl Timers,
        index: usize,
        tick_thread: TickThread,
        charge: impl FnOnce(u64),
    ) -> u64 {
        let Some(entry) = self.entries.as_ref().get(index) else { return 0 };
        let timer = entry.timer.load(Ordering::Acquire);
        // By the thread, not by the timer's ID in the signal, which emulators get wrong.
        if timer == 0 || entry.key.load(Ordering::Relaxed) != tick_thread.key() {
            return 0;
        }
        let (timer, now) = (timer.wrapping_sub(1), tick_thread.now);
        let period = self.period.load(Ordering::Relaxed);
        let periods = u64::from(entry.periods.load(Ordering::Relaxed));
        let cell = period.saturating_mul(periods);
        let due = entry.due.load(Ordering::Relaxed);
        let is_precise = timers.is_precise(timer);
        let tolerance = if is_precise { period / 2 } else { 0 };
        let Some(late) = now.saturating_add(tolerance).checked_sub(due) else { return 0 };
        let cells = late.checked_div(cell).unwrap_or(0).saturating_add(1);
        let weight = cells.saturating_mul(periods);
        let next = due.wrapping_add(weight.wrapping_mul(period));
        charge(weight);
        let represented_until = entry.represented_until().wrapping_add(weight.wrapping_mul(period));
        self.note_unaccounted(entry, now.wrapping_sub(represented_until));
        let ticks = entry.ticks.load(Ordering::Relaxed).wrapping_add(1);
        entry.ticks.store(ticks, Ordering::Relaxed);
        if ticks % TICKS_OF_A_PLACE == FIRST_DRAW || is_precise && ticks > FIRST_DRAW {
            let periods = self.periods_of_a_tick(timers);
            let cell = period.saturating_mul(u64::from(periods));
            entry.periods.store(periods, Ordering::Relaxed);
            let place = draw(now ^ due.rotate_left(32), cell);
            let due = next.wrapping_sub(entry.place.swap(place, Ordering::Relaxed)).wrapping_add(place);
            entry.due.store(due, Ordering::Relaxed);
            timers.arm(timer, due.saturating_sub(now).max(1), cell);
        } else {
            entry.due.store(next, Ordering::Relaxed);
            if is_precise {
                timers.arm(timer, next.saturating_sub(now).max(1), period);
            }
        }
        weight
    }

    pub(crate) fn drop_timer(&self, timers: &impl Timers, thread: u32) {
        self.window(thread).for_each(|place| {
            let timer = place.entry.timer.load(Ordering::Acquire);
            if timer != 0 && place.entry.key.load(Ordering::Relaxed) as u32 == thread {
                self.withdraw(timers, place, timer);
            }
        });
    }

    /// The index of the thread's entry with this timer.
    pub(crate) fn index_of(&self, thread: u32, timer: i32) -> Option<usize> {
        let has =
            |place: &IndexedEntry<'_>| place.entry.timer.load(Ordering::Acquire) == timer.wrapping_add(1);
        self.window(thread).find(has).map(|place| place.index)
    }

    /// Checks the next `most` threads: deletes exited ones' timers, and replaces closed timers.
    pub(crate) fn reap(&self, timers: &impl Timers, most: u32) {
        self.visit_some(most, |place| self.repair(timers, place));
    }

    fn repair(&self, timers: &impl Timers, place: IndexedEntry<'_>) {
        let timer = place.entry.timer.load(Ordering::Acquire);
        let key = place.entry.key.load(Ordering::Relaxed);
        let tick_thread = TickThread { thread: key as u32, generation: (key >> 32) as u32, now: 0 };
        if timer != 0
            && !timers.is_there(timer.wrapping_sub(1), tick_thread.thread)
            && !timers.is_gone(tick_thread.thread)
        {
            self.replace(timers, place, timer, tick_thread);
        } else {
            self.withdraw_if_gone(timers, place);
        }
    }

    pub(crate) fn has_ticked(&self, tick_thread: TickThread) -> bool {
        let own = |place: &IndexedEntry<'_>| place.entry.key.load(Ordering::Acquire) == tick_thread.key();
        self.window(tick_thread.thread)
            .find(own)
            .is_some_and(|place| place.entry.ticks.load(Ordering::Relaxed) != 0)
    }

    /// Nanoseconds that threads have used since their last represented cells; negative within
    /// these.
    pub(crate) fn unaccounted(&self, timers: &impl Timers) -> i64 {
        self.visit(0, |place| {
            self.update(timers, place);
            true
        });
        self.unaccounted.load(Ordering::Relaxed) as i64
    }

    /// The same, from the last readings of the clocks.
    pub(crate) fn noted_unaccounted(&self) -> i64 {
        self.unaccounted.load(Ordering::Acquire) as i64
    }

    /// The same; deletes exited threads' timers, and replaces closed ones that are overdue.
    pub(crate) fn survey(&self, timers: &impl Timers) -> i64 {
        let overdue = self.period.load(Ordering::Relaxed).saturating_mul(2) as i64;
        let mut repaired = 0;
        self.visit(0, |place| {
            let needs_repair = self.update(timers, place).is_none_or(|unaccounted| unaccounted > overdue);
            if needs_repair && repaired < MAX_REPAIRED {
                repaired += 1;
                self.repair(timers, place);
            }
            true
        });
        self.noted_unaccounted()
    }

    /// Updates and returns a thread's time without a tick; None if the thread has exited.
    fn update(&self, timers: &impl Timers, IndexedEntry { entry, .. }: IndexedEntry<'_>) -> Option<i64> {
        let thread = entry.key.load(Ordering::Relaxed) as u32;
        let timer = entry.timer.load(Ordering::Acquire);
        if timer == 0 {
            return Some(0);
        }
        // An exited thread has no next tick, and its ID may have another clock.
        let period = self.period.load(Ordering::Relaxed);
        let Some(now) = timers.clock_of(thread).filter(|now| entry.may_be_of(*now, period)) else {
            self.note_unaccounted(entry, 0);
            return None;
        };
        let unaccounted = now.wrapping_sub(entry.represented_until());
        self.note_unaccounted(entry, unaccounted);
        // If the entry was freed since, `free` had subtracted its time before this added it.
        if entry.timer.load(Ordering::Relaxed) != timer {
            self.note_unaccounted(entry, 0);
        }
        Some(unaccounted as i64)
    }

    fn periods_of_a_tick(&self, timers: &impl Timers) -> u32 {
        timers.periods_of_a_tick(self.used())
    }

    fn note_unaccounted(&self, entry: &TimerEntry, unaccounted: u64) {
        if unaccounted == 0 && entry.unaccounted.load(Ordering::Relaxed) == 0 {
            return;
        }
        // AcqRel: an exchange after the one in `free` sees that the timer is gone.
        let before = entry.unaccounted.swap(unaccounted, Ordering::AcqRel);
        // Release: pairs with the acquire in `noted_unaccounted`, for earlier charges.
        self.unaccounted.fetch_add(unaccounted.wrapping_sub(before), Ordering::Release);
    }

    /// Calls `visit` with the next `most` entries in use, each at most once.
    fn visit_some(&self, most: u32, mut visit: impl FnMut(IndexedEntry<'_>)) {
        let start = self.cursor.load(Ordering::Relaxed) as usize;
        let (mut visited, mut next) = (0, start);
        self.visit(start, |place| {
            visit(place);
            visited += 1;
            next = place.index.wrapping_add(1);
            visited < most
        });
        // Relaxed, without exchange: two threads may visit the same entries.
        self.cursor.store(if next < MAX_THREADS { next as u32 } else { 0 }, Ordering::Relaxed);
    }

    /// Calls `visit` with each entry in use, from `start` and around, until it returns false.
    fn visit(&self, start: usize, mut visit: impl FnMut(IndexedEntry<'_>) -> bool) {
        let (first, bit) = (start / 64, start % 64);
        let before = (1u64 << bit).wrapping_sub(1);
        let words = self.bits.iter().enumerate();
        // The first word comes twice: its upper bits first, the others last.
        let upper = words.clone().skip(first).take(1).map(|(i, word)| (i, word, !before));
        let others = words
            .clone()
            .skip(first + 1)
            .chain(words.clone().take(first))
            .map(|(i, word)| (i, word, u64::MAX));
        let lower = words.skip(first).take(1).map(|(i, word)| (i, word, before));
        for (i, word, mask) in upper.chain(others).chain(lower) {
            // Acquire: pairs with `mark`, for the entry as it was when its bit was set.
            let mut bits = word.load(Ordering::Acquire) & mask;
            while bits != 0 {
                let index = i * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if self.entries.as_ref().get(index).is_some_and(|entry| !visit(IndexedEntry { index, entry }))
                {
                    return;
                }
            }
        }
    }

    fn mark(&self, index: usize, is_used: bool) {
        let Some(word) = self.bits.get(index / 64) else { return };
        let bit = 1u64 << (index % 64);
        if is_used {
            word.fetch_or(bit, Ordering::AcqRel);
        } else {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// In a forked child, which has no timers and no other thread.
    pub(crate) fn reset_after_fork(&self, timers: &impl Timers) {
        self.generation.store(0, Ordering::Relaxed);
        if self.used.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        self.visit(0, |IndexedEntry { entry, .. }| {
            let timer = entry.timer.swap(0, Ordering::Relaxed);
            if timer != 0 {
                timers.close_copy(timer.wrapping_sub(1), entry.key.load(Ordering::Relaxed) as u32);
            }
            entry.unaccounted.store(0, Ordering::Relaxed);
            entry.key.store(0, Ordering::Relaxed);
            true
        });
        self.unaccounted.store(0, Ordering::Relaxed);
        // Another thread of the parent may have been about to change one.
        for word in &self.bits {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn window(&self, thread: u32) -> impl Iterator<Item = IndexedEntry<'_>> {
        let entries = self.entries.as_ref();
        // Consecutive IDs have adjacent windows.
        let start = (thread as usize).wrapping_mul(WINDOW).checked_rem(entries.len()).unwrap_or(0);
        entries
            .iter()
            .enumerate()
            .skip(start)
            .take(WINDOW)
            .map(|(index, entry)| IndexedEntry { index, entry })
    }

    fn claim(&self, tick_thread: TickThread) -> Option<IndexedEntry<'_>> {
        let taken = |IndexedEntry { entry, .. }: &IndexedEntry<'_>| {
            entry.key.load(Ordering::Relaxed) == 0
                && entry
                    .key
                    .compare_exchange(0, tick_thread.key(), Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        };
        let place = self.window(tick_thread.thread).find(taken)?;
        self.used.fetch_add(1, Ordering::Relaxed);
        self.mark(place.index, true);
        Some(place)
    }

    fn withdraw_if_gone(&self, timers: &impl Timers, place: IndexedEntry<'_>) {
        let entry = place.entry;
        // The timer first: it changes if another thread gets the entry.
        let timer = entry.timer.load(Ordering::Acquire);
        let thread = entry.key.load(Ordering::Relaxed) as u32;
        if timer != 0 && thread != 0 && timers.is_gone(thread) {
            self.withdraw(timers, place, timer);
        }
    }

    /// Deletes this timer and frees the entry, unless another thread has taken the timer.
    fn withdraw(&self, timers: &impl Timers, place: IndexedEntry<'_>, timer: i32) {
        if timer != 0
            && place.entry.timer.compare_exchange(timer, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            timers.delete(timer.wrapping_sub(1), place.entry.key.load(Ordering::Relaxed) as u32);
            self.free(place);
        }
    }

    fn free(&self, IndexedEntry { index, entry }: IndexedEntry<'_>) {
        self.note_unaccounted(entry, 0);
        self.mark(index, false);
        self.used.fetch_sub(1, Ordering::Relaxed);
        // Release: pairs with the compare-exchange in `claim`, for all earlier accesses.
        entry.key.store(0, Ordering::Release);
    }
}

/// Returns a number from 1 to `period`, from `seed` (splitmix64).
fn draw(seed: u64, period: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) % period.max(1) + 1
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
