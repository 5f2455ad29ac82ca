#!/bin/sh
# Builds the libraries and installs them with their header: ci/install.sh PREFIX
set -eu

if [ $# != 1 ]; then
    echo "usage: $0 PREFIX" >&2
    exit 2
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

cargo build --release --locked --package sigprof-cdylib
built=${CARGO_TARGET_DIR:-target}/release

install -d "$prefix/lib" "$prefix/include/gperftools"
# A running program keeps the file it has mapped: install makes a new one, it does not write into the old.
install -m 755 "$built/libprofiler.so" "$prefix/lib/libprofiler.so.0"
ln -sf libprofiler.so.0 "$prefix/lib/libprofiler.so"
install -m 644 "$built/libprofiler.a" "$prefix/lib/libprofiler.a"
install -m 644 include/gperftools/profiler.h "$prefix/include/gperftools/profiler.h"
