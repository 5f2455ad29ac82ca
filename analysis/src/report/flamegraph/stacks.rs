//! Call stacks of a profile or comparison, with common callers stored once.

use crate::{
    graph::{Change, Frames, Sides},
    profile::{LocationId, Profile, Threads},
    report::{
        call_tree::{PrefixTree, ROOT},
        frame_colour, frame_name,
    },
    text::visible,
};
use std::{borrow::Cow, collections::HashMap};

/// A tree of frames, with cumulative values.
#[derive(Debug)]
pub(super) struct Stacks {
    pub(super) tree: PrefixTree,
    /// Names and colours, by frame number.
    pub(super) names: Vec<String>,
    pub(super) colours: Vec<[u8; 3]>,
    /// Width of each node: its value, or in a comparison the sum of the larger flat values, so that
    /// removed functions have a box.
    pub(super) widths: Vec<f64>,
    pub(super) values: Vec<i64>,
    pub(super) changes: Option<Vec<Change>>,
    pub(super) has_threads: bool,
    pub(super) has_negative: bool,
}

#[derive(Default)]
struct NameNumbers {
    names: Vec<String>,
    colours: Vec<[u8; 3]>,
    numbers: HashMap<String, u32>,
}

impl NameNumbers {
    fn number(&mut self, name: &str, object: &str) -> u32 {
        let Self { names, colours, numbers } = self;
        *numbers.entry(visible(name).into_owned()).or_insert_with_key(|text| {
            names.push(text.clone());
            colours.push(frame_colour::of(name, frame_colour::package_of(name).unwrap_or(object)));
            u32::try_from(names.len() - 1).expect("a name takes more than a byte of input")
        })
    }
}

impl Stacks {
    pub(super) fn of(profile: &Profile, sample_type: usize, by_thread: bool) -> Self {
        let frames = Frames::new(profile);
        let mut objects = vec![Cow::Borrowed(""); frames.places.len()];
        for (place, location) in profile.locations.iter().enumerate() {
            for &frame in frames.of(LocationId::at(place)) {
                let object = &mut objects[frame as usize];
                if object.is_empty() {
                    *object = frame_name::object(profile.mapping_of(location));
                }
            }
        }
        let mut names = NameNumbers::default();
        let of_frames: Vec<u32> = frames
            .places
            .iter()
            .zip(&objects)
            .map(|(place, object)| names.number(&place.to_string(), object))
            .collect();
        let threads = by_thread.then(|| Threads::of(profile));
        let of_threads: Vec<Option<u32>> = threads
            .iter()
            .flat_map(Threads::iter)
            .map(|(thread, _)| thread.name().map(|name| names.number(&name, "")))
            .collect();
        let sides = Sides::of_type(profile, sample_type);
        let mut tree = PrefixTree::new();
        // Flat values of each node, in the newer and the older profile.
        let (mut new, mut old, mut variances) = (Vec::new(), Vec::new(), Vec::new());
        let mut has_negative = false;
        for sample in profile.samples.iter() {
            let is_base = sides.as_ref().is_some_and(|sides| sides.is_base(sample));
            let value = sample.values[sample_type];
            let value = if is_base { value.saturating_neg() } else { value };
            if value <= 0 {
                has_negative |= value < 0;
                continue;
            }
            let thread = threads.as_ref().and_then(|threads| of_threads[threads.place(sample.labels)]);
            let chain = sample.chain.iter().rev().flat_map(|&id| frames.of(id).iter().rev());
            let chain = chain.map(|&frame| of_frames[frame as usize]);
            let node = thread.into_iter().chain(chain).fold(ROOT, |node, frame| tree.child(node, frame));
            let node = if node == ROOT { tree.child(ROOT, names.number("[no stack]", "")) } else { node };
            for values in [&mut new, &mut old, &mut variances] {
                values.resize(tree.len().max(values.len()), 0_i64);
            }
            let add = |values: &mut [i64], value| {
                let sum = &mut values[node as usize];
                *sum = sum.saturating_add(value);
            };
            add(if is_base { &mut old } else { &mut new }, value);
            if let Some(sides) = &sides {
                add(&mut variances, sides.variance(sample));
            }
        }
        let mut widths: Vec<f64> = new.iter().zip(&old).map(|(&new, &old)| new.max(old) as f64).collect();
        tree.accumulate(&mut widths, |one, other| one + other);
        for values in [&mut new, &mut old, &mut variances] {
            tree.accumulate(values, i64::saturating_add);
        }
        let changes = sides.map(|sides| {
            let change =
                |node: usize| sides.change(new[node].saturating_sub(old[node]), old[node], variances[node]);
            (0..new.len()).map(change).collect()
        });
        Self {
            tree,
            has_threads: of_threads.iter().any(Option::is_some),
            names: names.names,
            colours: names.colours,
            widths,
            values: new,
            changes,
            has_negative,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.widths.first().is_none_or(|&width| width == 0.0)
    }
}
