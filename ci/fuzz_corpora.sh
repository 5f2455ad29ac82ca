#!/bin/sh
# Renews the inputs that tests replay, fuzz/corpora/, by what ci/fuzz.sh has found since: ci/fuzz_corpora.sh [TARGET]...
# Of the inputs that together reach all that the corpus reaches it keeps 160, evenly from the smallest to the largest.
set -eu
cd "$(dirname "$0")/.."

if [ $# = 0 ]; then
    for target in fuzz/targets/*.rs; do
        set -- "$@" "$(basename "$target" .rs)"
    done
fi
chosen=$(mktemp -d)
trap 'rm -rf "$chosen"' EXIT
for target; do
    mkdir -p "fuzz/corpus/$target" "fuzz/corpora/$target" "$chosen/$target"
    cargo +nightly fuzz run "$target" "$chosen/$target" "fuzz/corpus/$target" "fuzz/corpora/$target" \
        "fuzz/seeds/$target" -- -set_cover_merge=1
    rm -f "fuzz/corpora/$target"/*
    # By size, then by name, which is the hash of what is in it.
    find "$chosen/$target" -type f -printf '%s %p\n' | sort -n >"$chosen/list"
    count=$(wc -l <"$chosen/list")
    awk -v n="$count" 'BEGIN { kept = n < 160 ? n : 160 } int(NR * kept / n) > int((NR - 1) * kept / n) { print $2 }' \
        "$chosen/list" | while read -r file; do cp "$file" "fuzz/corpora/$target/"; done
done
