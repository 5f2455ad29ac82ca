//! Actions of the application, and the expected profiles.

/// A case of `programs/fault_app.c`.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) is_started_by_environment: bool,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) status: i32,
    /// The names of the profiles, without the child's.
    pub(crate) names: &'static [&'static str],
    /// Ticks in each of them.
    pub(crate) ticks: usize,
    /// Ticks in profiles written before the exit, which remain if a later one cannot be written.
    pub(crate) stages: &'static [usize],
    /// Ticks of a forked child that is profiled, too.
    pub(crate) ticks_of_child: Option<usize>,
}

pub(crate) const SESSION: Case = Case {
    name: "session",
    is_started_by_environment: true,
    variables: &[],
    status: 3,
    names: &["prof"],
    ticks: 21,
    stages: &[10, 13],
    ticks_of_child: Some(4),
};

pub(crate) const TOGGLE: Case = Case {
    name: "toggle",
    is_started_by_environment: true,
    variables: &[("CPUPROFILESIGNAL", "12")],
    status: 3,
    names: &["prof.0", "prof.1"],
    ticks: 5,
    stages: &[],
    ticks_of_child: None,
};

pub(crate) const CALLS: Case = Case {
    name: "calls",
    is_started_by_environment: false,
    variables: &[("CPUPROFILE_SPOOL", "off")],
    status: 3,
    names: &["prof"],
    ticks: 10,
    stages: &[5],
    ticks_of_child: None,
};

pub(crate) const ABRUPT: Case = Case {
    name: "abrupt",
    is_started_by_environment: true,
    variables: &[],
    status: 3,
    names: &["prof"],
    ticks: 5,
    stages: &[],
    ticks_of_child: None,
};

pub(crate) const REPLACED: Case = Case {
    name: "replaced",
    is_started_by_environment: true,
    variables: &[],
    status: 0,
    names: &["prof"],
    ticks: 5,
    stages: &[],
    ticks_of_child: None,
};
