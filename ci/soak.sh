#!/bin/sh
# Runs the torture (cdylib/tests/full/torture.rs) for minutes, once for each way of running it, and prints a line for each:
# ci/soak.sh [MINUTES [VARIANT...]]. By default 10 minutes of each. A person runs it; 20 s of each are
# part of ci/full.sh, by SIGPROF_TORTURE_SECONDS. Another library is tortured with
# SIGPROF_TEST_LIBRARY=/path/to/libprofiler.so.0.
set -eu
cd "$(dirname "$0")/.."

minutes=${1:-10}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- preloaded often realtime limited locked without_spool with_handler switched linked alone

SIGPROF_TORTURE_SECONDS=${SIGPROF_TORTURE_SECONDS:-$((minutes * 60))}
export SIGPROF_TORTURE_SECONDS
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

status=0
for variant; do
    report=$directory/$variant
    if RUST_BACKTRACE=0 cargo test --locked --quiet --package sigprof-cdylib --test full -- \
        --exact --nocapture "torture::$variant" >"$report" 2>&1 && grep "^torture: $variant: " "$report"; then
        continue
    fi
    status=1
    # What came of it in one line, and behind it all that is known of a hang or a fault.
    echo "torture: $variant: $(grep -m 1 -E 'hangs since|ended after|assertion|panicked|no such|error' "$report" || echo 'not run')"
    cat "$report" >&2
done
exit $status
