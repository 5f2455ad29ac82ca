//! Functions of Rust's libraries that a signal handler must not call, identified by their names.

use std::fmt;

/// The reason why a handler must not call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It panics or aborts, and never returns.
    Panic,
    /// It allocates or frees.
    Allocation,
    /// It takes a lock, or waits for one.
    Lock,
    /// It formats, or writes to a stream.
    Formatting,
}

/// Kinds by parts of names.
const MARKS: &[(&str, Kind)] = &[
    ("core::panicking::", Kind::Panic),
    ("core::option::unwrap_failed", Kind::Panic),
    ("core::option::expect_failed", Kind::Panic),
    ("core::result::unwrap_failed", Kind::Panic),
    ("core::slice::index::", Kind::Panic),
    ("core::cell::panic_", Kind::Panic),
    ("::slice_error_fail", Kind::Panic),
    ("::len_mismatch_fail", Kind::Panic),
    ("::assert_failed", Kind::Panic),
    ("alloc::raw_vec::handle_error", Kind::Panic),
    ("alloc::raw_vec::capacity_overflow", Kind::Panic),
    ("alloc::alloc::handle_alloc_error", Kind::Panic),
    ("std::panicking::", Kind::Panic),
    ("std::process::abort", Kind::Panic),
    ("__rustc::rust_", Kind::Panic),
    ("__rust_alloc_error_handler", Kind::Panic),
    ("__rust_drop_panic", Kind::Panic),
    ("__rust_foreign_exception", Kind::Panic),
    ("__rustc::__rust_alloc", Kind::Allocation),
    ("__rustc::__rust_dealloc", Kind::Allocation),
    ("__rustc::__rust_realloc", Kind::Allocation),
    ("alloc::raw_vec::", Kind::Allocation),
    ("std::sys::sync::", Kind::Lock),
    ("std::sync::", Kind::Lock),
    ("parking_lot", Kind::Lock),
    ("core::fmt::", Kind::Formatting),
    ("std::io::", Kind::Formatting),
];

impl Kind {
    pub(crate) fn of(name: &str) -> Option<Self> {
        MARKS.iter().find(|(mark, _)| name.contains(mark)).map(|(_, kind)| *kind)
    }

    /// The kind of another library's function; `None` if it must be listed by its name.
    pub(crate) fn of_import(name: &str) -> Option<Self> {
        ["malloc", "calloc", "realloc", "posix_memalign", "free"].contains(&name).then_some(Self::Allocation)
    }

    /// Whether calls of such a function are followed: formatting calls back.
    pub(crate) fn is_followed(self) -> bool {
        self == Self::Formatting
    }
}

/// As in `docs/signal-safety.md`.
impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Panic => "panic",
            Self::Allocation => "allocation",
            Self::Lock => "lock",
            Self::Formatting => "formatting",
        })
    }
}
