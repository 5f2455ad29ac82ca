#!/bin/sh
# Builds a large Rust program with all debug information, in DWARF 5, and prints its path: ci/big_binary.sh DIR.
# Nothing is done where DIR has it already. It is ripgrep 14.1.1 from crates.io, about 53 MB: what benches and docs name symbols of.
set -eu

if [ $# != 1 ]; then
    echo "usage: ci/big_binary.sh DIR" >&2
    exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
if [ ! -x "$dir/bin/rg" ]; then
    # Standard libraries bring DWARF 4 of their own, so both versions are in it. Its log is for stderr, the path for stdout.
    # From another directory, so that no configuration of this project changes the program.
    (
        cd "$dir"
        unset CARGO_BUILD_RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
        CARGO_PROFILE_RELEASE_DEBUG=2 CARGO_PROFILE_RELEASE_STRIP=none RUSTFLAGS="-C dwarf-version=5" \
            CARGO_TARGET_DIR="$dir/target" cargo install --root "$dir" --locked --version 14.1.1 ripgrep
    ) >&2
    rm -rf "$dir/target"
fi
size=$(stat -c %s "$dir/bin/rg")
if [ "$size" -lt 40000000 ]; then
    echo "big_binary: $dir/bin/rg has only $size bytes: debug information is missing" >&2
    exit 1
fi
echo "$dir/bin/rg"
