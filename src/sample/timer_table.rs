//! Threads that have a timer of their own, on their own CPU clock (clock `cpu`; see the end for the others).
//!
//! The process's timer finds threads: whichever it interrupts for the first time is *adopted*, and from then on sampled by
//! its own timer, which interrupts no other thread and counts nobody else's time. So each thread gets its share, and one
//! that lives for a millisecond needs none: its time is in the process's clock, and the next thread that is met stands
//! for it ([`remainder`](super::remainder)).
//!
//! ```text
//! CPU clock of a thread |----+----x-----+---x-------+x--------+-----x---|   + cells of one period, x ticks
//!                            first expiry: uniformly random in its cell
//! ```
//!
//! A tick stands for its cell, or for all cells whose tick has passed where the kernel sends fewer. In clock `wall`, where the
//! clock is that of elapsed time, a cell is some periods long where there are many threads. The place in the cell is drawn
//! again every few ticks, at each tick of a precise timer. Otherwise a program that works in step with the period would always
//! be interrupted at the same point.
//!
//! | entry's key | its timer | meaning | may become |
//! | --- | --- | --- | --- |
//! | 0 | 0 | free | claimed, by compare-exchange of the key |
//! | of a thread | 0 | claimed, about to have a timer; or about to be free | in use, or free, by who claimed it or took the timer |
//! | of a thread | there | in use | about to be free, by who takes the timer out by an exchange |
//!
//! Whoever takes a timer out deletes it, and frees the entry: nobody else does. The end of a session first withdraws the
//! generation and then takes all timers; who adopts first shows the timer and then looks at the generation. So one of the
//! two sees the other, and no timer stays behind.
//!
//! The application can close the descriptor of a perf event (`closefrom(3)`). [`TimerTable::survey`], or the process's next tick on
//! the thread, finds that the thread's tick is overdue, and exchanges its timer for one that has no descriptor.
//! The kernel keeps the timer of a thread that has ended. [`TimerTable::survey`] deletes it.
//!
//! A *precise* timer (clock `perf`) goes by its own counter, which differs from the CPU clock by some microseconds: its tick
//! may come half a period before it is due.
//!
//! Who writes: handlers; who begins and ends a session; and the host's threads where they register, or do what ends the timers
//! (`sigaction`, `prctl`, `setitimer`), in any context. Nobody waits for anybody.

mod entry;

pub(crate) use entry::{TickThread, TimerEntry};

use crate::sync::{
    Ordering,
    modelled::{AtomicU32, AtomicU64, fence},
};

/// Threads that can have a timer at a time; those beyond are sampled by the process's timer.
pub(crate) const MAX_THREADS: usize = if cfg!(loom) { 64 } else { 4096 };
/// A thread's entry is one of so many, which its id chooses.
const WINDOW: usize = 8;
/// Ticks of a thread between two draws of their place in the period, if its timer is not precise.
const TICKS_OF_A_PLACE: u32 = 4;
/// The tick that draws first. Of a thread that exits earlier, the rest is in the remainder. A later thread's rest is zero on average.
const FIRST_DRAW: u32 = 2;
/// Timers that a survey deletes or replaces at most: it is made in a handler.
const MAX_REPAIRED: u32 = 32;
/// Nanoseconds that a thread's tick may be late, beside some periods, before its timer is taken for dead: some kernel ticks pass a
/// busy thread by.
const PATIENCE: u64 = 200_000_000;

/// What the table asks of the kernel.
pub(crate) trait Timers {
    /// Makes a timer of the thread's time that names `index` with its signal. Returns its name.
    ///
    /// # Errors
    /// The system's error number, or `EAGAIN` if there are as many timers as there may be.
    fn create(&self, index: usize, thread: u32) -> Result<i32, i32>;
    /// The same, but a timer that the application cannot close.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    fn create_fallback(&self, index: usize, thread: u32) -> Result<i32, i32>;
    /// False for a timer that the application has closed.
    fn is_there(&self, timer: i32, thread: u32) -> bool;
    /// Lets it tick each period, for the first time in `first` nanoseconds. A precise one ticks each `first` nanoseconds.
    fn arm(&self, timer: i32, first: u64, period: u64);
    /// True for a timer that goes by a counter of its own.
    fn is_precise(&self, timer: i32) -> bool;
    fn delete(&self, timer: i32, thread: u32);
    /// Lets go of what a forked child has of its parent's timer.
    fn release_to_parent(&self, timer: i32, thread: u32);
    /// The calling process.
    fn process(&self) -> u32;
    /// True when the process has no such thread.
    fn is_gone(&self, thread: u32) -> bool;
    /// The thread's clock; None where the process has no such thread.
    fn clock_of(&self, thread: u32) -> Option<u64>;
    /// How many periods a tick is to stand for, when so many threads have timers.
    fn periods_of_a_tick(&self, _used: u32) -> u32 {
        1
    }
}

/// When a thread's timer ticks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstTick {
    /// At a random place in the first period: of many short threads each period of time gets one tick.
    AtRandom,
    /// After one period, as the process's first tick: how many samples a short program has is certain.
    AfterPeriod,
}

/// An entry, and where it stands.
#[derive(Clone, Copy)]
struct TimerSlot<'t> {
    index: usize,
    entry: &'t TimerEntry,
}

/// See the module. `E` holds the entries, which are all zero at first.
pub(crate) struct TimerTable<E> {
    entries: E,
    /// Of the session that adopts threads, or 0.
    generation: AtomicU32,
    /// The last one that there was.
    last: AtomicU32,
    /// Entries that are not free.
    used: AtomicU32,
    /// A bit for each entry that is not free.
    bits: [AtomicU64; MAX_THREADS / 64],
    /// Where the next look at some of the threads begins.
    cursor: AtomicU32,
    /// Threads that could not have a timer, each as often as the process's timer met it, since the process began.
    refused: AtomicU64,
    /// Nanoseconds.
    period: AtomicU64,
    /// Sum of the entries' unaccounted time, likewise.
    unaccounted: AtomicU64,
    /// The process whose timers they are: a child that shares our memory has none of them.
    owner: AtomicU32,
}

impl<E: AsRef<[TimerEntry]>> TimerTable<E> {
    /// With entries that are all zero.
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

    /// Lets threads be adopted. For the start of a session.
    pub(crate) fn begin(&self, timers: &impl Timers, period_nanos: u64) {
        self.owner.store(timers.process(), Ordering::Relaxed);
        self.period.store(period_nanos.max(1), Ordering::Relaxed);
        let next = self.last.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.last.store(next, Ordering::Relaxed);
        // Release: a handler that finds the generation finds the period.
        self.generation.store(next, Ordering::Release);
    }

    /// Ends all timers; no more are made. For who ends a session, or lets it rest.
    pub(crate) fn end(&self, timers: &impl Timers) {
        if self.generation() == 0
            || !self.is_this_process(timers)
            || self.generation.swap(0, Ordering::AcqRel) == 0
        {
            return;
        }
        // See the module: partner of the one in `try_adopt`.
        fence(Ordering::SeqCst);
        self.visit(0, |place| {
            self.withdraw(timers, place, place.entry.timer.load(Ordering::Acquire));
            true
        });
    }

    /// The generation that a tick belongs to; 0 where no threads are adopted.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// False in a child that shares the memory or has a copy of it.
    pub(crate) fn is_this_process(&self, timers: &impl Timers) -> bool {
        self.owner.load(Ordering::Relaxed) == timers.process()
    }

    /// How many threads have one.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// How often a thread could not have a timer.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// True for a thread that has a timer, whatever that does.
    pub(crate) fn has(&self, tick_thread: TickThread) -> bool {
        let own = |place: &TimerSlot<'_>| place.entry.key.load(Ordering::Acquire) == tick_thread.key();
        self.window(tick_thread.thread)
            .find(own)
            .is_some_and(|place| place.entry.timer.load(Ordering::Acquire) != 0)
    }

    /// True for a thread that its own timer samples. One whose timer has died is set free: the kernel has given its id to
    /// another thread, or the host has deleted what it did not make.
    pub(crate) fn covers(&self, timers: &impl Timers, tick_thread: TickThread) -> bool {
        // Acquire: pairs with the release of the timer, for the words of the thread's own.
        let own = |place: &TimerSlot<'_>| place.entry.key.load(Ordering::Acquire) == tick_thread.key();
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
        let latest = entry.due.load(Ordering::Relaxed).saturating_add(PATIENCE.saturating_add(4 * period));
        let is_alive = entry.may_be_of(tick_thread.now, period) && tick_thread.now <= latest;
        if !is_alive {
            self.withdraw(timers, place, timer);
        }
        is_alive
    }

    /// Gives the thread another timer instead of `old`, which the application has closed. The cells stay: the first
    /// tick has the weight of all that have passed. False if the thread has no timer now.
    fn replace(&self, timers: &impl Timers, place: TimerSlot<'_>, old: i32, tick_thread: TickThread) -> bool {
        let Ok(new) = timers.create_fallback(place.index, tick_thread.thread) else {
            self.withdraw(timers, place, old);
            return false;
        };
        let entry = place.entry;
        let stored = new.wrapping_add(1);
        // AcqRel, as for every exchange of it: whoever takes a timer out deletes it.
        if entry.timer.compare_exchange(old, stored, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            timers.delete(new, tick_thread.thread);
            return false;
        }
        timers.delete(old.wrapping_sub(1), tick_thread.thread);
        // See the module: partner of the one in `end`, as in `try_adopt`. An `end` that has seen the old timer has come first.
        fence(Ordering::SeqCst);
        let is_of_session = self.generation.load(Ordering::Relaxed) == tick_thread.generation;
        // Another thread's entry may have got a descriptor of the same number as `old` had.
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

    /// Gives the thread a timer of its own, if one is to be had. It is the calling one, or one that no tick has met yet.
    pub(crate) fn adopt(&self, timers: &impl Timers, tick_thread: TickThread, first: FirstTick) {
        if !self.try_adopt(timers, tick_thread, first) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn try_adopt(&self, timers: &impl Timers, tick_thread: TickThread, first: FirstTick) -> bool {
        let Some(place) = self.claim(tick_thread).or_else(|| {
            // Of eight threads one may well have ended.
            self.window(tick_thread.thread).for_each(|place| self.withdraw_if_gone(timers, place));
            self.claim(tick_thread)
        }) else {
            return false;
        };
        // Two may adopt a thread at once, itself and who begins the session: then neither does, and its next tick will, or in
        // clock `wall` the next look for threads.
        fence(Ordering::SeqCst);
        let is_other = |other: &TimerSlot<'_>| {
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
        // Release: for the words above.
        entry.timer.store(timer.wrapping_add(1), Ordering::Release);
        // See the module: partner of the one in `end`.
        fence(Ordering::SeqCst);
        if self.generation.load(Ordering::Relaxed) == tick_thread.generation {
            // One that `end` has deleted meanwhile is not armed: no timer has its name. An event that has got its descriptor
            // is armed anew, which changes when it ticks and no weight.
            timers.arm(timer, first, cell);
        } else {
            self.withdraw(timers, place, timer.wrapping_add(1));
        }
        true
    }

    /// The weight of a tick of a thread's timer, in periods. The signal contains the `index`. 0 if the timer was deleted, or the
    /// signal came early. The weight is passed to `charge` before the entry changes: a survey in between finds the time
    /// unaccounted, and not accounted twice.
    pub(crate) fn tick(
        &self,
        timers: &impl Timers,
        index: usize,
        tick_thread: TickThread,
        charge: impl FnOnce(u64),
    ) -> u64 {
        let Some(entry) = self.entries.as_ref().get(index) else { return 0 };
        let timer = entry.timer.load(Ordering::Acquire);
        // By the thread, not by the timer's name in the signal: emulators get that wrong.
        if timer == 0 || entry.key.load(Ordering::Relaxed) != tick_thread.key() {
            return 0;
        }
        let (timer, now) = (timer.wrapping_sub(1), tick_thread.now);
        let period = self.period.load(Ordering::Relaxed);
        let periods = u64::from(entry.periods.load(Ordering::Relaxed));
        let cell = period.saturating_mul(periods);
        let due = entry.due.load(Ordering::Relaxed);
        let is_precise = timers.is_precise(timer);
        // The counter of a precise one differs by some microseconds, either way.
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
        // A precise timer is armed at each tick, so that another place costs nothing.
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

    /// Deletes the timer of a thread, if it has one.
    pub(crate) fn drop_timer(&self, timers: &impl Timers, thread: u32) {
        self.window(thread).for_each(|place| {
            let timer = place.entry.timer.load(Ordering::Acquire);
            if timer != 0 && place.entry.key.load(Ordering::Relaxed) as u32 == thread {
                self.withdraw(timers, place, timer);
            }
        });
    }

    /// The index of a thread's entry, which has this timer.
    pub(crate) fn index_of(&self, thread: u32, timer: i32) -> Option<usize> {
        let has = |place: &TimerSlot<'_>| place.entry.timer.load(Ordering::Acquire) == timer.wrapping_add(1);
        self.window(thread).find(has).map(|place| place.index)
    }

    /// Looks at so many more threads. Deletes the timers of those that have ended, and replaces those that the application has
    /// closed.
    pub(crate) fn reap(&self, timers: &impl Timers, most: u32) {
        self.visit_some(most, |place| self.mend(timers, place));
    }

    /// Deletes the timer of a thread that has ended, or replaces a timer that the application has closed.
    fn mend(&self, timers: &impl Timers, place: TimerSlot<'_>) {
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

    /// True if the thread's own timer has ticked.
    pub(crate) fn has_ticked(&self, tick_thread: TickThread) -> bool {
        let own = |place: &TimerSlot<'_>| place.entry.key.load(Ordering::Acquire) == tick_thread.key();
        self.window(tick_thread.thread)
            .find(own)
            .is_some_and(|place| place.entry.ticks.load(Ordering::Relaxed) != 0)
    }

    /// Nanoseconds that threads' next ticks will represent. Below zero if ticks represent cells that have only begun.
    pub(crate) fn unaccounted(&self, timers: &impl Timers) -> i64 {
        self.visit(0, |place| {
            self.ask(timers, place);
            true
        });
        self.unaccounted.load(Ordering::Relaxed) as i64
    }

    /// The same, as their clocks were when they were read last, each at a tick or in a survey.
    pub(crate) fn noted_unaccounted(&self) -> i64 {
        self.unaccounted.load(Ordering::Acquire) as i64
    }

    /// The same, by their clocks. Also deletes timers of ended threads, and replaces overdue timers that the application has closed.
    pub(crate) fn survey(&self, timers: &impl Timers) -> i64 {
        let overdue = self.period.load(Ordering::Relaxed).saturating_mul(2) as i64;
        let mut mended = 0;
        self.visit(0, |place| {
            let needs_mending = self.ask(timers, place).is_none_or(|unaccounted| unaccounted > overdue);
            if needs_mending && mended < MAX_REPAIRED {
                mended += 1;
                self.mend(timers, place);
            }
            true
        });
        self.noted_unaccounted()
    }

    /// Notes and returns what a thread has used without a tick; None for a thread that has ended.
    fn ask(&self, timers: &impl Timers, TimerSlot { entry, .. }: TimerSlot<'_>) -> Option<i64> {
        let thread = entry.key.load(Ordering::Relaxed) as u32;
        let timer = entry.timer.load(Ordering::Acquire);
        if timer == 0 {
            return Some(0);
        }
        // What an ended thread has used belongs to nobody's ticks any more. Neither do clocks of its id's next thread.
        let period = self.period.load(Ordering::Relaxed);
        let Some(now) = timers.clock_of(thread).filter(|now| entry.may_be_of(*now, period)) else {
            self.note_unaccounted(entry, 0);
            return None;
        };
        let unaccounted = now.wrapping_sub(entry.represented_until());
        self.note_unaccounted(entry, unaccounted);
        // Who has freed the entry meanwhile has taken its time out of the sum before this came to it.
        if entry.timer.load(Ordering::Relaxed) != timer {
            self.note_unaccounted(entry, 0);
        }
        Some(unaccounted as i64)
    }

    fn periods_of_a_tick(&self, timers: &impl Timers) -> u32 {
        timers.periods_of_a_tick(self.used())
    }

    /// Keeps what a thread has used without a tick, and the sum of all.
    fn note_unaccounted(&self, entry: &TimerEntry, unaccounted: u64) {
        if unaccounted == 0 && entry.unaccounted.load(Ordering::Relaxed) == 0 {
            return;
        }
        // AcqRel: who comes behind `free` here sees that the timer is gone.
        let before = entry.unaccounted.swap(unaccounted, Ordering::AcqRel);
        // Release: whoever finds it in the sum finds what was charged before.
        self.unaccounted.fetch_add(unaccounted.wrapping_sub(before), Ordering::Release);
    }

    /// Calls `visit` with the next entries that are in use, `most` at most, and each but once.
    fn visit_some(&self, most: u32, mut visit: impl FnMut(TimerSlot<'_>)) {
        let start = self.cursor.load(Ordering::Relaxed) as usize;
        let (mut visited, mut next) = (0, start);
        self.visit(start, |place| {
            visit(place);
            visited += 1;
            next = place.index.wrapping_add(1);
            visited < most
        });
        // Relaxed, and no exchange: two that look at the same entries do no harm.
        self.cursor.store(if next < MAX_THREADS { next as u32 } else { 0 }, Ordering::Relaxed);
    }

    /// Calls `visit` with each entry that is in use, from `start` on and around, until it returns false.
    fn visit(&self, start: usize, mut visit: impl FnMut(TimerSlot<'_>) -> bool) {
        let (first, bit) = (start / 64, start % 64);
        let before = (1u64 << bit).wrapping_sub(1);
        let words = self.bits.iter().enumerate();
        // The word that the start is in comes twice: its upper bits first, the others last.
        let upper = words.clone().skip(first).take(1).map(|(i, word)| (i, word, !before));
        let others = words
            .clone()
            .skip(first + 1)
            .chain(words.clone().take(first))
            .map(|(i, word)| (i, word, u64::MAX));
        let lower = words.skip(first).take(1).map(|(i, word)| (i, word, before));
        for (i, word, mask) in upper.chain(others).chain(lower) {
            // Acquire: behind it the entry is found as it was when its bit was set.
            let mut bits = word.load(Ordering::Acquire) & mask;
            while bits != 0 {
                let index = i * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if self.entries.as_ref().get(index).is_some_and(|entry| !visit(TimerSlot { index, entry })) {
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

    /// In a forked child, which has none of these timers, and no thread but this one.
    pub(crate) fn reset_after_fork(&self, timers: &impl Timers) {
        self.generation.store(0, Ordering::Relaxed);
        if self.used.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        self.visit(0, |TimerSlot { entry, .. }| {
            let timer = entry.timer.swap(0, Ordering::Relaxed);
            if timer != 0 {
                timers.release_to_parent(timer.wrapping_sub(1), entry.key.load(Ordering::Relaxed) as u32);
            }
            entry.unaccounted.store(0, Ordering::Relaxed);
            entry.key.store(0, Ordering::Relaxed);
            true
        });
        self.unaccounted.store(0, Ordering::Relaxed);
        // A thread that does not exist here may have been about to set or clear one.
        for word in &self.bits {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The entries that a thread may have.
    fn window(&self, thread: u32) -> impl Iterator<Item = TimerSlot<'_>> {
        let entries = self.entries.as_ref();
        // Ids of threads that were made one after another lie beside each other.
        let start = (thread as usize).wrapping_mul(WINDOW).checked_rem(entries.len()).unwrap_or(0);
        entries.iter().enumerate().skip(start).take(WINDOW).map(|(index, entry)| TimerSlot { index, entry })
    }

    /// A free entry, for the thread.
    fn claim(&self, tick_thread: TickThread) -> Option<TimerSlot<'_>> {
        let taken = |TimerSlot { entry, .. }: &TimerSlot<'_>| {
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

    fn withdraw_if_gone(&self, timers: &impl Timers, place: TimerSlot<'_>) {
        let entry = place.entry;
        // The timer first: where the entry gets another thread meanwhile, it is not this one any more.
        let timer = entry.timer.load(Ordering::Acquire);
        let thread = entry.key.load(Ordering::Relaxed) as u32;
        if timer != 0 && thread != 0 && timers.is_gone(thread) {
            self.withdraw(timers, place, timer);
        }
    }

    /// Takes this timer out, deletes it, and frees the entry; nothing where somebody else has taken it.
    fn withdraw(&self, timers: &impl Timers, place: TimerSlot<'_>, timer: i32) {
        if timer != 0
            && place.entry.timer.compare_exchange(timer, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            timers.delete(timer.wrapping_sub(1), place.entry.key.load(Ordering::Relaxed) as u32);
            self.free(place);
        }
    }

    fn free(&self, TimerSlot { index, entry }: TimerSlot<'_>) {
        self.note_unaccounted(entry, 0);
        self.mark(index, false);
        self.used.fetch_sub(1, Ordering::Relaxed);
        // Release: who claims it next comes behind all that was done with it.
        entry.key.store(0, Ordering::Release);
    }
}

/// A number from 1 to `period`, from `seed` (splitmix64).
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
