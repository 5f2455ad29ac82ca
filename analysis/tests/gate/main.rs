//! Tests of the command and of its library that prove behaviour. They are one program because linking each file takes longer than
//! running it. A test that changes process-wide state does so in a child process.

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
