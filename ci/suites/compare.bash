# Compares runs of a suite; sourced by ci/suites.sh.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.

heading() {
    echo "| suite | tests | as without | otherwise | left out | profiles | samples | broken | lost ticks | killed | left running |"
    echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
}

# Names of the tests whose lines are given.
names() { cut -f 1 | sort -u; }

# measure SUITE: runs it without the library and with it, the units with differences twice more both ways, and prints the
# suite's line of the table. Differences are told on stderr.
measure() {
    local results=$results/$1 all again round
    rm -rf "$results"
    mkdir -p "$results"
    mapfile -t all < <(units | grep -E "$pattern")
    pass "$results/without.1" without "${all[@]}"
    pass "$results/with.1" with "${all[@]}"
    sort "$results/without.1" >"$results/without"
    sort "$results/with.1" >"$results/with"
    sift 1
    # A test that comes out in two ways without the library says nothing about it.
    mapfile -t again < <(sed 's/: .*//' "$results/otherwise" | sort -u)
    if [ "${#again[@]}" -gt 0 ]; then
        for round in 2 3; do
            pass "$results/without.$round" without "${again[@]}"
            pass "$results/with.$round" with "${again[@]}"
        done
        sift 3
    fi
    line "$1"
    tell
}

# sift RUNS: finds the tests that did not come out alike in all runs without the library ($results/flaky), and those of the
# others that came out otherwise in the first run with it ($results/otherwise).
sift() {
    local run
    : >"$results/flaky"
    for run in $(seq 2 "$1"); do
        sort "$results/without.$run" >"$results/sorted"
        # Later runs have some units only.
        sed 's/: .*//' "$results/sorted" | sort -u >"$results/units"
        awk -F ': ' 'NR == FNR { has[$1]; next } $1 in has' "$results/units" "$results/without" >"$results/part"
        comm -3 "$results/part" "$results/sorted" | sed 's/^\t//' | names >>"$results/flaky"
    done
    sort -u -o "$results/flaky" "$results/flaky"
    comm -3 "$results/without" "$results/with" | sed 's/^\t//' | names | comm -23 - "$results/flaky" \
        >"$results/otherwise"
}

line() {
    local tests otherwise flaky
    tests=$(names <"$results/without" | comm -23 - "$results/flaky" | wc -l)
    otherwise=$(wc -l <"$results/otherwise")
    flaky=$(wc -l <"$results/flaky")
    cat "$results"/with.*.left >"$results/left" 2>/dev/null || true
    cat "$results"/without.1.left >"$results/left.without" 2>/dev/null || true
    awk -v suite="$1" -v tests="$tests" -v otherwise="$otherwise" -v flaky="$flaky" \
        -v left="$(sort "$results/with.1.left" 2>/dev/null | wc -l)" -v left_without="$(wc -l <"$results/left.without")" '
        { profiles += $1; samples += $2; broken += $3; lost += $4; spools += $5 }
        END {
            printf "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d (%d without) |\n", suite, tests, tests - otherwise,
                otherwise, flaky, profiles, samples, broken, lost, spools, left, left_without
        }' "$results/with.1.profiles"
}

# Each difference: what came of the test without the library, and what with it, in each run.
tell() {
    local test run
    while IFS= read -r test; do
        printf '  %s\n    without: %s\n' "$test" "$(outcome "$test" "$results/without")"
        for run in "$results"/with.[0-9]; do
            printf '    with:    %s\n' "$(outcome "$test" "$run")"
        done
    done <"$results/otherwise" >"$results/differences"
    cat "$results/differences" >&2
}

outcome() {
    local found
    found=$(awk -F '\t' -v test="$1" '$1 == test { printf "%s%s", sep, $2; sep = ", " }' "$2")
    echo "${found:-no such test}"
}
