# cargo and rustc, which have many threads and pipes: this workspace is built, to the same files byte by byte.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="gcc"
limit=500
# The toolchain is the user's own.
needs_root=yes

prepare() { cargo --version; }

units() { printf '%s\n' build; }

run() {
    local status=0
    export PATH=$cargo_directory:$PATH HOME=$cargo_home
    # What is built in steps is named anew each time.
    export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$PWD/built
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} cargo build --offline --locked --quiet --manifest-path "$root/Cargo.toml" >output 2>&1 || status=$?
    printf 'status\t%s\nmessages\t%s\n' "$status" "$(sha256sum <output)"
    find built -name '*.rlib' -exec sha256sum {} + | sed -nE 's|([0-9a-f]+) .*/(.*)|\2\t\1|p'
    (cd built && find . -type f | grep -vE 'incremental|fingerprint' | sed 's/$/\tis there/')
}
