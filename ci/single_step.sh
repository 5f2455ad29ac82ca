#!/bin/sh
# Compares the unwinder with others at every instruction of all workloads: minutes. The reports stay in a folder.
set -eu
cd "$(dirname "$0")/.."

ci/setup.sh
SIGPROF_STEP_BUDGET=${SIGPROF_STEP_BUDGET:-60000}
SIGPROF_STEP_ROUNDS=${SIGPROF_STEP_ROUNDS:-3}
SIGPROF_STEP_VISITS=${SIGPROF_STEP_VISITS:-0}
export SIGPROF_STEP_BUDGET SIGPROF_STEP_ROUNDS SIGPROF_STEP_VISITS

# The libraries choose their assembly by the processor: as it is, and as if it were older.
no_avx512=-AVX512F,-AVX512VL,-AVX512BW
no_avx=$no_avx512,-AVX2,-AVX,-FMA,-BMI2,-ERMS,-FSRM
for variant in native no_avx512 no_avx; do
    case $variant in
    native) tunables='' ciphers='' ;;
    no_avx512) tunables=glibc.cpu.hwcaps=$no_avx512 ciphers=:~0x20040000 ;;
    no_avx) tunables=glibc.cpu.hwcaps=$no_avx ciphers=0:0 ;;
    esac
    SIGPROF_STEP_REPORTS=$(mktemp -d "${TMPDIR:-/tmp}/single_step.$variant.XXXXXX")
    export SIGPROF_STEP_REPORTS
    echo "$variant: $SIGPROF_STEP_REPORTS"
    env ${tunables:+GLIBC_TUNABLES="$tunables"} ${ciphers:+OPENSSL_ia32cap="$ciphers"} \
        cargo test --locked --package sigprof-cdylib --test full -- single_step:: --nocapture
done
