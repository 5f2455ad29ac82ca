#!/bin/bash
# Runs the tests of programs that nobody here wrote, as they are and under the library, at 1000 ticks a second and with
# all children followed, and prints what came out otherwise: ci/suites.sh [--library FILE] [NAME...]
#
# NAME is a file in ci/suites/, or NAME:PATTERN for some of its units; without one all of them run. FILE is another library
# to preload, gperftools' for example. A person runs it, for an hour and more. Results stay below the target directory, in
# suites/results, or suites/results-other.
#
# A suite is a file of shell that has
#   packages="..."      Debian's packages that it needs
#   sources="..."       Debian's source packages; each is unpacked to $suites/src/NAME
#   limit=SECONDS       that one unit may take
#   prepare             makes what the units share, in $shared; once
#   units               prints the names of its units
#   run UNIT            runs one, in an empty directory; prints lines of a test's name, a tab, and what came of it
# As root, all but those with `needs_root=yes` run as nobody, as such tests should.
set -eu
cd "$(dirname "$0")/.."

library='' other=''
if [ "${1-}" = --library ]; then
    library=$(realpath "$2")
    other=yes
    shift 2
fi
if [ $# = 0 ]; then
    mapfile -t all < <(cd ci/suites && printf '%s\n' *.sh | sed 's/[.]sh$//')
    set -- "${all[@]}"
fi

root=$PWD
# For the suite that builds with cargo, whose environment is not ours.
cargo_directory=$(dirname "$(rustup which cargo 2>/dev/null || command -v cargo)")
cargo_home=$HOME
export root cargo_directory cargo_home
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
suites=$target/suites
export suites

# Spools and shared memory of the programs go to a /dev/shm of their own, so that what they leave can be counted.
if [ "$(id -u)" = 0 ] && [ -z "${SIGPROF_SUITES_INSIDE-}" ]; then
    export SIGPROF_SUITES_INSIDE=yes
    exec unshare --mount --propagation private "$0" ${library:+--library "$library"} "$@"
fi
[ -z "${SIGPROF_SUITES_INSIDE-}" ] || mount -t tmpfs -o mode=1777 none /dev/shm

. ci/suites/fetch.bash
. ci/suites/run.bash
. ci/suites/compare.bash

cargo build --quiet --release --locked --package sigprof-cdylib
cargo build --quiet --release --locked --example check --example recover
examples=$target/release/examples
# Programs keep what they have mapped: a copy stays as it is while the tree is built anew. It is put in place at once, since
# another suite may be running with it.
copy=$suites/library${other:+-other}
mkdir -p "$copy"
install -m 755 "${library:-$target/release/libprofiler.so}" "$copy/new.$$"
mv "$copy/new.$$" "$copy/libprofiler.so.0"
library=$copy/libprofiler.so.0

results=$suites/results${other:+-other}
mkdir -p "$results"
chmod a+x "$target" "$suites"

heading
for name; do
    pattern=${name#*:}
    name=${name%%:*}
    [ "$pattern" != "$name" ] || pattern=.
    # In a process of its own, since suites define the same names.
    (
        packages='' sources='' limit=300 needs_root=''
        shared=$suites/shared/$name
        export shared
        # shellcheck source=/dev/null
        . "$root/ci/suites/$name.sh"
        # shellcheck disable=SC2086 # Lists of words.
        [ -z "$packages" ] || ci/setup.sh $packages >&2
        fetch "$sources"
        if [ ! -e "$shared/prepared" ]; then
            rm -rf "$shared"
            mkdir -p "$shared"
            prepare >"$shared/prepare.log" 2>&1 || { tail -n 20 "$shared/prepare.log" >&2; exit 1; }
            chmod -R a+rX "$shared"
            touch "$shared/prepared"
        fi
        measure "$name"
    )
done
