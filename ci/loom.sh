#!/bin/sh
# Model-checks the lock-free code: loom runs its tests under every order of events that matters.
set -eu
cd "$(dirname "$0")/.."

# A directory of its own: the flag would make the next ordinary build start afresh.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" cargo test --package sigprof --release --locked --lib loom
