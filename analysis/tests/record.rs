//! `sigprof record` and `sigprof recover`, with real programs: of Debian's packages perl-base, gzip, grep, coreutils, util-linux, dash, python3
//! and gcc, which ci/setup.sh installs; and of musl-tools, which ci/test.sh does.

#[path = "record/ends.rs"]
mod ends;
#[path = "record/left_behind.rs"]
mod left_behind;
#[path = "record/processes.rs"]
mod processes;
#[path = "record/refusals.rs"]
mod refusals;
#[path = "record/spools.rs"]
mod spools;
#[path = "record/support.rs"]
mod support;
#[path = "record/surroundings.rs"]
mod surroundings;
