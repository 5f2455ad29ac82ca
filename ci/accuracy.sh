#!/bin/sh
# Prints how much of the CPU time that a program used its profile accounts for, ours by each clock and gperftools' beside it:
# in all, and in each of four threads that use time as 1:2:3:4. A person runs it, with nothing else on the machine; docs/accuracy.md
# has what came of it. ci/accuracy.sh [SECONDS]: of CPU time in each run, 5 by default.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-5}
ci/setup.sh google-perftools libgoogle-perftools-dev >&2
cargo build --quiet --release --locked --package sigprof-cdylib
ours=${CARGO_TARGET_DIR:-target}/release/libprofiler.so
theirs=$(gcc -print-file-name=libprofiler.so)

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
program=$directory/accuracy
gcc -O2 -g -pthread -I include -o "$program" cdylib/tests/programs/accuracy.c

# The samples of the profile, from the line that both libraries print at the end.
samples() {
    sed -n 's/^PROFILE: interrupts\/evictions\/bytes = \([0-9]*\)\/.*/\1/p' "$directory/stderr"
}

# run LIBRARY RATE SETTING ARGUMENT...: one run, which must end well.
run() {
    library=$1 rate=$2 setting=$3
    shift 3
    rm -f "$directory/prof"
    env "$setting" CPUPROFILE_FREQUENCY="$rate" CPUPROFILE="$directory/prof" LD_PRELOAD="$library" \
        "$program" "$@" >"$directory/stdout" 2>"$directory/stderr"
}

# What the profile has too much (+) or too little of the time, in percent.
total() {
    awk -v samples="$(samples)" -v rate="$1" '$1 == "all" { printf "%+.2f", 100 * (samples / rate / $2 - 1) }' "$directory/stdout"
}

# The largest error of a thread's time, in percent of what the thread used.
shares() {
    google-pprof --text "$program" "$directory/prof" 2>/dev/null |
        awk -v rate="$1" '
            FNR == NR { if ($1 ~ /^part_/) used[$1] = $2; next }
            $NF in used { sampled[$NF] = $4 / rate }
            END {
                for (part in used) {
                    error = 100 * (sampled[part] / used[part] - 1)
                    if (error < 0 ? -error > worst : error > worst) { worst = error < 0 ? -error : error; signed = error }
                }
                printf "%+.1f", signed
            }' "$directory/stdout" -
}

# row NAME LIBRARY RATE SETTING
row() {
    run "$2" "$3" "$4" threads "$seconds" 1
    one=$(total "$3")
    run "$2" "$3" "$4" threads "$seconds" 1 2 3 4
    four=$(total "$3") each=$(shares "$3")
    run "$2" "$3" "$4" short "$((seconds * 400))" both
    echo "| $1 | $3 | $one | $four | $each | $(total "$3") |"
}

echo "| by | Hz | one thread | four threads, 1:2:3:4 | worst share of the four | threads of 1 ms |"
echo "| --- | --- | --- | --- | --- | --- |"
for rate in 100 250 1000 4000 10000; do
    for clock in cpu itimer perf; do
        row "sigprof, $clock" "$ours" "$rate" CPUPROFILE_CLOCK=$clock
    done
    # It takes 4000 at most.
    [ "$rate" -gt 4000 ] && continue
    row "gperftools" "$theirs" "$rate" LC_ALL=C
    row "gperftools, a timer for each thread" "$theirs" "$rate" CPUPROFILE_PER_THREAD_TIMERS=1
done
echo
echo "$(date -u '+%Y-%m-%d'), $(nproc) processors, $(uname -sr), load $(cut -d' ' -f1 /proc/loadavg)"
