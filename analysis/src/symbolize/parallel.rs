//! Work that several threads share.

use std::{
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

/// Does `work` for each item, by as many threads as there are processors, and gives the results in the items' order. `done` is
/// called on this thread, with the item, whenever one is finished.
pub(super) fn map<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(&T),
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(items.len());
    if threads <= 1 {
        let mut one = |item| {
            let result = work(item);
            done(item);
            result
        };
        return items.iter().map(&mut one).collect();
    }
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                // The number alone is shared.
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
        for (place, result) in receiver {
            done(&items[place]);
            results[place] = Some(result);
        }
    });
    // A thread that panicked has made the scope panic.
    results.into_iter().map(|result| result.expect("every item is done")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let mut sum = 0;
        let results = map(&items, |item| item * 2, |item| sum += item);
        assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(sum, 999 * 500);
        assert_eq!(map(&[] as &[usize], |item| *item, |_| ()), [0; 0]);
    }
}
