#!/bin/sh
# Installs what the tests need (needs root; otherwise it names what is missing) and runs them: all that prove behaviour.
# What measures, or takes minutes, is in ci/full.sh.
set -eu
cd "$(dirname "$0")/.."

# Other loaders, allocators and preloaded libraries, make, file systems.
ci/setup.sh musl-tools gcc-12-multilib fakeroot libcap2-bin libeatmydata1 libfaketime libjemalloc2 libtcmalloc-minimal4 \
    make e2fsprogs
# A test that needs one of these programs fails without it; as root, so does one that needs mounts, if root may mount here.
SIGPROF_TEST_REQUIRE=tools
if [ "$(id -u)" = 0 ]; then
    if unshare --mount --pid --fork mount -t tmpfs none /dev/shm; then
        SIGPROF_TEST_REQUIRE=all
    else
        echo "test: this root may not mount; tests that need mounts are skipped" >&2
    fi
fi
export SIGPROF_TEST_REQUIRE
# The development profile, because it checks for overflow. What tests preload into other programs they build in release.
nextest=$(ci/nextest.sh)
if [ -n "$nextest" ]; then
    # nextest runs no examples in documentation.
    cargo test --workspace --locked --doc
    ci/run_tests.py "$nextest" --workspace --locked
else
    cargo test --workspace --locked --no-fail-fast
fi
