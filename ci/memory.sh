#!/bin/sh
# A day of call chains that never come again, in a minute: 8.64 million ticks, as many as 100 Hz give, each in a chain of its
# own. Prints by how much the program grew, what became of the ticks, and how large the profile is. ci/memory.sh [TICKS
# [BOUND]]
set -eu
cd "$(dirname "$0")/.."

ticks=${1:-8640000}
bound=${2:-64M}
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked --package sigprof-cdylib
directory=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$directory"' EXIT
gcc -std=c11 -O2 -fno-optimize-sibling-calls cdylib/tests/programs/unique_chains.c -o "$directory/unique_chains" -lpthread
library=$(realpath "$target/release/libprofiler.so")
cd "$directory"
started=$(date +%s)
LD_PRELOAD=$library CPUPROFILE=prof CPUPROFILE_MAX_MEMORY=$bound CPUPROFILE_STATISTICS=1 ./unique_chains "$ticks" 1 0 end
echo "$(($(date +%s) - started)) seconds; bytes of the profile: $(stat -c %s prof); files left: $(find . -type f | wc -l) of 2"
