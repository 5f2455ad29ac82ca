#!/bin/sh
# Model-checks the lock-free code: loom runs its tests under every order of events that matters.
set -eu
cd "$(dirname "$0")/.."

# A directory of its own: the flag would make the next ordinary build start afresh.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
# Compiling takes longer than the models do: only what a model runs is optimized, at level 1.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
RUSTFLAGS="--cfg loom -D warnings ${RUSTFLAGS:-}" cargo test --package sigprof --release --locked --lib \
    --config 'profile.release.package."*".opt-level=0' \
    --config 'profile.release.package.loom.opt-level=1' \
    --config 'profile.release.package.generator.opt-level=1' \
    loom
