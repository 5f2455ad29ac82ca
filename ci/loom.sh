#!/bin/sh
# Model-checks the lock-free code: loom runs its tests under every order of events that matters.
set -eu
cd "$(dirname "$0")/.."

# A directory of its own: the flag would make the next ordinary build start afresh.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
# Compiling takes longer than the models do: what links the release in one piece is left out.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false
RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" cargo test --package sigprof --release --locked --lib loom
