#!/bin/bash
# Builds and tests the other machines: i686, whose programs run here, and aarch64 by qemu-user. The compiler is Debian's
# rustc-web, the oldest Rust that is supported. As root on Debian 12, x86-64; what is missing is installed or unpacked
# below the target directory, and a second run finds it there.
#
# An emulated processor takes minutes for what has nothing of the machine in it: of aarch64 only what does is tested, the
# rest too by `ci/cross.sh all`. `ci/cross.sh smoke`, a part of the gate, builds both and looks at whole stacks alone.
set -eu
cd "$(dirname "$0")/.."

extent=${1:-own}
case $# in
0) ;;
1) case $1 in all | smoke) ;; *) extent= ;; esac ;;
*) extent= ;;
esac
if [ -z "$extent" ]; then
    echo "usage: ci/cross.sh [all|smoke]" >&2
    exit 2
fi
# what OWN ALL: the words for this run.
what() { if [ "$extent" = all ]; then echo "$2"; else echo "$1"; fi; }

toolchain=$(realpath -m "${CARGO_TARGET_DIR:-target}/cross")
rust_version=1.85

# Compilers and libraries of C, for code of 32 bits and for aarch64. (Debian's `gcc-multilib` would be in the way of
# its other cross compilers, the versioned packages are not.)
ci/setup.sh gcc-12-multilib g++-12-multilib gcc-12-aarch64-linux-gnu g++-12-aarch64-linux-gnu libc6-dev-arm64-cross \
    qemu-user

# Debian's Rust with the standard libraries of three machines, side by side in one directory. The lists of packages are
# fetched into a directory of ours: the machine's own apt learns of no other architecture.
unpack_rust() {
    local root=$1 repository version
    # shellcheck disable=SC2016 # The variable is apt's.
    repository=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
    rm -rf "$root.part"
    mkdir -p "$root.part/apt/lists/partial" "$root.part/apt/cache/archives/partial" "$root.part/debs"
    cat >"$root.part/apt/sources.list" <<EOF
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${repository:-http://deb.debian.org/debian} bookworm main
EOF
    cat >"$root.part/apt/apt.conf" <<EOF
APT::Architecture "amd64";
APT::Architectures { "amd64"; "i386"; "arm64"; };
APT::Sandbox::User "root";
Dir::State::Lists "$root.part/apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$root.part/apt/cache";
Dir::Etc::SourceList "$root.part/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
EOF
    export APT_CONFIG=$root.part/apt/apt.conf
    apt-get update --quiet
    version=$(apt-cache madison rustc-web | awk -v v="$rust_version" '$3 ~ "^" v "[.]" { print $3; exit }')
    if [ -z "$version" ]; then
        echo "cross: Debian has no rustc-web $rust_version any more: $(apt-cache madison rustc-web)" >&2
        exit 1
    fi
    (
        cd "$root.part/debs"
        apt-get download --quiet "rustc-web=$version" "libstd-rust-web-$rust_version=$version" libllvm19 \
            "libstd-rust-web-dev:amd64=$version" "libstd-rust-web-dev:i386=$version" \
            "libstd-rust-web-dev:arm64=$version"
    )
    unset APT_CONFIG
    local package
    for package in "$root.part/debs"/*.deb; do
        dpkg -x "$package" "$root.part"
    done
    rm -rf "$root" "$root.part/apt" "$root.part/debs"
    mv "$root.part" "$root"
}
[ -x "$toolchain/rust/usr/bin/rustc" ] || unpack_rust "$toolchain/rust"

# wrapper FILE COMMAND: a program that runs COMMAND with its own arguments behind.
wrapper() {
    mkdir -p "$(dirname "$1")"
    # shellcheck disable=SC2016 # The wrapper's own arguments.
    printf '#!/bin/sh\nexec %s "$@"\n' "$2" >"$1.new"
    chmod +x "$1.new"
    # An unchanged compiler keeps its date, and cargo what it has built.
    if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}
libraries=$toolchain/rust/usr/lib/x86_64-linux-gnu
wrapper "$toolchain/rustc" "env LD_LIBRARY_PATH=$libraries $toolchain/rust/usr/bin/rustc"
# What the tests find as `gcc` and `g++`. The kernel's headers for both widths are in Debian's directory for x86-64.
for compiler in gcc g++; do
    wrapper "$toolchain/i686/$compiler" "/usr/bin/$compiler -m32 -idirafter /usr/include/x86_64-linux-gnu"
    wrapper "$toolchain/aarch64/$compiler" "/usr/bin/aarch64-linux-gnu-$compiler-12"
done
# Its processor signs return addresses and checks them.
emulator="qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu"
read -ra emulator_words <<<"$emulator"
emulate() { cross aarch64 timeout 600 env "$@"; }

# cross MACHINE COMMAND...: runs cargo, or a test, for another machine.
cross() {
    local machine=$1
    shift
    env RUSTC="$toolchain/rustc" RUSTFLAGS="-D warnings ${RUSTFLAGS:-}" CARGO_TARGET_DIR="$toolchain/build" \
        CARGO_BUILD_TARGET="$machine-unknown-linux-gnu" \
        CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER="$toolchain/i686/gcc" \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$toolchain/aarch64/gcc" \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator" \
        PATH="$toolchain/$machine:$PATH" "$@"
}
say() { printf '\n== %s\n' "$*"; }

test_i686() {
    say "i686: the crate"
    cross i686 cargo test --locked --package sigprof --lib --tests --no-fail-fast
    # Not here: real_programs, ends_of_programs, single_step and two of exec, which run Debian's own programs (of 64 bits)
    # under the library, and what says nothing of the machine: bad_output, sandbox, frame_tables, odd_code, unloading.
    say "i686: the shared library in programs of 32 bits"
    cross i686 cargo test --locked --package sigprof-cdylib --test complete_stacks
    cross i686 cargo test --locked --package sigprof-cdylib --no-fail-fast --test gate -- c_abi:: environment:: ends:: \
        exec:: exports:: app_edges:: odd_stacks:: output_links:: output_pipes:: signals:: signal_context:: \
        static_programs:: --skip app_signals:: --skip a_program_that_replaces_another \
        --skip ticks_continue_after_a_failed_exec
}

test_aarch64() {
    # Left out, for what qemu-user 7.2 lacks:
    # * process_vm_readv: both_probes_work_here;
    # * MADV_WIPEONFORK, which it grants and does not follow: a_copy_finds_no_session_in_a_wiped_page;
    # * MADV_POPULATE_WRITE likewise, so that no spool is made: spool_memory;
    # * the width of the columns in /proc/self/maps: own_maps_come_back_byte_for_byte;
    # and what takes minutes by it and has nothing of the machine in it: damaged_spools.
    # Formats, of which i686 tries the other width, are the same here.
    say "aarch64: units"
    # shellcheck disable=SC2046 # Words.
    cross aarch64 cargo test --locked --package sigprof --lib --no-fail-fast -- $(what 'sample:: sys::' '') \
        --skip both_probes_work_here --skip a_copy_finds_no_session_in_a_wiped_page --skip spool_memory \
        --skip own_maps_come_back_byte_for_byte --skip damaged_spools
    test_aarch64_processes
    # Left out: what the kernel would start as a program of another machine, links the incumbent's archive (a library
    # that the environment names is taken for that), asks for what the emulator lacks (execveat), or sees its signals and
    # messages.
    say "aarch64: the shared library in programs"
    cross aarch64 cargo build --locked --release --package sigprof-cdylib
    test_aarch64_programs release --package sigprof-cdylib --test complete_stacks
    # shellcheck disable=SC2046 # Words.
    test_aarch64_programs release --package sigprof-cdylib --no-fail-fast --test gate -- exec:: $(what '' ends::) \
        --skip a_linked_program --skip a_signal_kills_the_program --skip a_stack_leads --skip a_failed_call \
        --skip every_function --skip a_child_of_vfork --skip a_long_chain --skip failing_calls --skip replace \
        --skip programs_that_are_started --skip the_new_program --skip ticks_continue \
        --skip handles_no_other_signals
}

# library MACHINE PROFILE: the path of the shared library.
library() { echo "$toolchain/build/$1-unknown-linux-gnu/$2/libprofiler.so"; }

# The tests themselves run here, by the program that ci/test.sh builds; what they compile and profile is aarch64's.
test_aarch64_programs() {
    local profile=$1
    shift
    env SIGPROF_TEST_EMULATOR="$emulator" PATH="$toolchain/aarch64:$PATH" \
        SIGPROF_TEST_LIBRARY="$(library aarch64 "$profile")" cargo test --locked "$@"
}

# A test of the crate's runtime starts itself again, which the kernel cannot do for a program of another machine. So each
# is run alone, as the process that it would have started.
# The emulator has one processor busy: as many run at a time as there are.
test_aarch64_processes() {
    local left_out test_file program tests test
    local failures=$toolchain/failures
    rm -rf "$failures"
    mkdir "$failures"
    # Left out, besides what has other reasons than the machine's:
    # * no vDSO in qemu-user: the_kernels_object_can_be_excluded;
    # * its own choice of addresses for libraries: another_library_at_the_same_addresses_*;
    # * started with the signal blocked, by the process that this leaves out: no_samples_since_the_signal_is_blocked;
    # * gcc's frame pointers do not tell the caller's stack pointer on aarch64, and the caller's tables count from that
    #   (the chain is cut, and counted as such): a_guess_ends_before_a_library_that_may_go;
    # * hours of emulation: ticks_that_find_the_table_full_are_counted.
    left_out=" the_kernels_object_can_be_excluded no_samples_since_the_signal_is_blocked
        another_library_at_the_same_addresses_has_its_own_frames another_library_at_the_same_addresses_is_listed
        ticks_that_find_the_table_full_are_counted a_guess_ends_before_a_library_that_may_go "
    # shellcheck disable=SC2046 # Words.
    for test_file in chains handler loaded_code $(what '' 'file_profile fork memory_profile start summary'); do
        say "aarch64: tests/$test_file.rs"
        program=$(cross aarch64 cargo test --locked --package sigprof --test "$test_file" --no-run --message-format=json |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
        tests=$(emulate "${emulator_words[@]}" "$program" --list | sed -n 's/: test$//p')
        [ -n "$tests" ] || {
            echo "cross: no tests in $program" >&2
            exit 1
        }
        for test in $tests; do
            case $left_out in *[[:space:]]"$test"[[:space:]]*) continue ;; esac
            while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
            test_alone "$program" "$test" "$failures" &
        done
        wait
    done
    [ -z "$(ls "$failures")" ] || {
        echo "cross: failed on aarch64:" "$(ls "$failures")" >&2
        exit 1
    }
}

# test_alone PROGRAM TEST FAILURES: runs one test under the emulator; leaves what a failed one said in the directory.
test_alone() {
    # Until it has passed.
    : >"$3/$2"
    if emulate SIGPROF_TEST_IN_OWN_PROCESS="$2" "${emulator_words[@]}" "$1" "$2" --exact \
        --test-threads=1 >"$3/$2" 2>&1; then
        rm "$3/$2"
        echo "test $2 ... ok"
    else
        printf 'test %s ... FAILED\n%s\n' "$2" "$(cat "$3/$2")"
    fi
}

# Both machines, with the library as the tests' own profile builds it, which is quicker.
smoke() {
    say "i686: stacks"
    cross i686 cargo build --locked --package sigprof-cdylib
    SIGPROF_TEST_LIBRARY=$(library i686 debug) cross i686 cargo test --locked --package sigprof-cdylib --test complete_stacks
    say "aarch64: stacks"
    cross aarch64 cargo build --locked --package sigprof-cdylib
    test_aarch64_programs debug --workspace --test complete_stacks
}

if [ "$extent" = smoke ]; then
    smoke
else
    say "x86-64: all of the workspace compiles with the oldest Rust"
    RUSTC=$toolchain/rustc CARGO_TARGET_DIR=$toolchain/oldest cargo check --locked --workspace --all-targets
    test_i686
    test_aarch64
fi
