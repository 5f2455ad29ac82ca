//! Filters by function, file and object.

use super::{expression, retain};
use crate::{
    error::{Error, ErrorKind},
    profile::{Location, LocationId, Profile, SampleRef},
};
use regex::Regex;

/// Filters of frames: by the name or file of any function at a location, or its object's path.
#[derive(Clone, Debug, Default)]
pub struct FrameFilter {
    /// Keep samples with a frame that matches.
    pub focus: Option<Regex>,
    /// Drop samples with a frame that matches.
    pub ignore: Option<Regex>,
    /// Remove matching frames from their samples.
    pub hide: Option<Regex>,
    /// Remove other frames from their samples.
    pub show: Option<Regex>,
    /// Remove the callers of the outermost matching frame, and drop samples without one.
    pub show_from: Option<Regex>,
    /// Remove the callees of the innermost matching frame.
    pub prune_from: Option<Regex>,
}

struct Matches {
    functions: Vec<bool>,
    mappings: Vec<bool>,
}

impl Matches {
    fn new(profile: &Profile, expression: &Regex) -> Self {
        let is_match = |text: &str| expression.is_match(text);
        Self {
            functions: profile
                .functions
                .iter()
                .map(|one| is_match(&one.name) || is_match(&one.file))
                .collect(),
            mappings: profile.mappings.iter().map(|one| is_match(&one.file.to_string_lossy())).collect(),
        }
    }

    fn object(&self, location: &Location) -> bool {
        location.mapping.is_some_and(|id| self.mappings[id.index()])
    }

    fn location(&self, location: &Location) -> bool {
        location.lines.iter().any(|line| self.functions[line.function.index()]) || self.object(location)
    }
}

/// Effects of a location on its samples.
#[derive(Clone, Copy, Default)]
struct Verdict {
    is_focused: bool,
    is_ignored: bool,
    is_hidden: bool,
    is_outermost: bool,
    is_innermost: bool,
}

impl FrameFilter {
    /// Applies the filters. Returns the names of those that matched nothing.
    pub fn apply(&self, profile: &mut Profile) -> Vec<&'static str> {
        let mut verdicts =
            vec![Verdict { is_focused: self.focus.is_none(), ..Verdict::default() }; profile.locations.len()];
        let mut idle = Vec::new();
        self.judge_samples(profile, &mut verdicts, &mut idle);
        self.hide_lines(profile, &mut verdicts, &mut idle);
        self.cut_chains(profile, &mut verdicts, &mut idle);
        if self.is_empty() {
            return idle;
        }
        let samples = std::mem::take(&mut profile.samples);
        let (cuts_callers, cuts_callees) = (self.show_from.is_some(), self.prune_from.is_some());
        let of = |id: LocationId| verdicts[id.index()];
        let keep = |sample: SampleRef<'_>, chain: &mut Vec<LocationId>| {
            if sample.chain.iter().any(|&id| of(id).is_ignored)
                || !sample.chain.iter().any(|&id| of(id).is_focused)
            {
                return false;
            }
            chain.extend(sample.chain.iter().copied().filter(|&id| !of(id).is_hidden));
            if cuts_callers {
                let outermost = chain.iter().rposition(|&id| of(id).is_outermost);
                chain.truncate(outermost.map_or(0, |place| place + 1));
            }
            if let Some(innermost) = chain.iter().position(|&id| of(id).is_innermost).filter(|_| cuts_callees)
            {
                chain.drain(..innermost);
            }
            !chain.is_empty()
        };
        retain(profile, keep, &samples);
        idle
    }

    fn is_empty(&self) -> bool {
        let all = [&self.focus, &self.ignore, &self.hide, &self.show, &self.show_from, &self.prune_from];
        all.iter().all(|one| one.is_none())
    }

    /// Marks the locations that keep or drop samples.
    fn judge_samples(&self, profile: &Profile, verdicts: &mut [Verdict], idle: &mut Vec<&'static str>) {
        if let Some(expression) = &self.focus {
            let matches = Matches::new(profile, expression);
            for (location, verdict) in profile.locations.iter().zip(&mut *verdicts) {
                verdict.is_focused = matches.location(location);
            }
            if verdicts.iter().all(|verdict| !verdict.is_focused) {
                idle.push("focus");
            }
        }
        if let Some(expression) = &self.ignore {
            let matches = Matches::new(profile, expression);
            for (location, verdict) in profile.locations.iter().zip(&mut *verdicts) {
                verdict.is_ignored = matches.location(location);
            }
            if verdicts.iter().all(|verdict| !verdict.is_ignored) {
                idle.push("ignore");
            }
        }
    }

    /// Removes hidden functions from locations; a location without any left is hidden.
    fn hide_lines(&self, profile: &mut Profile, verdicts: &mut [Verdict], idle: &mut Vec<&'static str>) {
        if let Some(expression) = &self.hide {
            let matches = Matches::new(profile, expression);
            let mut is_idle = true;
            for (location, verdict) in profile.locations.iter_mut().zip(&mut *verdicts) {
                if !matches.location(location) {
                    continue;
                }
                is_idle = false;
                if matches.object(location) {
                    location.lines.clear();
                }
                location.lines.retain(|line| !matches.functions[line.function.index()]);
                verdict.is_hidden |= location.lines.is_empty();
            }
            idle.extend(is_idle.then_some("hide"));
        }
        if let Some(expression) = &self.show {
            let matches = Matches::new(profile, expression);
            let mut is_idle = true;
            for (location, verdict) in profile.locations.iter_mut().zip(&mut *verdicts) {
                // pprof hides an unnamed location even if its object matches: without symbols,
                // `show=perl` would show nothing.
                if matches.object(location) {
                    is_idle = false;
                    continue;
                }
                location.lines.retain(|line| matches.functions[line.function.index()]);
                verdict.is_hidden |= location.lines.is_empty();
                is_idle &= location.lines.is_empty();
            }
            idle.extend(is_idle.then_some("show"));
        }
    }

    /// Marks the locations where stacks are cut, and cuts inlined calls there.
    fn cut_chains(&self, profile: &mut Profile, verdicts: &mut [Verdict], idle: &mut Vec<&'static str>) {
        if let Some(expression) = &self.show_from {
            let matches = Matches::new(profile, expression);
            for (location, verdict) in profile.locations.iter_mut().zip(&mut *verdicts) {
                let outermost =
                    location.lines.iter().rposition(|line| matches.functions[line.function.index()]);
                verdict.is_outermost = matches.object(location) || outermost.is_some();
                if let Some(place) = outermost.filter(|_| !matches.object(location)) {
                    location.lines.truncate(place + 1);
                }
            }
            if verdicts.iter().all(|verdict| !verdict.is_outermost) {
                idle.push("show-from");
            }
        }
        if let Some(expression) = &self.prune_from {
            // As in pprof, only names are matched.
            let matches: Vec<bool> = profile
                .functions
                .iter()
                .map(|one| expression.is_match(without_arguments(&one.name)))
                .collect();
            for (location, verdict) in profile.locations.iter_mut().zip(&mut *verdicts) {
                let innermost = location.lines.iter().position(|line| matches[line.function.index()]);
                verdict.is_innermost = innermost.is_some();
                location.lines.drain(..innermost.unwrap_or(0));
            }
            if verdicts.iter().all(|verdict| !verdict.is_innermost) {
                idle.push("prune-from");
            }
        }
    }
}

/// Removes the functions matching [`Profile::drop_frames`] but not [`Profile::keep_frames`], with
/// their callees. Frames outside the outermost one that stays are kept: no sample becomes empty.
///
/// # Errors
/// If the profile's expressions are invalid.
pub fn drop_frames(profile: &mut Profile) -> Result<(), Error> {
    if profile.drop_frames.is_empty() {
        return Ok(());
    }
    /// Those of Go and tcmalloc have some hundred bytes; compiled ones are many times larger.
    const MAX_BYTES: usize = 16 << 10;
    let whole = |option: &str, text: &str| {
        if text.len() > MAX_BYTES {
            let reason = format!("{option}: has {} bytes, more than {MAX_BYTES}", text.len());
            return Err(Error::new(ErrorKind::Format, reason).advise("the file is damaged or malicious"));
        }
        expression(option, &format!("^(?:{text})$"))
    };
    let drop = whole("drop_frames of the profile", &profile.drop_frames)?;
    let keep = (!profile.keep_frames.is_empty())
        .then(|| whole("keep_frames of the profile", &profile.keep_frames))
        .transpose()?;
    let is_dropped: Vec<bool> = profile
        .functions
        .iter()
        .map(|function| {
            let name = without_arguments(&function.name);
            !name.is_empty() && drop.is_match(name) && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
        })
        .collect();
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Stays,
        /// Removed, with its callees.
        Goes,
        /// Kept without the functions inlined into it; its callees are removed.
        Ends,
    }
    let mut fates = vec![Fate::Stays; profile.locations.len()];
    for (location, fate) in profile.locations.iter_mut().zip(&mut fates) {
        let outermost = location.lines.iter().rposition(|line| is_dropped[line.function.index()]);
        if let Some(place) = outermost {
            let is_whole = place + 1 == location.lines.len();
            *fate = if is_whole { Fate::Goes } else { Fate::Ends };
            location.lines.drain(..if is_whole { 0 } else { place + 1 });
        }
    }
    let samples = std::mem::take(&mut profile.samples);
    let cut = |sample: SampleRef<'_>, chain: &mut Vec<LocationId>| {
        let fate = |id: &LocationId| fates[id.index()];
        let stays = sample.chain.iter().rposition(|id| fate(id) == Fate::Stays);
        let inner = &sample.chain[..stays.unwrap_or(0)];
        let begin = inner
            .iter()
            .rposition(|id| fate(id) != Fate::Stays)
            .map_or(0, |place| place + usize::from(fate(&inner[place]) == Fate::Goes));
        chain.extend_from_slice(&sample.chain[begin..]);
        true
    };
    retain(profile, cut, &samples);
    Ok(())
}

/// Returns a name up to its arguments: the first parenthesis that is not part of a name.
fn without_arguments(name: &str) -> &str {
    let mut rest = 0;
    while let Some(found) = name[rest..].find('(') {
        let place = rest + found;
        if name[place..].starts_with("(anonymous namespace)") {
            rest = place + "(anonymous namespace)".len();
        } else if name[..place].ends_with("operator") && name[place..].starts_with("()") {
            rest = place + "()".len();
        } else {
            return &name[..place];
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_arguments_but_not_parentheses_of_names() {
        for (name, short) in [
            ("main", "main"),
            ("f(int)", "f"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("A::operator()(int) const", "A::operator()"),
        ] {
            assert_eq!(without_arguments(name), short);
        }
    }
}
