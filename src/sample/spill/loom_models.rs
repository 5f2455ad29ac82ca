//! Models of handlers that fill, leave, spill and clear halves of one record each.

use super::*;
use crate::sample::table::tests::Fixed;
use loom::{
    model::Builder,
    sync::{
        Arc,
        atomic::{AtomicBool, fence},
    },
    thread,
};

struct Array {
    words: Vec<usize>,
    buffer: [usize; 8],
}

impl SpillSink for Array {
    fn append(&mut self, place: u64, words: usize) -> Result<(), i32> {
        assert_eq!(self.words.len() as u64, place);
        self.words.extend(&self.buffer[..words]);
        Ok(())
    }
    fn name(&mut self) -> &[u8] {
        b"array"
    }
    fn give_up(&mut self) {}
    fn buffer(&mut self) -> Result<&mut [usize], i32> {
        Ok(&mut self.buffer)
    }
}

/// Halves with room for one record of one frame, and two slots.
struct World {
    table: Table<Fixed>,
    spiller: Spiller<Array>,
    taken: [AtomicBool; 2],
}

struct Beside<'w>(&'w World, usize);

impl Slots for Beside<'_> {
    fn count(&self) -> usize {
        2
    }
    fn is_free(&self, i: usize) -> bool {
        // loom treats sequentially consistent operations only as acquire and release; the fences
        // provide the language's total order. The model fails without either.
        fence(Ordering::SeqCst);
        i == self.1 || !self.0.taken[i].load(Ordering::SeqCst)
    }
}

/// Returns how many ticks were refused.
fn ticks(world: &World, slot: usize, chains: &[usize]) -> usize {
    let refused = chains.iter().filter(|&&chain| {
        world.taken[slot].store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let is_refused = world.table.add(&[chain], 1).is_err();
        world.spiller.step(&world.table, &Beside(world, slot));
        world.taken[slot].store(false, Ordering::Release);
        is_refused
    });
    refused.count()
}

/// Checks that each tick is once in the file, in the table, or refused.
fn two_handlers(first: &'static [usize], second: &'static [usize]) {
    let mut model = Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let world = Arc::new(World {
            table: Table::new(Fixed::halved(1, 3)),
            spiller: Spiller::new(Array { words: Vec::new(), buffer: [0; 8] }),
            taken: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        let other = Arc::clone(&world);
        let handler = thread::spawn(move || ticks(&other, 1, second));
        let refused = ticks(&world, 0, first) + handler.join().unwrap();
        let guard = world.spiller.try_lock().expect("nobody is inside");
        assert_eq!(guard.sink.words.len() as u64, world.table.buffer_state().spilled);
        let spilled: usize = guard.sink.words.chunks(3).map(|record| record[0]).sum();
        let kept: usize = world.table.records().map(|(count, _)| count).sum();
        assert_eq!(spilled + kept + refused, first.len() + second.len());
    });
}

#[test]
fn loom_spills_full_halves_of_two_handlers() {
    two_handlers(&[1, 2], &[3]);
}

#[test]
fn loom_counts_a_chain_while_its_half_is_left() {
    two_handlers(&[1, 2], &[1]);
}

#[test]
fn loom_uses_a_half_again() {
    two_handlers(&[1, 2, 3, 4], &[5]);
}
