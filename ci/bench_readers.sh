#!/bin/sh
# Prints the machine's facts and what it takes to show the hottest functions of profiles, beside go tool pprof, google-pprof and
# perf. Nothing else should run meanwhile; see the load average.
set -eu
cd "$(dirname "$0")/.."

ci/setup.sh linux-perf
binary=$(ci/big_binary.sh "${CARGO_TARGET_DIR:-target}/big_binary")
cargo bench --locked --package sigprof-analysis --bench readers --no-run
echo
echo "date        $(date -u '+%Y-%m-%d %H:%M UTC')"
echo "commit      $(git describe --always --dirty 2>/dev/null || echo none)"
echo "processor   $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) of them"
echo "compilers   $(rustc --version); $(go version)"
echo "load        $(cat /proc/loadavg)"
echo
SIGPROF_BIG_BINARY=$binary cargo bench --quiet --locked --package sigprof-analysis --bench readers
