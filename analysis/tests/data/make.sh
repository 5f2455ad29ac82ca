#!/bin/sh
# Makes the profiles in this directory anew: records the programs in ../programs with the preload and names what they hold, so
# that tests need neither compilers nor the binaries; two are written by others, Go's runtime and the crate pprof. Needs
# golang-go, gcc, g++, cargo and python3; takes the paths of the library and of the command, as
# target/release/libprofiler.so target/release/sigprof.
set -eu
library=$(realpath "$1")
sigprof=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here"/../programs/* .

gcc -g -O1 -ffile-prefix-map="$work"=/src -o recursion recursion.c
g++ -g -O2 -ffile-prefix-map="$work"=/src -o containers containers.cc
rustc -g -O --remap-path-prefix "$work"=/src -o inlining inlining.rs
record() {
    name=$1
    shift
    LD_PRELOAD=$library CPUPROFILE=$work/$name.prof CPUPROFILE_FREQUENCY=250 CPUPROFILE_QUIET=1 "$@"
    "$sigprof" convert --to pprof -o "$here/$name.pb.gz" "$work/$name.prof"
}
record recursion ./recursion
record containers ./containers
record inlining ./inlining
record python /usr/bin/python3 work.py
go build -trimpath -o labels labels.go
./labels >"$here/labels.pb.gz"
mkdir -p pprof-rs
cat >pprof-rs/Cargo.toml <<'END'
[package]
name = "made-by-pprof-rs"
edition = "2024"
[[bin]]
name = "made-by-pprof-rs"
path = "../pprof-rs.rs"
[dependencies]
pprof = { version = "0.15", default-features = false, features = ["prost-codec"] }
[profile.release]
debug = true
[workspace]
END
cargo run --quiet --release --manifest-path pprof-rs/Cargo.toml | gzip -9n >"$here/pprof-rs.pb.gz"
