//! `sigprof record` and `sigprof recover`, with real programs: of Debian's packages perl-base, gzip, grep, coreutils, util-linux, dash, python3
//! and gcc, which ci/setup.sh installs; and of musl-tools, which ci/test.sh does.

mod ends;
mod left_behind;
mod processes;
mod refusals;
mod spools;
mod support;
mod surroundings;
