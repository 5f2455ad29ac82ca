#!/bin/sh
# Installs what the tests need on Debian, and any package named as an argument. Needs root only if one is missing.
set -eu

set -- gcc g++ python3 python3-venv elfutils perl gzip coreutils fish zsh git golang-go google-perftools \
    libgoogle-perftools-dev binutils libunwind-dev util-linux dwz xz-utils chromium graphviz valgrind \
    binutils-aarch64-linux-gnu musl-tools gcc-12-multilib fakeroot libcap2-bin libeatmydata1 libfaketime libjemalloc2 \
    libtcmalloc-minimal4 make e2fsprogs python3-lxml hunspell hunspell-en-us debuginfod "$@"

if ! command -v cargo >/dev/null; then
    echo "setup: no cargo in PATH; Rust 1.85 or later is needed, see https://rustup.rs" >&2
    exit 1
fi
if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system; the tests use the programs of these packages: $*" >&2
    exit 0
fi

missing=
for package; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) || status=unknown
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "setup: missing; as root: apt-get install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends --no-upgrade "$@"
