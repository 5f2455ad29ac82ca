"""Prints what Hatchet finds in an HPCToolkit database, as JSON: inclusive and exclusive seconds by function.

usage: hatchet_reader.py DIRECTORY

`total` and `functions` are of all threads; `profiles` has the functions of each thread by the index of its profile, or is
absent if Hatchet cannot read them.
"""

import contextlib
import json
import sys

import hatchet


def by_function(frame, rows):
    """Returns [inclusive, exclusive] seconds by function. A recursive call is in the outermost one."""
    found = {}

    def visit(node, outer):
        name = node.frame.get("name") if node.frame.get("type") == "function" else None
        if name is not None and node in rows:
            values = found.setdefault(name.removeprefix("function: "), [0.0, 0.0])
            inclusive, exclusive = rows[node]
            if name not in outer:
                values[0] += inclusive
            values[1] += exclusive
            outer = outer | {name}
        for child in node.children:
            visit(child, outer)

    for root in frame.graph.roots:
        visit(root, frozenset())
    return found


def rows_of(table):
    table = table[["time (inc)", "time"]].fillna(0.0)
    return {node: (inclusive, exclusive) for node, inclusive, exclusive in table.itertuples()}


def main():
    read = hatchet.GraphFrame.from_hpctoolkit_latest
    with contextlib.redirect_stdout(sys.stderr):
        frame = read(sys.argv[1])
    rows = rows_of(frame.dataframe)
    result = {
        "total": sum(rows[root][0] for root in frame.graph.roots if root in rows),
        "functions": by_function(frame, rows),
    }
    try:
        with contextlib.redirect_stdout(sys.stderr):
            frame = read(sys.argv[1], parallel_profiles_mode=True, metric_names=["time"], metric_scopes=["i", "e"])
        profiles = frame.dataframe.index.get_level_values("profile").unique()
        result["profiles"] = {
            str(profile): by_function(frame, rows_of(frame.dataframe.xs(profile, level="profile"))) for profile in profiles
        }
    except Exception as error:
        # Its search fails where a context lacks the values of a thread.
        result["error"] = repr(error)
    json.dump(result, sys.stdout)


main()
