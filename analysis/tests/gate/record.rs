//! `sigprof record` and `sigprof recover`, with programs of Debian's packages perl-base, gzip,
//! grep, coreutils, util-linux, dash, python3, gcc and musl-tools, which ci/setup.sh installs.

mod code;
mod ends;
mod left_behind;
mod processes;
mod ranks;
mod refusals;
mod spools;
mod support;
mod surroundings;
