//! Tests of the command and its library. They are one program because linking takes longer than
//! running. A test that changes process-wide state does so in a child process.

#[allow(dead_code, reason = "the static library is for the tests of the C interface")]
#[path = "../../../tests/support/built.rs"]
mod built;
#[path = "../../../tests/support/checker.rs"]
mod checker;
#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../../examples/service.rs"]
mod service;
#[path = "../../../tests/support/skip.rs"]
mod skip;
#[allow(dead_code, reason = "these tests repeat nothing")]
#[path = "../../../tests/support/tier.rs"]
mod tier;

mod completions;
mod documents;
mod first_minutes;
mod formats;
mod gprof;
mod hostile;
mod hpctoolkit;
mod merged;
mod pictures;
mod record;
mod reports;
mod streams;
mod symbols;
mod truth;
