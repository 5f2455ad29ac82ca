#!/bin/sh
# Builds the command and the libraries and installs them, with manual pages, completions and the C header:
# ci/install.sh PREFIX
set -eu

if [ $# != 1 ]; then
    echo "usage: $0 PREFIX" >&2
    exit 2
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

cargo build --release --locked --package sigprof-cdylib --package sigprof-analysis
built=${CARGO_TARGET_DIR:-target}/release

install -d "$prefix/bin" "$prefix/lib" "$prefix/include/gperftools" "$prefix/share/man/man1" \
    "$prefix/share/bash-completion/completions" "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
install -m 755 "$built/sigprof" "$prefix/bin/sigprof"
"$prefix/bin/sigprof" manual "$prefix/share/man/man1"
"$prefix/bin/sigprof" completions bash >"$prefix/share/bash-completion/completions/sigprof"
"$prefix/bin/sigprof" completions zsh >"$prefix/share/zsh/site-functions/_sigprof"
"$prefix/bin/sigprof" completions fish >"$prefix/share/fish/vendor_completions.d/sigprof.fish"
# A running program keeps the file it has mapped: install makes a new one, it does not write into the old.
install -m 755 "$built/libprofiler.so" "$prefix/lib/libprofiler.so.0"
ln -sf libprofiler.so.0 "$prefix/lib/libprofiler.so"
install -m 644 "$built/libprofiler.a" "$prefix/lib/libprofiler.a"
install -m 644 include/gperftools/profiler.h "$prefix/include/gperftools/profiler.h"

echo "installed in $prefix: bin/sigprof, lib/libprofiler.so, include/gperftools/profiler.h, manual pages, completions"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "to find the command: export PATH=$prefix/bin:\$PATH" ;;
esac
