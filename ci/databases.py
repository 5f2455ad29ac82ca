#!/usr/bin/env python3
"""Measures `sigprof convert --to hpctoolkit` for many profiles: ci/databases.py [COUNT...], by default 64 256 1024.

Each profile is of one thread: 10 000 functions in a random call tree, with a line each, are 20 000 contexts. In the first
table all profiles have the same tree, as the ranks of one program; in the second each has its own. Each row is the second of
two runs. Memory is the anonymous memory of the process at its peak: the kernel can take back the pages of the files that the
writer maps. Prints tables in Markdown.

Exit status: 1 if, in the first table, the last row takes more than 1.5 times as long for each profile as the first row, or
1.2 times as much memory. docs/reference/hpctoolkit.md has the results. Nothing else should run at the same time.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

NODES = 10_000
# Profiles with the same tree differ in their values. More files are links to these.
VARIANTS = 16
# Numbers of profiles with a tree of their own.
OWN_TREES = [4, 16, 64]


def varint(number):
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def profile(tree, values, prefix):
    """A profile in pprof's format: a sample for each path of a tree, which is given as the parent of each node."""
    strings = ["", "cpu", "nanoseconds", f"/work/{prefix}.c"] + [f"{prefix}{node}" for node in range(len(tree))]
    parts = [field(1, field(1, 1) + field(2, 2))]
    stacks = []
    for node, parent in enumerate(tree):
        callers = stacks[parent] if parent is not None else b""
        stacks.append(varint(node + 1) + callers)
        parts.append(field(2, field(1, stacks[node]) + field(2, varint(values[node]))))
        parts.append(field(4, field(1, node + 1) + field(4, field(1, node + 1) + field(2, node % 500 + 1))))
        parts.append(field(5, field(1, node + 1) + field(2, node + 4) + field(4, 3)))
    parts.extend(field(6, text.encode()) for text in strings)
    return b"".join(parts)


def tree(generator):
    # Callers are among the last functions, so that stacks have some twenty frames.
    return [None] + [generator.randrange(max(0, node - 1000), node) for node in range(1, NODES)]


def write(directory, name, contents):
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(contents)
    return path


def anonymous_kilobytes(process):
    with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("RssAnon:")), 0)


def measure(sigprof, directory, files):
    """Seconds, peak memory and size of the database, both in MiB."""
    database = os.path.join(directory, "database")
    seconds = peak = 0
    for _ in range(2):
        shutil.rmtree(database, ignore_errors=True)
        peak = 0
        begin = time.monotonic()
        child = subprocess.Popen([sigprof, "convert", "--to", "hpctoolkit", "-o", database, *files])
        while child.poll() is None:
            peak = max(peak, anonymous_kilobytes(child.pid))
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        if child.returncode != 0:
            sys.exit(f"databases: sigprof failed with {child.returncode}")
    size = sum(os.path.getsize(os.path.join(database, name)) for name in os.listdir(database) if name.endswith(".db"))
    return seconds, peak / 1024, size / 2**20


def table(sigprof, directory, rows):
    print("| profiles | input | distinct contexts | seconds | ms for each profile | peak memory | database |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    costs = []
    for files, contexts in rows:
        megabytes = sum(os.path.getsize(file) for file in files) / 2**20
        seconds, peak, size = measure(sigprof, directory, files)
        each = seconds * 1000 / len(files)
        costs.append((each, peak))
        print(
            f"| {len(files)} | {megabytes:.0f} MiB | {contexts} | {seconds:.2f} | {each:.1f} | {peak:.0f} MiB | {size:.0f} MiB |",
            flush=True,
        )
    return costs


def main():
    counts = [int(count) for count in sys.argv[1:]] or [64, 256, 1024]
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--package", "sigprof-analysis"], check=True)
    sigprof = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", "target")), "release", "sigprof")
    generator = random.Random(1)
    # /tmp can be in memory.
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        shared = tree(generator)
        variants = []
        for number in range(VARIANTS):
            values = [generator.randrange(1, 10**9) for _ in shared]
            variants.append(write(directory, f"variant{number}.pb", profile(shared, values, "work")))
        files = []
        for number in range(max(counts)):
            path = os.path.join(directory, f"app.rank-{number}.pb")
            os.link(variants[number % VARIANTS], path)
            files.append(path)
        costs = table(sigprof, directory, [(files[:count], 2 * NODES) for count in counts])
        print()
        own = []
        for number in range(max(OWN_TREES)):
            values = [generator.randrange(1, 10**9) for _ in range(NODES)]
            contents = profile(tree(generator), values, f"own{number}_")
            own.append(write(directory, f"own.rank-{number}.pb", contents))
        table(sigprof, directory, [(own[:count], 2 * NODES * count) for count in OWN_TREES])
    (first, first_peak), (last, last_peak) = costs[0], costs[-1]
    sys.exit(1 if last > first * 1.5 or last_peak > first_peak * 1.2 else 0)


main()
