#!/bin/sh
# Kills a program at random moments, and steps through whole ticks, to see that its spool always holds all ticks that were
# over: ci/kill_points.sh [KILLS [STRIDE]]. By default 5000 kills, and a look behind each instruction: a quarter of an hour.
set -eu
cd "$(dirname "$0")/.."

SIGPROF_KILL_POINTS=${1:-5000}
SIGPROF_KILL_STRIDE=${2:-1}
export SIGPROF_KILL_POINTS SIGPROF_KILL_STRIDE SIGPROF_TEST_FULL=1
# With optimizations: the looks are what takes time.
cargo test --release --locked --package sigprof-cdylib --test kill_points -- --nocapture
