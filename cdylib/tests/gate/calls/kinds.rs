//! Functions of Rust's library that code in a signal handler has to do without, known by their names.

use std::fmt;

/// Why a function is one that a handler should not call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It panics or aborts: it never comes back.
    Panic,
    /// It allocates or frees.
    Allocation,
    /// It takes a lock, or waits for one.
    Lock,
    /// It formats, or writes to a stream.
    Formatting,
}

/// The kinds by what names contain.
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
    /// The kind of the function called `name`; None for any other function.
    pub(crate) fn of(name: &str) -> Option<Self> {
        MARKS.iter().find(|(mark, _)| name.contains(mark)).map(|(_, kind)| *kind)
    }

    /// The kind of another library's function; None for one that has to be listed by its own name.
    pub(crate) fn of_import(name: &str) -> Option<Self> {
        ["malloc", "calloc", "realloc", "posix_memalign", "free"].contains(&name).then_some(Self::Allocation)
    }

    /// Whether what such a function calls in its turn is looked at: what formats calls back.
    pub(crate) fn is_followed(self) -> bool {
        self == Self::Formatting
    }
}

/// As `docs/signal-safety.md` writes it.
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
