"""Reads an HPCToolkit database by its document alone, verifies that its parts agree, and prints it as JSON.

usage: hpctoolkit.py DIRECTORY

The output has `title`, `metrics` (names), `threads` (identifiers, own seconds by folded stack and metric, and the trace:
nanoseconds and folded stack), `summary`
(metric, scope, formula, combination, and the value of the implicit context), `contexts` (their number by kind), `files` and
`copies`.
"""

import json
import math
import os
import struct
import sys

POINT, EXECUTION, TRANSITIVE = 1, 2, 3
LEXICAL, CALL, INLINED = 0, 1, 2
FUNCTION, LOOP, LINE, INSTRUCTION = 0, 1, 2, 3


class File:
    def __init__(self, directory, name, kind, footer):
        with open(os.path.join(directory, name), "rb") as file:
            self.data = file.read()
        assert self.data[:10] == b"HPCTOOLKIT" and self.data[10:14] == kind, name
        assert self.data[14] == 4, self.data[14]
        assert self.data[-8:] == footer, name

    def get(self, offset, layout):
        return struct.unpack_from("<" + layout, self.data, offset)

    def section(self, number):
        size, start = self.get(0x10 + 16 * number, "QQ")
        assert start + size <= len(self.data) - 8
        return start

    def text(self, offset):
        return self.data[offset : self.data.index(b"\0", offset)].decode()


def read_meta(directory):
    meta = File(directory, "meta.db", b"meta", b"_meta.db")
    title, _ = meta.get(meta.section(0), "QQ")
    names, count = meta.get(meta.section(1), "QB")
    kinds = [meta.text(meta.get(names + 8 * kind, "Q")[0]) for kind in range(count)]

    start = meta.section(2)
    first, count, metric_size, instance_size, summary_size = meta.get(start, "QIBBB")
    first_scope, scope_count, scope_size = meta.get(start + 0x10, "QHB")
    scopes = {}
    for number in range(scope_count):
        at = first_scope + number * scope_size
        name, kind, index = meta.get(at, "QBB")
        scopes[at] = (meta.text(name), kind, index)
    metrics, statistics = {}, {}
    names = []
    for number in range(count):
        name, instances, summaries, instance_count, summary_count = meta.get(first + number * metric_size, "QQQHH")
        names.append(meta.text(name))
        for place in range(instance_count):
            scope, metric_id = meta.get(instances + place * instance_size, "QH")
            assert metric_id not in metrics
            metrics[metric_id] = (meta.text(name), *scopes[scope])
        for place in range(summary_count):
            scope, formula, combine, metric_id = meta.get(summaries + place * summary_size, "QQBxH")
            assert metric_id not in statistics
            statistics[metric_id] = (meta.text(name), scopes[scope][0], meta.text(formula), combine)

    def elements(section):
        first, count, size = meta.get(meta.section(section), "QIH")
        return [first + number * size for number in range(count)]

    modules = {at: meta.text(meta.get(at + 8, "Q")[0]) for at in elements(5)}
    files = {}
    for at in elements(6):
        flags, path = meta.get(at, "I4xQ")
        files[at] = (meta.text(path), bool(flags & 1))
    functions = {}
    for at in elements(7):
        name, module, offset, file, line, flags = meta.get(at, "QQQQII")
        assert name != 0 and flags == 0
        functions[at] = meta.text(name)
        assert module == 0 or module in modules
        assert file == 0 or file in files

    # By ID: parent, bits, what it is, and the function that it enters.
    contexts = {0: (None, 0, "implicit", None)}
    first, count, size = meta.get(meta.section(3), "QHB")
    waiting = []
    for number in range(count):
        children_size, children, context, kind, name = meta.get(first + number * size, "QQIH2xQ")
        assert meta.text(name) == ("unknown entry", "main thread", "application thread")[kind]
        contexts[context] = (0, 0, meta.text(name), None)
        waiting.append((context, children, children_size))
    while waiting:
        parent, at, size = waiting.pop()
        end = at + size
        while at < end:
            children_size, children, context, flags, relation, lexical, words, bits = meta.get(at, "QQIBBBBH")
            assert context not in contexts, context
            parts = list(meta.get(at + 0x20, f"{words}Q"))
            name = None
            if flags & 1:
                name = functions[parts.pop(0)]
            if flags & 2:
                assert parts.pop(0) in files
                parts.pop(0)
            if flags & 4:
                assert parts.pop(0) in modules
            what = ("function", "loop", "line", "instruction")[lexical]
            if relation == INLINED:
                what = "inlined function"
            assert (relation == LEXICAL) == bool(bits & 1)
            contexts[context] = (parent, bits, what, name)
            if children_size:
                waiting.append((context, children, children_size))
            at += 0x20 + 8 * words
        assert at == end
    return meta.text(title), kinds, names, metrics, statistics, files, contexts


def read_profiles(directory, kinds):
    data = File(directory, "profile.db", b"prof", b"_prof.db")
    first, count, size = data.get(data.section(0), "QIB")
    profiles = []
    for number in range(count):
        at = first + number * size
        value_count, values, context_count, indices = data.get(at, "QQI4xQ")
        id_tuple, flags = data.get(at + 0x20, "QI")
        assert bool(flags & 1) == (number == 0) == (id_tuple == 0)
        identifiers = {}
        if id_tuple:
            for place in range(data.get(id_tuple, "H")[0]):
                kind, is_physical, logical, physical = data.get(id_tuple + 8 + 16 * place, "BxHIQ")
                identifiers[kinds[kind]] = physical if is_physical else logical
        starts = [data.get(indices + 12 * place, "IQ") for place in range(context_count)]
        assert starts == sorted(starts)
        found = {}
        for place, (context, start) in enumerate(starts):
            end = starts[place + 1][1] if place + 1 < context_count else value_count
            pairs = [data.get(values + 10 * value, "Hd") for value in range(start, end)]
            assert pairs and pairs == sorted(pairs) and all(value != 0 for _, value in pairs)
            found[context] = dict(pairs)
        profiles.append((identifiers, found))
    return profiles


def read_contexts(directory):
    """The values of cct.db, as profile.db has them."""
    data = File(directory, "cct.db", b"ctxt", b"__ctx.db")
    first, count, size = data.get(data.section(0), "QIB")
    found = {}
    for context in range(count):
        value_count, values, metric_count, indices = data.get(first + context * size, "QQH6xQ")
        starts = [data.get(indices + 10 * place, "HQ") for place in range(metric_count)]
        assert starts == sorted(starts)
        for place, (metric, start) in enumerate(starts):
            end = starts[place + 1][1] if place + 1 < metric_count else value_count
            pairs = [data.get(values + 12 * value, "Id") for value in range(start, end)]
            assert pairs and [profile for profile, _ in pairs] == sorted(profile for profile, _ in pairs)
            for profile, value in pairs:
                found[profile, context, metric] = value
    return found


def read_traces(directory, profile_count, contexts):
    """The samples of each trace, by the index of its profile: nanoseconds and context."""
    if not os.path.exists(os.path.join(directory, "trace.db")):
        return {}
    data = File(directory, "trace.db", b"trce", b"trace.db")
    first, count, size, earliest, latest = data.get(data.section(0), "QIB3xQQ")
    traces = {}
    for number in range(count):
        profile, start, end = data.get(first + number * size, "I4xQQ")
        assert 0 < profile < profile_count and profile not in traces
        samples = [data.get(at, "QI") for at in range(start, end, 12)]
        assert samples and samples == sorted(samples, key=lambda sample: sample[0])
        assert all(context in contexts and earliest <= nanos <= latest for nanos, context in samples)
        assert all(a[1] or b[1] for a, b in zip(samples, samples[1:]))
        traces[profile] = samples
    return traces


def is_close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def check_scopes(metrics, contexts, values):
    """Computes the values of all scopes from those of the scope `point`."""
    for metric_id, (name, scope, kind, index) in metrics.items():
        if scope == "point":
            continue
        point = next(other for other, (of, by, *_) in metrics.items() if of == name and by == "point")
        expected = {}
        for context, found in values.items():
            value = found.get(point, 0.0)
            while value and context is not None:
                parent, bits, what, _ = contexts[context]
                is_outside = what in ("implicit", "main thread", "application thread", "unknown entry")
                if kind != EXECUTION and is_outside:
                    break
                expected[context] = expected.get(context, 0.0) + value
                # `lex_aware` equals `function` without loops.
                if kind != EXECUTION and not bits & 1 << index % 16 and not (kind == 0 and bits & 1):
                    break
                context = parent
        found = {context: of[metric_id] for context, of in values.items() if metric_id in of}
        assert found.keys() == expected.keys(), (name, scope)
        assert all(is_close(found[context], expected[context]) for context in found), (name, scope)


def check_statistics(metrics, statistics, profiles):
    summary, threads = profiles[0][1], [values for _, values in profiles[1:]]
    for metric_id, (name, scope, formula, combine) in statistics.items():
        source = next(other for other, (of, by, *_) in metrics.items() if (of, by) == (name, scope))
        apply = {"$$": lambda value: value, "1": lambda value: 1.0, "($$^2)": lambda value: value * value}[formula]
        combined = (sum, min, max)[combine]
        for context in summary.keys() | {context for values in threads for context in values}:
            inputs = [apply(values[context][source]) for values in threads if source in values.get(context, {})]
            found = summary.get(context, {}).get(metric_id, 0.0)
            expected = combined(inputs) if inputs else 0.0
            assert is_close(found, expected), (name, scope, formula, combine, context, found, expected)


def main():
    directory = sys.argv[1]
    title, kinds, names, metrics, statistics, files, contexts = read_meta(directory)
    profiles = read_profiles(directory, kinds)
    transposed = {
        (number, context, metric): value
        for number, (_, values) in enumerate(profiles)
        if number
        for context, of in values.items()
        for metric, value in of.items()
    }
    assert read_contexts(directory) == transposed
    check_statistics(metrics, statistics, profiles)

    def stack(context):
        functions = []
        while context is not None:
            parent, _, _, function = contexts[context]
            if function is not None:
                functions.append(function)
            context = parent
        return ";".join(reversed(functions))

    traces = read_traces(directory, len(profiles), contexts)
    threads = []
    for number, (identifiers, values) in enumerate(profiles[1:], 1):
        check_scopes(metrics, contexts, values)
        stacks = {}
        for context, of in values.items():
            for metric, value in of.items():
                name, scope, *_ = metrics[metric]
                if scope == "point":
                    own = stacks.setdefault(name, {})
                    own[stack(context)] = own.get(stack(context), 0.0) + value
        trace = [[nanos, stack(context)] for nanos, context in traces.get(number, [])]
        threads.append({"identifiers": identifiers, "stacks": stacks, "trace": trace})
    counts = {}
    for _, _, what, _ in contexts.values():
        counts[what] = counts.get(what, 0) + 1
    copies = [path for path, is_copied in files.values() if is_copied]
    assert all(os.path.isfile(os.path.join(directory, path)) for path in copies)
    json.dump(
        {
            "title": title,
            "metrics": names,
            "threads": threads,
            "summary": [[*statistics[metric], value] for metric, value in profiles[0][1].get(0, {}).items()],
            "contexts": counts,
            "files": sorted(path for path, _ in files.values()),
            "copies": sorted(copies),
        },
        sys.stdout,
    )


main()
