//! The first fails without a fence or the second check, the second without exchanges of the timer.

use super::*;
use loom::sync::{Arc, Mutex};

struct Kernel(Mutex<Vec<i32>>);

impl Timers for Kernel {
    fn create(&self, index: usize, _thread: u32) -> Result<i32, i32> {
        self.0.lock().unwrap().push(index as i32);
        Ok(index as i32)
    }
    fn create_fallback(&self, index: usize, thread: u32) -> Result<i32, i32> {
        self.create(index + 100, thread)
    }
    fn is_there(&self, timer: i32, _thread: u32) -> bool {
        timer >= 100
    }
    fn arm(&self, _timer: i32, _first: u64, _period: u64) {}
    fn is_precise(&self, _timer: i32) -> bool {
        false
    }
    fn close_copy(&self, _timer: i32, _thread: u32) {}
    fn process(&self) -> u32 {
        1
    }
    fn delete(&self, timer: i32, _thread: u32) {
        let mut there = self.0.lock().unwrap();
        let place = there.iter().position(|there| *there == timer).expect("deleted by one alone");
        there.remove(place);
    }
    fn is_gone(&self, _thread: u32) -> bool {
        true
    }
    fn clock_of(&self, _thread: u32) -> Option<u64> {
        None
    }
}

fn table() -> (Arc<TimerTable<Vec<TimerEntry>>>, Arc<Kernel>) {
    let entries = (0..1).map(|_| TimerEntry::unused());
    let threads = TimerTable::new(entries.collect());
    let kernel = Kernel(Mutex::new(Vec::new()));
    threads.begin(&kernel, 1000);
    (Arc::new(threads), Arc::new(kernel))
}

#[test]
fn loom_leaves_no_timer_when_a_session_ends() {
    loom::model(|| {
        let (threads, kernel) = table();
        let handler = {
            let (threads, kernel) = (threads.clone(), kernel.clone());
            loom::thread::spawn(move || {
                let tick_thread = TickThread { thread: 8, generation: threads.generation(), now: 5 };
                if tick_thread.generation != 0 {
                    threads.adopt(&*kernel, tick_thread, FirstTick::AtRandom);
                }
            })
        };
        threads.end(&*kernel);
        handler.join().unwrap();
        assert!(kernel.0.lock().unwrap().is_empty());
        assert_eq!(threads.used.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_deletes_a_timer_once() {
    loom::model(|| {
        let (threads, kernel) = table();
        threads.adopt(
            &*kernel,
            TickThread { thread: 8, generation: threads.generation(), now: 5 },
            FirstTick::AtRandom,
        );
        let handler = {
            let (threads, kernel) = (threads.clone(), kernel.clone());
            loom::thread::spawn(move || threads.reap(&*kernel, 1))
        };
        threads.end(&*kernel);
        handler.join().unwrap();
        assert!(kernel.0.lock().unwrap().is_empty());
        assert_eq!(threads.used.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_deletes_a_replaced_timer_once() {
    loom::model(|| {
        let (threads, kernel) = table();
        let generation = threads.generation();
        threads.adopt(&*kernel, TickThread { thread: 8, generation, now: 5 }, FirstTick::AtRandom);
        let handler = {
            let (threads, kernel) = (threads.clone(), kernel.clone());
            loom::thread::spawn(move || {
                threads.ensure_covered(&*kernel, TickThread { thread: 8, generation, now: 50_000 })
            })
        };
        threads.end(&*kernel);
        handler.join().unwrap();
        assert!(kernel.0.lock().unwrap().is_empty());
        assert_eq!(threads.used.load(Ordering::Relaxed), 0);
    });
}
