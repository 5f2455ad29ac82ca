#!/usr/bin/env python3
"""Checks a CPU profile against every rule of the format.

usage: check_profile.py FILE

The rules are those of gperftools' "Google CPU Profiler Binary Data File Format", in both slot widths and both byte orders,
and those that its writers keep beyond that: three header slots after the first two, no PC of 0, text of complete lines, each
a mapping or a build specifier, and at least one executable mapping.

Exit status: 0 if the file keeps them all; otherwise 1, and each fault is printed with its offset.
"""

import re
import sys
from itertools import product

HEADER_SLOTS = 5
TRAILER = (0, 1, 0)
# As /proc/PID/maps has it, and ProcMapsIterator::FormatLine: a line without a path may end in a blank.
MAPPING = re.compile(
    rb"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) [r-][w-](?P<execute>[x-])[ps-] [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ [0-9]+(?: .*)?"
)
BUILD = re.compile(rb" *build=.+")


def slots_of(data, width, order):
    """The file's complete slots."""
    whole = len(data) - len(data) % width
    return [int.from_bytes(data[offset : offset + width], order) for offset in range(0, whole, width)]


def layout_of(data):
    """Slot width in bytes and byte order: those in which the header is valid. None if it is valid in none."""
    for width, order in product((8, 4), ("little", "big")):
        header = slots_of(data[: HEADER_SLOTS * width], width, order)
        if len(header) == HEADER_SLOTS and header[0] == 0 and header[1] == 3 and header[2] == 0 and header[4] == 0:
            return width, order
    return None


def binary_faults(slots, width):
    """The faults of header and records, and the offset of the text, None if there is no trailer."""
    faults = []
    if slots[3] == 0:
        faults.append(f"slot at byte {3 * width}: the period is 0")
    place = HEADER_SLOTS
    while True:
        offset = place * width
        if place + 2 > len(slots):
            return [*faults, f"byte {offset}: the file ends before the trailer"], None
        count, depth = slots[place], slots[place + 1]
        pcs = slots[place + 2 : place + 2 + depth]
        if len(pcs) < depth:
            return [*faults, f"record at byte {offset}: {depth} PCs, of which the file has {len(pcs)}"], None
        place += 2 + depth
        if (count, depth, *pcs[:1]) == TRAILER:
            return faults, place * width
        if count == 0:
            faults.append(f"record at byte {offset}: the sample count is 0")
        if depth == 0:
            faults.append(f"record at byte {offset}: no PC")
        if 0 in pcs:
            faults.append(f"record at byte {offset}: PC {pcs.index(0)} is 0")


def text_faults(text):
    """The faults of the list of mapped objects."""
    if not text:
        return ["no list of mapped objects"]
    *lines, rest = text.split(b"\n")
    faults = [f"the last line has no end: {rest!r}"] if rest else []
    has_code = False
    for line in lines:
        mapping = MAPPING.fullmatch(line)
        if mapping is None:
            if not BUILD.fullmatch(line):
                faults.append(f"neither a mapping nor a build specifier: {line!r}")
            continue
        has_code |= mapping["execute"] == b"x"
        if int(mapping["start"], 16) >= int(mapping["end"], 16):
            faults.append(f"a mapping that is empty: {line!r}")
    if not has_code:
        faults.append("no executable mapping")
    return faults


def faults_of(data):
    layout = layout_of(data)
    if layout is None:
        return [f"no header of a CPU profile in {len(data)} bytes: {data[:40].hex(' ', 8)}"]
    width, order = layout
    faults, end = binary_faults(slots_of(data, width, order), width)
    return faults if end is None else faults + text_faults(data[end:])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = sys.argv[1]
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        sys.exit(str(error))
    faults = faults_of(data)
    for fault in faults[:20]:
        print(f"{path}: {fault}")
    if len(faults) > 20:
        print(f"{path}: {len(faults) - 20} more faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
