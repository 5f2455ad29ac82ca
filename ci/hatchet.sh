#!/bin/sh
# Prints the path of a Python that has Hatchet, a reader of HPCToolkit databases: it is installed from PyPI below the
# target directory. Prints nothing if that does not work.
set -eu
cd "$(dirname "$0")/.."

version=2026.2.0

tools=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools/hatchet-$version")
if [ ! -e "$tools/installed" ]; then
    rm -rf "$tools"
    if ! { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
        "llnl-hatchet==$version" && touch "$tools/installed"; } >&2; then
        rm -rf "$tools"
        echo "hatchet: cannot install llnl-hatchet $version from PyPI" >&2
        exit 0
    fi
fi
echo "$tools/bin/python3"
