#!/bin/sh
# Runs tests and programs with the address and the thread sanitizer and under valgrind: ci/sanitize.sh [address|thread|programs]...
# Needs rustup's nightly compiler, gcc and, for the last, valgrind. Half an hour for all.
#
# No report is suppressed. What the sanitizers cannot judge:
# * The walk reads whatever the registers and the call frame information lead to, after the kernel has shown it to be
#   there. That may be freed memory of the application, or the sanitizer's own. So these loads are made in assembly in such a
#   build (`--cfg sigprof_sanitized`, src/sample/unwind/memory.rs).
# * A tick runs on the slot's own stack, where the address sanitizer looks for no use after return; it would move locals
#   away from there (`work_runs_on_the_slots_own_stack` fails of it), so that is off.
# * The thread sanitizer puts off signals until the thread calls the C library, and then calls the handler with the
#   registers of the moment that is over. Walks from there find no caller, so tests that look at chains are left out: with
#   it run the unit tests, where it also watches threads beside each other. It knows no fences; where the order rests
#   on one (`gate.rs`, `recording.rs`) only atomics are touched by the tests, and loom has the models (ci/loom.sh).
set -eu
cd "$(dirname "$0")/.."

[ $# != 0 ] || set -- address thread programs
machine=x86_64-unknown-linux-gnu
built=${CARGO_TARGET_DIR:-target}
rustup component add --toolchain nightly rust-src
# A failure's backtrace is made from this much debugging information for minutes.
export RUST_BACKTRACE=0
export ASAN_OPTIONS=detect_stack_use_after_return=0:detect_leaks=1
export TSAN_OPTIONS=exitcode=66

# sanitized NAME COMMAND...: runs cargo with a sanitizer, the standard library included, in a directory of its own.
sanitized() {
    name=$1
    shift
    env CARGO_TARGET_DIR="$built/$name" RUSTFLAGS="-Zsanitizer=$name --cfg sigprof_sanitized ${RUSTFLAGS:-}" \
        cargo +nightly "$@"
}

# All tests of the crate, those of its runtime among them; leaks are looked for at the end of each.
# Left out: `a_callback_from_the_c_library`, since the sanitizer has a `qsort` of its own, so that the chain leads through
# none of libc; and `another_library_at_the_same_addresses`, since the memory of a closed library is not used again at once.
address() {
    sanitized address test --locked -Zbuild-std --target "$machine" --package sigprof --lib --tests --no-fail-fast -- \
        --skip a_callback_from_the_c_library --skip another_library_at_the_same_addresses
}

# Threads beside each other: units, starts and stops, writers of files, and ticks that come by a timer.
# Left out, for what the head says: `chains`, `bare_code`, `loaded_code`, `handler` and single tests that look into chains
# or count every signal; `fork`, since the sanitizer ends children that start threads; and of the units those that
# search for hours in what one thread does alone.
thread() {
    set -- test --locked -Zbuild-std --target "$machine" --package sigprof
    sanitized thread "$@" --lib -- sample:: control:: line:: sys:: --skip damage --skip garbage
    sanitized thread "$@" --no-fail-fast --test start --test file_profile --test memory_profile --test summary -- \
        --skip the_file_shows_each_tick --skip ticks_in_an_excluded_object
}

# A program with the sanitizer, and threads that allocate all the time, under the library: as it is, and with the sanitizer
# in it, too.
programs() {
    sanitized address build --locked --release -Zbuild-std --target "$machine" --package sigprof-cdylib
    cargo build --locked --release --package sigprof-cdylib
    plain=$(realpath "$built/release/libprofiler.so")
    checked=$(realpath "$built/address/$machine/release/libprofiler.so")
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    for kind in address thread; do
        gcc -g -O1 -fsanitize=$kind -pthread -o "$scratch/$kind" ci/sanitize/app.c
    done
    gcc -g -O1 -pthread -o "$scratch/plain" ci/sanitize/app.c
    profiled address "$plain" "$scratch/address"
    # The runtime has to come first; the compilers' agree on what it is called by.
    profiled address-in-both "$(gcc -print-file-name=libasan.so) $checked" "$scratch/address"
    profiled thread "$plain" "$scratch/thread"
    profiled valgrind "$plain" valgrind --quiet --error-exitcode=1 --leak-check=full "$scratch/plain"
}

# profiled NAME LIBRARIES COMMAND...: the program must do its work, report nothing, and be profiled.
profiled() {
    name=$1
    libraries=$2
    shift 2
    # The program itself is profiled, not this script's own tools: only it sees the variables.
    env ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" LD_PRELOAD="$libraries" CPUPROFILE="$scratch/$name.prof" \
        CPUPROFILE_FREQUENCY=1000 "$@" >"$scratch/output" 2>&1 || {
        cat "$scratch/output"
        echo "sanitize: $name: the program failed" >&2
        exit 1
    }
    grep -q '^sorted$' "$scratch/output"
    samples=$(sed -n 's/^PROFILE: .* = \([0-9]*\)\/.*/\1/p' "$scratch/output" | sort -n | tail -n 1)
    [ "${samples:-0}" -gt 20 ] || {
        cat "$scratch/output"
        echo "sanitize: $name: not profiled" >&2
        exit 1
    }
    if grep -E 'Sanitizer|^==[0-9]+==' "$scratch/output"; then
        echo "sanitize: $name: the above" >&2
        exit 1
    fi
    echo "$name: $samples samples, nothing to report"
}

for part; do
    "$part"
done
