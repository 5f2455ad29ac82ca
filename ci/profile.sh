#!/bin/sh
# Profiles a command and prints its hottest functions: ci/profile.sh [--] [command [argument]...]
# Without a command it profiles perl counting words.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
[ "${1-}" != -- ] || shift
if [ $# = 0 ]; then
    # Perl and the licence are on every Debian machine.
    # shellcheck disable=SC2016 # The variables are Perl's.
    set -- perl -e '
        my %count;
        while ((times)[0] < 3) {
            open my $text, "<", "/usr/share/common-licenses/GPL-3" or die "GPL-3: $!\n";
            while (my $line = <$text>) { $count{lc $1}++ while $line =~ /(\w+)/g; }
        }
        my @words = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
        print "the five commonest words: @words[0 .. 4]\n";'
fi

in_root() { (cd "$root" && "$@"); }
in_root cargo build --quiet --release --locked --package sigprof-cdylib
in_root cargo build --quiet --release --locked --example top
target=$(in_root realpath "${CARGO_TARGET_DIR:-target}")

# The profiles stay, for other readers.
profiles=$(mktemp -d "${TMPDIR:-/tmp}/sigprof.XXXXXX")
status=0
env LD_PRELOAD="$target/release/libprofiler.so" CPUPROFILE="$profiles/profile" "$@" || status=$?

# The word behind the header is the first record's count, or the trailer's zero.
first_count() { od -An -tu8 -j40 -N8 "$1" | tr -d ' '; }

for file in "$profiles"/profile*; do
    if [ ! -s "$file" ] || [ "$(first_count "$file")" = 0 ]; then
        empty="${empty-}x"
        continue
    fi
    echo
    echo "$file"
    in_root cargo run --quiet --release --locked --example top -- "$file"
done
if [ -n "${empty-}" ]; then
    echo "profile: ${#empty} more processes used too little time to be sampled" >&2
fi
exit "$status"
