//! Functions that options include or exclude.

/// Functions that options include or exclude. If none is included, all are that are not excluded.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    included: Vec<bool>,
    excluded: Vec<bool>,
}

impl Selection {
    /// Excludes these functions.
    pub(super) fn without(excluded: Vec<bool>) -> Self {
        Self { included: Vec::new(), excluded }
    }

    /// True if a function is included.
    pub(super) fn allows(&self, function: usize) -> bool {
        if self.includes(function) {
            return true;
        }
        !self.included.contains(&true) && !is_set(&self.excluded, function)
    }

    /// True if a function is excluded, and not included.
    pub(super) fn excludes(&self, function: usize) -> bool {
        is_set(&self.excluded, function) && !self.includes(function)
    }

    fn includes(&self, function: usize) -> bool {
        is_set(&self.included, function)
    }
}

fn is_set(set: &[bool], function: usize) -> bool {
    set.get(function).copied().unwrap_or(false)
}
