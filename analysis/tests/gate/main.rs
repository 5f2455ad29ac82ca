//! Tests of the command and of its library that prove behaviour: one program, since linking each file by itself takes longer
//! than to run it. A test touches nothing that is the process's own, or starts another process for it.

#[path = "../../../tests/support/checker.rs"]
mod checker;
#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../../examples/service.rs"]
mod service;
#[path = "../../../tests/support/skip.rs"]
mod skip;

mod completions;
mod formats;
mod hostile;
mod pictures;
mod record;
mod reports;
mod streams;
mod symbols;
mod truth;
