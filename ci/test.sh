#!/bin/sh
# Installs what the tests need (needs root; otherwise it names what is missing) and runs them: all that prove behaviour.
# What measures, or takes minutes, is in ci/full.sh.
set -eu
cd "$(dirname "$0")/.."

# Other loaders, allocators and preloaded libraries: the tests that need them are skipped without.
ci/setup.sh musl-tools gcc-12-multilib fakeroot libcap2-bin libeatmydata1 libfaketime libjemalloc2 libtcmalloc-minimal4
# The development profile, because it checks for overflow. What tests preload into other programs they build in release.
nextest=$(ci/nextest.sh)
if [ -n "$nextest" ]; then
    # nextest runs no examples in documentation.
    cargo test --workspace --locked --doc
    ci/run_tests.py "$nextest" --workspace --locked
else
    cargo test --workspace --locked --no-fail-fast
fi
