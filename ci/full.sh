#!/bin/bash
# The full check: what measures, and what takes minutes. ci/full.sh [NAME...] runs the rows that are named, one after the
# other, by default all but `suites`, which takes hours, and prints a table at the end. The log of each row is below the
# target directory, in full/NAME.log. As root on Debian 12; Miri, the sanitizers and the fuzzer need rustup's nightly
# compiler. Nothing else should run at the same time.
#
# The gate (ci/test.sh) proves behaviour. It measures nothing, so that its answer depends on the code alone.
# shellcheck disable=SC2317 # The table calls the functions.
set -eu
cd "$(dirname "$0")/.."

# Name, what it shows, and the command.
rows() {
    cat <<'EOF'
measured    | CPU time, shares, rates, many threads        | measured_tests
accuracy    | functions in step with a clock; 2000 threads   | ci/accuracy.py
rounds      | races of the gate's tests, many times over    | many_rounds
torture     | all that harms profilers at once              | env SIGPROF_TORTURE_SECONDS=20 ci/soak.sh
single_step | chains at every instruction                   | ci/single_step.sh
kill_points | kills at a thousand moments                   | ci/kill_points.sh 1000 19
memory      | 8.64 million chains in 64 MB                  | ci/memory.sh
databases   | 1024 profiles as one HPCToolkit database       | ci/databases.py
benches     | each bench builds, most run a short round     | short_benches
cross       | i686 and aarch64                              | ci/cross.sh all
address     | AddressSanitizer, LeakSanitizer               | ci/sanitize.sh address
thread      | ThreadSanitizer                               | ci/sanitize.sh thread
programs    | sanitized programs, valgrind                  | ci/sanitize.sh programs
miri        | undefined behaviour                           | ci/miri.sh 4
fuzz        | each parser for 20 s                          | ci/fuzz.sh 20
suites      | tests of other programs, profiled             | ci/suites.sh
EOF
}

target=${CARGO_TARGET_DIR:-target}

# The functions that the table names. The status of one is that of its last command.

# One test at a time: each measures.
nextest_alone() { ci/run_tests.py "$(ci/nextest.sh)" --workspace --locked --test-threads 1 "$@"; }

measured_tests() { nextest_alone --test full -E 'not test(/^(torture|single_step)::/)'; }

# The tests that ask how much they are to do (tests/support/tier.rs).
many_rounds() {
    local modules
    modules=$(grep -lE 'rounds\(|is_full\(' {cdylib,analysis}/tests/gate/*.rs | sed 's|.*/\(.*\)[.]rs|\1|' | paste -sd '|')
    SIGPROF_TEST_FULL=1 nextest_alone -E "test(/^($modules|record)::/)"
}

short_benches() {
    ci/lint.sh benches &&
        cargo test --locked --bench tick --bench footprint --bench fork --bench whole &&
        cargo test --locked --package sigprof-analysis --bench readers
}

# field NUMBER ROW
field() { printf '%s' "$2" | cut -d'|' -f"$1" | sed 's/^ *//; s/ *$//'; }

names=$(rows | cut -d'|' -f1 | tr -d ' ')
for name; do
    printf '%s\n' "$names" | grep -qxF -- "$name" || {
        echo "full: no row $name; there are:" "$names" >&2
        exit 2
    }
done

if [ $# = 0 ]; then
    mapfile -t names < <(printf '%s\n' "$names" | grep -vxF suites)
    set -- "${names[@]}"
fi

ci/setup.sh openssl default-jdk-headless nodejs >&2
# All rows promise all that the tests need.
export SIGPROF_TEST_REQUIRE=all
mkdir -p "$target/full"
status=0
table=$target/full/table.md
printf '| row | what it shows | seconds | result |\n| --- | --- | --- | --- |\n' >"$table"
while IFS= read -r row; do
    name=$(field 1 "$row")
    case " $* " in *" $name "*) ;; *) continue ;; esac
    log=$target/full/$name.log
    echo "$name: running, log: $log" >&2
    begin=$SECONDS
    result=passed
    read -ra command <<<"$(field 3 "$row")"
    "${command[@]}" </dev/null >"$log" 2>&1 || {
        result="**failed ($?)**"
        status=1
        tail -n 20 "$log" >&2
    }
    printf '| %s | %s | %s | %s |\n' "$name" "$(field 2 "$row")" "$((SECONDS - begin))" "$result" >>"$table"
done < <(rows)
cat "$table"
echo
echo "$(date -u '+%Y-%m-%d'), commit $(git describe --always --dirty 2>/dev/null || echo none), $(nproc) processors, $(uname -sr)"
exit "$status"
