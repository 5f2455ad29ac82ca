#!/bin/sh
# Installs what the tests need (needs root; otherwise it names what is missing) and runs them: all that prove behaviour.
# What measures, or takes minutes, is in ci/full.sh.
set -eu
cd "$(dirname "$0")/.."

ci/setup.sh
# It takes a while, and the compilers do as well.
ci/hatchet.sh >/dev/null &
hatchet=$!
# A test that needs one of these programs fails without it. As root, so does one that needs mounts, if root may mount here.
if command -v dpkg-query >/dev/null; then
    export SIGPROF_TEST_REQUIRE=tools
    if [ "$(id -u)" != 0 ]; then
        echo "test: not root; tests that need root are skipped" >&2
    elif unshare --mount --map-root-user --pid --fork mount -t tmpfs none /dev/shm; then
        SIGPROF_TEST_REQUIRE=all
    else
        echo "test: this root may not mount; tests that need mounts are skipped" >&2
    fi
fi
# The development profile, because it checks for overflow. What tests preload into other programs they build in release.
nextest=$(ci/nextest.sh)
if [ -n "$nextest" ]; then
    # Nextest does not run the examples in documentation. Beside them, cargo builds the libraries that ci/run_tests.py needs:
    # in another profile, so that neither waits for the other.
    cargo build --release --package sigprof-cdylib --lib --locked &
    cargo test --workspace --locked --doc
    wait $!
    wait "$hatchet"
    SIGPROF_TEST_HATCHET=$(ci/hatchet.sh) ci/run_tests.py "$nextest" --workspace --locked
else
    wait "$hatchet"
    SIGPROF_TEST_HATCHET=$(ci/hatchet.sh) cargo test --workspace --locked --no-fail-fast
fi
