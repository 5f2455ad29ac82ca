#!/bin/sh
# Formatting, clippy, rustdoc, the words of the documents and, if it is installed, shellcheck; any warning is an error. `ci/lint.sh benches` checks
# the code that only benches build: a part of the row `benches` of ci/full.sh.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = benches ]; then
    # The build with time stamps (src/sample/stamps.rs).
    cargo clippy --workspace --lib --locked -- -D warnings --cfg sigprof_stamps
    # The workspaces of other profilers and unwinders. They share the target directory, for common dependencies.
    for peer in framehop pprof-rs; do
        cargo fmt --manifest-path "benches/$peer/Cargo.toml" --check
        cargo clippy --manifest-path "benches/$peer/Cargo.toml" --locked \
            --target-dir "${CARGO_TARGET_DIR:-target}" -- -D warnings
    done
    exit
fi

cargo fmt --all --check
ci/lint_docs.py
cargo clippy --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
if command -v shellcheck >/dev/null; then
    shellcheck ci/*.sh ci/suites/* .ci/run
else
    echo "lint: no shellcheck, scripts not checked" >&2
fi
