#!/bin/sh
# Prints the machine's facts and runs the benches. Nothing else should run meanwhile; see the load average.
set -eu
cd "$(dirname "$0")/.."

ci/setup.sh openssl redis-server redis-tools ripgrep bat povray z3
cargo bench --locked --bench tick --bench footprint --bench cold --bench walkers --bench fork --bench whole --bench overhead --no-run

hz=$({ gzip -dc /proc/config.gz || cat "/boot/config-$(uname -r)"; } 2>/dev/null | sed -n 's/^CONFIG_HZ=//p')
echo
echo "date        $(date -u '+%Y-%m-%d %H:%M UTC')"
echo "commit      $(git describe --always --dirty 2>/dev/null || echo none)"
echo "kernel      $(uname -srm), CONFIG_HZ=${hz:-unknown}"
echo "processor   $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) of them"
echo "libc        $(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)"
echo "compilers   $(rustc --version); gcc $(gcc -dumpfullversion)"
echo "load        $(cat /proc/loadavg)"
echo

for bench in tick footprint cold walkers fork whole overhead; do
    cargo bench --quiet --locked --bench "$bench"
    echo
done
