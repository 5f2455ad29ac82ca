#!/bin/sh
# Draws docs/report.png, the picture in README.md: the report of a real program (rustfmt), in Debian's Chromium.
# Needs root for what is not installed.
set -eu
cd "$(dirname "$0")/.."

ci/setup.sh pngquant
cargo build --release --workspace --locked
sigprof=$(realpath "${CARGO_TARGET_DIR:-target}/release/sigprof")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$sigprof" record --quiet -F 1000 -o "$scratch/profile.pb.gz" cargo fmt --check
"$sigprof" report --title 'cargo fmt' -o "$scratch/report.html" "$scratch/profile.pb.gz"
chromium --headless --no-sandbox --hide-scrollbars --force-device-scale-factor=1 --window-size=1200,840 \
    --user-data-dir="$scratch/chromium" --virtual-time-budget=10000 --screenshot="$scratch/report.png" \
    "file://$scratch/report.html" >/dev/null 2>&1
pngquant --force --strip --quality 60-90 --speed 1 --output docs/report.png 64 "$scratch/report.png"
ls -l docs/report.png
