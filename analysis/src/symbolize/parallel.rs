//! Parallel iteration.

use std::{
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// Interval of calls of `done` while no item is finished.
const PACE: Duration = Duration::from_millis(100);

/// Calls `work` for each item, in as many threads as processors, and returns the results in order.
/// This thread calls `done` with each finished item, and periodically without one.
pub(super) fn map<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(Option<&T>),
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(items.len());
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                // Relaxed: only the index is shared.
                while let Some((place, item)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|place| Some((place, items.get(place)?)))
                {
                    if sender.send((place, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(PACE) {
                Ok((place, result)) => {
                    done(Some(&items[place]));
                    results[place] = Some(result);
                }
                Err(RecvTimeoutError::Timeout) => done(None),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    // If a thread panicked, the scope panicked.
    results.into_iter().map(|result| result.expect("every item is done")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_results_in_the_order_of_items() {
        let items: Vec<usize> = (0..1000).collect();
        let mut sum = 0;
        let results = map(&items, |item| item * 2, |item| sum += item.unwrap_or(&0));
        assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(sum, 999 * 500);
        assert_eq!(map(&[] as &[usize], |item| *item, |_| ()), Vec::<usize>::new());
    }

    /// The item is finished after three calls without it.
    #[test]
    fn calls_done_periodically_while_items_are_pending() {
        let calls = AtomicUsize::new(0);
        let work = |_: &()| {
            while calls.load(Ordering::Relaxed) < 3 {
                thread::sleep(Duration::from_millis(1));
            }
        };
        map(&[()], work, |item| {
            assert_eq!(item.is_some(), calls.fetch_add(1, Ordering::Relaxed) >= 3);
        });
    }
}
