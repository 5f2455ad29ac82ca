# OpenSSL's program: what it computes, by code in assembly that walks of stacks go through.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="openssl"
limit=200

prepare() {
    # Bytes that are the same everywhere.
    /usr/bin/perl -e 'srand 1; print pack "C*", map int rand 256, 1 .. 65536 for 1 .. 200' >"$shared/bytes"
    openssl genrsa -out "$shared/key" 2048
}

units() { printf '%s\n' digests ciphers rsa speed; }

run() {
    local name
    case $1 in
    digests)
        for name in md5 sha1 sha256 sha512 sha3-256 blake2b512 sm3 ripemd160; do
            outcome_of "$name" dgst -"$name" "$shared/bytes"
        done
        ;;
    ciphers)
        for name in aes-128-cbc aes-256-ctr aes-192-ecb camellia-256-cbc chacha20 aria-128-cbc; do
            outcome_of "$name" enc -"$name" -pbkdf2 -S 0102030405060708 -k word -in "$shared/bytes"
        done
        ;;
    rsa)
        outcome_of sign dgst -sha256 -sign "$shared/key" "$shared/bytes"
        outcome_of check rsa -in "$shared/key" -check -noout
        outcome_of version version -a
        ;;
    speed)
        # How fast is nobody's concern here: each line says that an algorithm ran.
        # shellcheck disable=SC2086 # A list of words.
        env ${PRELOAD-} openssl speed -seconds 1 -multi 2 sha256 aes-128-cbc rsa2048 ecdsap256 ed25519 >output 2>&1
        printf 'status\t%s\n' "$?"
        sed -nE 's/^(sha256|aes-128-cbc|rsa 2048 bits|ecdsap256|.*EdDSA|.*ecdsa).* .*/\1\tmeasured/p' output
        ;;
    esac
}

outcome_of() {
    local name=$1 status=0
    shift
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} openssl "$@" >output 2>errors || status=$?
    printf '%s\t%s %s\n' "$name" "$status" "$(sha256sum <output | cut -c 1-32)"
    printf '%s, stderr\t%s\n' "$name" "$(sha256sum <errors | cut -c 1-32)"
}
