#!/bin/sh
# Runs each fuzz target for a while: ci/fuzz.sh [SECONDS [TARGET]...]. Needs rustup's nightly compiler; installs cargo-fuzz.
# What a target finds stays in fuzz/artifacts/, its corpus in fuzz/corpus/; ci/fuzz_corpora.sh takes of that what is kept.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# = 0 ] || shift
if [ $# = 0 ]; then
    for target in fuzz/targets/*.rs; do
        set -- "$@" "$(basename "$target" .rs)"
    done
fi

# No installed program finds it by this name before it is installed.
cargo fuzz --version >/dev/null 2>&1 || cargo +nightly install cargo-fuzz --locked
for target; do
    mkdir -p "fuzz/corpus/$target"
    # With the address sanitizer, cargo-fuzz's default: a read beyond a slice is found, too.
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" "fuzz/corpora/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -timeout=10 -print_final_stats=1
done
