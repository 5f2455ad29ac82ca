//! All code that is reachable from given functions, and the ways to it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{
    body::{Body, Target, follow},
    image::Image,
    kinds::Kind,
};

/// Functions of other libraries that never return.
const LAST_CALLS: [&str; 3] = ["abort", "_Unwind_Resume", "exit"];

/// The functions of an image, each followed once.
pub(crate) struct Program<'i> {
    image: &'i Image,
    bodies: HashMap<u64, Option<Body>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) function: u64,
    pub(crate) at: u64,
}

/// All that was reached, shortest ways first.
#[derive(Default)]
pub(crate) struct Reached {
    /// The place from which each function was first reached; `None` for entries.
    functions: BTreeMap<u64, Option<Place>>,
    /// Places that leave the library, or call by a pointer.
    pub(crate) targets: Vec<(Place, Target)>,
    /// Places that call a function that a handler must not call, and the reason.
    pub(crate) findings: Vec<(Place, Kind)>,
}

impl<'i> Program<'i> {
    pub(crate) fn new(image: &'i Image) -> Self {
        Self { image, bodies: HashMap::new() }
    }

    /// Finds all that is reachable from `entries`. `pointed` returns the targets of a call by a
    /// pointer. Functions that `is_other_entry` accepts are installed as handlers, and not called.
    pub(crate) fn reach(
        &mut self,
        entries: &[u64],
        is_other_entry: &dyn Fn(u64) -> bool,
        pointed: &dyn Fn(Place) -> Vec<u64>,
    ) -> Reached {
        let mut reached = Reached::default();
        reached.functions.extend(entries.iter().map(|&entry| (entry, None)));
        let mut pending: VecDeque<u64> = entries.iter().copied().collect();
        while let Some(function) = pending.pop_front() {
            for exit in self.body(function).exits.clone() {
                let place = Place { function, at: exit.at };
                let starts = match exit.target {
                    Target::Own(start) if exit.stack.is_none() && is_other_entry(start) => Vec::new(),
                    Target::Own(start) => vec![start],
                    Target::Unknown => {
                        reached.targets.push((place, Target::Unknown));
                        pointed(place)
                    }
                    Target::Import(name) if Kind::of_import(&name).is_some() => {
                        reached.findings.extend(Kind::of_import(&name).map(|kind| (place, kind)));
                        Vec::new()
                    }
                    target => {
                        reached.targets.push((place, target));
                        Vec::new()
                    }
                };
                for start in starts {
                    let kind = Kind::of(self.image.name_at(start));
                    if let Some(kind) = kind.filter(|_| Kind::of(self.image.name_at(function)) != kind) {
                        reached.findings.push((place, kind));
                    }
                    if kind.is_none_or(Kind::is_followed) && !reached.functions.contains_key(&start) {
                        reached.functions.insert(start, Some(place));
                        pending.push_back(start);
                    }
                }
            }
        }
        reached
    }

    /// The most bytes that the function at `start` and its callees in the library use of the stack
    /// on which it is called, with the functions on that way, outermost first.
    pub(crate) fn stack_of(&mut self, start: u64) -> (u64, Vec<u64>) {
        self.stack_below(start, &mut Vec::new())
    }

    fn stack_below(&mut self, start: u64, above: &mut Vec<u64>) -> (u64, Vec<u64>) {
        let name = self.image.name_at(start);
        assert!(!above.contains(&start), "{name} calls itself, to whatever depth");
        let body = self.body(start);
        let mut most = (body.stack, vec![start]);
        above.push(start);
        for exit in body.exits.clone() {
            let (Target::Own(callee), Some(used)) = (exit.target, exit.stack) else { continue };
            if Kind::of(self.image.name_at(callee)) == Some(Kind::Panic) {
                continue;
            }
            let (below, functions) = self.stack_below(callee, above);
            if used + below > most.0 {
                most = (used + below, [vec![start], functions].concat());
            }
        }
        above.pop();
        most
    }

    fn body(&mut self, start: u64) -> &Body {
        self.fill(start);
        self.bodies[&start].as_ref().expect("it was followed")
    }

    fn fill(&mut self, start: u64) {
        if self.bodies.contains_key(&start) {
            return;
        }
        // A function that calls itself is assumed to return.
        self.bodies.insert(start, None);
        let image = self.image;
        let range = image.function_at(start).unwrap_or_else(|| panic!("no function begins at {start:#x}"));
        assert!(!range.is_empty(), "{} has no size in the symbol table", image.name_at(start));
        let body = follow(image, range, &mut |target| self.returns(target));
        self.bodies.insert(start, Some(body));
    }

    fn returns(&mut self, target: &Target) -> bool {
        match target {
            Target::Own(start) if Kind::of(self.image.name_at(*start)) == Some(Kind::Panic) => false,
            Target::Own(start) => {
                self.fill(*start);
                self.bodies[start].as_ref().is_none_or(|body| body.returns)
            }
            Target::Import(name) => !LAST_CALLS.contains(&name.as_str()),
            Target::System(number) => *number != Some(libc::SYS_exit_group),
            Target::ThreadLocal | Target::Unknown => true,
        }
    }
}

impl Reached {
    pub(crate) fn starts(&self) -> impl Iterator<Item = u64> {
        self.functions.keys().copied()
    }

    /// The functions on the way to `function`, including it.
    pub(crate) fn way(&self, function: u64) -> Vec<u64> {
        let mut way = vec![function];
        while let Some(Some(place)) = self.functions.get(way.last().expect("a step")) {
            way.push(place.function);
        }
        way.reverse();
        way
    }
}
