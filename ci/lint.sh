#!/bin/sh
# Formatting, clippy, rustdoc and, where it is installed, shellcheck; any warning is an error.
set -eu
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
if command -v shellcheck >/dev/null; then
    shellcheck ci/*.sh .ci/run
else
    echo "lint: no shellcheck, scripts not checked" >&2
fi
