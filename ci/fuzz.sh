#!/bin/bash
# Runs each fuzz target for a while: ci/fuzz.sh [SECONDS [TARGET]...]. The output of a target is printed when it exits.
# Needs rustup's nightly compiler; installs cargo-fuzz. What a target finds stays in fuzz/artifacts/, its corpus in fuzz/corpus/;
# ci/fuzz_corpora.sh takes of that what is kept.
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
cargo +nightly fuzz build
# fuzz TARGET: with the address sanitizer, cargo-fuzz's default: a read beyond a slice is found, too.
fuzz() {
    mkdir -p "fuzz/corpus/$1" "fuzz/corpora/$1"
    local status=0 length=4096
    # Three files in one input.
    [ "$1" != analysis_hpctoolkit ] || length=12288
    report=$(cargo +nightly fuzz run "$1" "fuzz/corpus/$1" "fuzz/seeds/$1" "fuzz/corpora/$1" -- \
        -max_total_time="$SECONDS_EACH" -max_len="$length" -timeout=10 -print_final_stats=1 2>&1) || status=1
    printf '%s\n' "$report"
    [ "$status" = 0 ] || echo "fuzz: $1 failed" >&2
    return "$status"
}
export -f fuzz
# As many at a time as there are processors: each uses one.
printf '%s\n' "$@" | SECONDS_EACH=$seconds xargs -P "$(nproc)" -I TARGET bash -c 'fuzz TARGET'
