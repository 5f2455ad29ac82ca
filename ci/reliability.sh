#!/bin/sh
# Runs each row of docs/reliability/rows.md with our library and with gperftools', and prints the table: what the application does,
# and what came of it. Takes the names of modules, by default all that have rows. A person runs it; the tests alone, with our
# library, are part of ci/test.sh.
set -eu
cd "$(dirname "$0")/.."

theirs=${SIGPROF_THEIRS:-$(ldconfig -p | awk '$1 == "libprofiler.so.0" { print $NF; exit }')}
[ -n "$theirs" ] || { echo "reliability: no libprofiler.so.0; ci/setup.sh installs gperftools'" >&2; exit 1; }
[ $# -gt 0 ] || set -- ends ends_of_programs exec spool memory memory_limits fork fork_daemons fork_storms bad_output output_names \
    output_places output_targets signals app_signals app_timers app_runtimes loaders loaders_copies loaders_programs \
    loaders_neighbours linking torture_finds suite_finds

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# Sentence of each test: its doc comment, on one line.
sentences() {
    awk -v module="$2" '
        /^\/\/\/ / { text = text (text == "" ? "" : " ") substr($0, 5); next }
        /^fn / { name = $2; sub(/\(.*/, "", name); if (text != "") print module "::" name "\t" text }
        !/^#\[/ { text = "" }
    ' "cdylib/tests/$1/$2.rs"
}

# Name and outcome of each test of a run: "ok", or the line that says what went wrong, and what was found instead.
outcomes() {
    LC_ALL=C tr -cd '\11\12\40-\176' <"$1" | sed "s|/tmp/sigprof-test-[A-Za-z0-9]*/||g; s|$PWD/||g" | awk '
        /^test .* \.\.\. / { outcome[$2] = ($NF == "ok") ? "ok" : "fails" }
        /^---- .* stdout ----$/ { failed = $2; state = 1; next }
        state == 1 && /^thread .* panicked at / { state = 2; next }
        state == 2 && NF { outcome[failed] = substr($0, 1, 160); state = 3; next }
        state == 3 && /^ *left: / { outcome[failed] = outcome[failed] "; found " substr($0, index($0, ":") + 2, 60) }
        END {
            for (name in outcome) {
                sub(/assertion `left == right` failed:? */, "", outcome[name])
                gsub(/\|/, "\\|", outcome[name])
                if (outcome[name] != "ok") outcome[name] = "**" outcome[name] "**"
                print name "\t" outcome[name]
            }
        }
    '
}

# rows TIER MODULE: the tests of a module, of the gate or of the full check.
rows() {
    run="cargo test --quiet --package sigprof-cdylib --locked --test $1 -- --format=pretty $2::"
    RUST_BACKTRACE=0 $run >"$directory/ours" 2>"$directory/errors" || true
    # Many programs hang with it. Alone, none of them takes 12 seconds.
    RUST_BACKTRACE=0 SIGPROF_TEST_SECONDS=60 SIGPROF_TEST_LIBRARY=$theirs $run >"$directory/theirs" 2>>"$directory/errors" || true
    [ -s "$directory/ours" ] || { cat "$directory/errors" >&2; exit 1; }
    outcomes "$directory/ours" | sort >"$directory/ours.outcomes"
    outcomes "$directory/theirs" | sort >"$directory/theirs.outcomes"
    sentences "$1" "$2" | while IFS="$(printf '\t')" read -r name text; do
        ours=$(awk -F '\t' -v name="$name" '$1 == name { print $2 }' "$directory/ours.outcomes")
        other=$(awk -F '\t' -v name="$name" '$1 == name { print $2 }' "$directory/theirs.outcomes")
        [ -z "$ours" ] || printf '| %s | %s | %s |\n' "$text" "$ours" "${other:-**the test itself did not end**}"
    done
}

echo "| the application | sigprof | gperftools |"
echo "| --- | --- | --- |"
for module; do
    for tier in gate full; do
        [ ! -e "cdylib/tests/$tier/$module.rs" ] || rows "$tier" "$module"
    done
done
