#!/bin/sh
# Runs under Miri what it can run: ci/miri.sh [SEEDS]. Needs rustup's nightly compiler.
#
# Miri has no signals and makes no system call but by names of libc that it knows. So what it cannot run is whatever reads
# memory by the unwinder's probe, maps memory or forks: the handler, the walks (`unwind/` but for what is named below),
# `scratch`, `recording`, `spool_memory`, `process_mark`, and nearly all of `control/` and `sys/`. The arithmetic of the
# walks' parts is fuzzed, the rest is what the sanitizers are for (ci/sanitize.sh).
set -eu
cd "$(dirname "$0")/.."

seeds=${1:-16}
rustup component add --toolchain nightly miri rust-src
# Inputs of fuzz targets are read from files. No pointer is made of a number.
flags="-Zmiri-disable-isolation -Zmiri-strict-provenance"

# miri FLAGS ARGUMENT...: runs the library's tests that the arguments name.
miri() {
    more=$1
    shift
    MIRIFLAGS="$flags $more" cargo +nightly miri test --locked --package sigprof --lib -- "$@"
}

# Left out are long searches in code that is all safe: each takes minutes to hours here, and Miri has nothing to find in them.
once() {
    miri '' "$@" --skip doubled_pc --skip one_call_site --skip random_profiles \
        --skip damaged_spools --skip a_full_index --skip deeper_levels --skip reads_the_thread_of_a_record \
        --skip sys::thread
}

# Miri runs on one processor, so one half of the tests runs beside the other half.
formats=$(mktemp)
trap 'rm -f "$formats"' EXIT
once format:: line:: thread:: fuzzing::tests::environment >"$formats" 2>&1 &
once config:: sample::thread_table sample::table sample::weight sample::unwind::gate \
    sample::unwind::rule sample::unwind::snapshot sys::arch::code sys::errno sys::file::tests::refuses \
    sys::file::tests::appends sys::process::tests::parses
status=0
wait $! || status=$?
cat "$formats"
[ "$status" = 0 ] || exit "$status"

# Threads at once, in another order and with another choice of what each load may see for each seed.
miri "-Zmiri-many-seeds=0..$seeds -Zmiri-preemption-rate=0.1" sample::app_disposition \
    sample::thread_table::tests::counts_concurrent sample::table::tests::plain::handlers \
    sample::unwind::gate::tests::a_closed
