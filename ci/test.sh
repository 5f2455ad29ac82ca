#!/bin/sh
# Installs what the tests need (as root; otherwise says what is missing) and runs all of them.
set -eu
cd "$(dirname "$0")/.."

ci/setup.sh
# Development profile, for its overflow checks. What tests preload into other programs they build in release.
cargo test --workspace --locked --no-fail-fast
# One short round of each bench: they must work, whatever their figures.
cargo test --locked --bench tick --bench footprint --bench cold --bench walkers --bench fork --bench whole
