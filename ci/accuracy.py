#!/usr/bin/env python3
"""Compares profiles with the CPU time that programs measure themselves: each function's share of it, and the total.

usage: ci/accuracy.py [--only TABLE] [--rates HZ,HZ...] [--program NAME] [--profiler NAME] [--seconds N]

Two tables are printed, in Markdown:

functions  Programs in which some work is in step with a clock (cdylib/tests/programs/in_step.*), and two with threads
           (accuracy.c), are profiled by sigprof's default clock, its clock `cpu`, gperftools, pprof-rs and perf-record(1) in
           turn. A cell has the largest error of a function's share, in points (percent of the time in the functions), and
           the error of the total in percent.
threads    10 to 2000 busy threads are profiled by sigprof's clocks. A cell has the error of the total, and the lost samples,
           both in percent.

Exit status: 1 if sigprof's default clock has a share that is wrong by more than 3 points, a total that is wrong by more than
1 %, or, in the second table, more than 0.1 % of its samples lost. docs/accuracy.md has the results. Nothing else should run at
the same time.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "cdylib/tests/programs"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PACKAGES = ["google-perftools", "libgoogle-perftools-dev", "linux-perf", "ruby", "ghc", "ocaml-findlib", "ocaml-nox"]
# The name of sigprof with its default clock, which must be right.
DEFAULT = "sigprof"
MOST_POINTS = 3
MOST_TOTAL_PERCENT = 1
MOST_LOST_PERCENT = 0.1
# A share of one half then has a standard deviation of 0.9 points, and with a peer 1.6: the errors of peers are larger.
SAMPLES, PEER_SAMPLES = 3000, 1000
THREADS_SECONDS = 20


# A program prints `FUNCTION SECONDS` for each function, and `all SECONDS` for the process. `functions` has, for each
# function, a part of its symbol. `command` gets the seconds that it is to run; `load` is how many seconds of CPU time it
# then uses in a second.
Program = collections.namedtuple("Program", "name command functions load")

# What a profiler reports: CPU seconds in total, and the samples of each function.
Profile = collections.namedtuple("Profile", "seconds counts")


def function_programs(directory):
    in_step = compile_c(directory, "in_step.c")

    def in_c(name, functions, *arguments, load=1.0):
        symbols = {function: function for function in functions.split()}
        return Program(name, lambda seconds: [in_step, *arguments, str(seconds)], symbols, load)

    for rate in (1000, 500, 250, 100, 60, 50):
        yield in_c(f"paced at {rate} Hz", "paced loose", "paced", str(rate), load=0.4)
    yield in_c("timerfd, each 10 ms", "background on_timer", "timerfd")
    yield in_c("audio, 256 frames at 48 kHz", "background on_buffer", "audio")
    yield in_c("SIGVTALRM, each 10 ms", "background in_handler", "vtalrm")

    threads = compile_c(directory, "accuracy.c", "-I", ROOT / "include")
    parts = {f"part_{part}": f"part_{part}" for part in range(4)}
    yield Program("four threads, 1:2:3:4", lambda seconds: [threads, "threads", str(seconds), *"1234"], parts, 1.0)
    yield Program("threads of 1 ms", lambda seconds: [threads, "short", str(round(1000 * seconds)), "both"], {}, 1.0)

    def compiled(language, source, *command):
        place = directory / language
        place.mkdir()
        (place / source).write_bytes((PROGRAMS / source).read_bytes())
        run([*command, source, "-o", "in_step"], cwd=place)
        symbols = {"first": "first", "second": "second"}
        return Program(f"{language}, two threads", lambda seconds: [place / "in_step", str(seconds)], symbols, 1.0)

    packages = ["-package", "unix,threads.posix", "-linkpkg"]
    yield compiled("OCaml", "in_step.ml", "ocamlfind", "ocamlopt", "-thread", "-g", *packages)
    yield compiled("Haskell", "InStep.hs", "ghc", "-O1", "-threaded")
    symbols = {"sort": "rb_ary_sort_bang", "inspect": "rb_str_inspect"}
    yield Program("Ruby, two threads", lambda seconds: ["ruby", PROGRAMS / "in_step.rb", str(seconds)], symbols, 1.0)


def compile_c(directory, source, *options):
    program = directory / source.removesuffix(".c")
    run(["gcc", "-O2", "-g", "-pthread", *options, "-o", program, PROGRAMS / source])
    return program


def run(command, variables=None, cwd=None):
    """Runs a command and returns what it writes to its standard output and standard error."""
    environment = {**os.environ, "LC_ALL": "C", **(variables or {})}
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}: exit status {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout, done.stderr


def used_by(output):
    return {name: float(seconds) for name, seconds in (line.split() for line in output.splitlines())}


def innermost(stack, functions):
    """The function that is innermost on a stack whose first frame is the innermost one, or None."""
    found = (name for frame in stack for name, symbol in functions.items() if symbol in frame)
    return next(found, None)


class CpuProfiler:
    """A library that is preloaded and writes a CPU profile."""

    def __init__(self, name, library, sigprof, **variables):
        self.name, self.library, self.sigprof = name, library, sigprof
        self.variables = {"LD_PRELOAD": str(library), **variables}

    def profile(self, program, seconds, rate, directory):
        path = directory / "prof"
        variables = {**self.variables, "CPUPROFILE": str(path), "CPUPROFILE_FREQUENCY": str(rate)}
        output, _ = run(program.command(seconds), variables)
        folded, _ = run([self.sigprof, "convert", "--to", "folded", "--output", "-", path])
        total, counts = 0, collections.Counter()
        for line in folded.splitlines():
            stack, nanoseconds = line.rsplit(" ", 1)
            total += int(nanoseconds) / 1e9
            counts[innermost(stack.split(";")[::-1], program.functions)] += int(nanoseconds)
        return used_by(output), Profile(total, counts)


class PprofRs:
    """Its library (benches/pprof-rs) prints the number of samples itself."""

    name = "pprof-rs"

    def __init__(self, library):
        self.library = library

    def profile(self, program, seconds, rate, _directory):
        symbols = list(program.functions.values())
        variables = {"LD_PRELOAD": str(self.library), "CPUPROFILE_FREQUENCY": str(rate)}
        variables |= {"OVERHEAD_SAMPLES": "1", "OVERHEAD_FUNCTIONS": ",".join(symbols)}
        output, errors = run(program.command(seconds), variables)
        samples = int(re.search(r"^pprof-rs: (\d+) samples$", errors, re.MULTILINE)[1])
        counts = {name: int(re.search(rf"^pprof-rs: (\d+) in {symbol}$", errors, re.MULTILINE)[1])
                  for name, symbol in program.functions.items()}
        return used_by(output), Profile(samples / rate, counts)


class Perf:
    name = "perf record"

    def profile(self, program, seconds, rate, directory):
        path = directory / "perf.data"
        record = ["perf", "record", "--quiet", "--event", "task-clock", "--freq", str(rate), "--call-graph", "dwarf"]
        output, _ = run([*record, "--output", path, "--", *program.command(seconds)])
        text, _ = run(["perf", "script", "--no-inline", "--fields", "ip,sym", "--input", path])
        stacks = [stack.splitlines() for stack in text.split("\n\n") if stack.strip()]
        counts = collections.Counter(innermost(stack, program.functions) for stack in stacks)
        return used_by(output), Profile(len(stacks) / rate, counts)


def share_error(used, profile, functions):
    """The largest error of a share, in points; 0 if the program has no functions."""
    if not functions:
        return 0.0
    all_used, all_counted = (sum(of[name] for name in functions) for of in (used, profile.counts))
    errors = (100 * (profile.counts[name] / all_counted - used[name] / all_used) for name in functions)
    if all_counted == 0:
        return -100.0
    # Of two equal ones the first, also if rounding makes them differ.
    return max(errors, key=lambda error: round(abs(error), 6))


def functions_table(arguments, directory, sigprof, library):
    """Prints the table and returns whether the default clock is right."""
    gperftools, _ = run(["gcc", "-print-file-name=libprofiler.so"])
    profilers = [
        CpuProfiler(DEFAULT, library, sigprof),
        CpuProfiler("sigprof, `cpu`", library, sigprof, CPUPROFILE_CLOCK="cpu"),
        CpuProfiler("gperftools", gperftools.strip(), sigprof),
        PprofRs(build_pprof()),
        Perf(),
    ]
    profilers = [profiler for profiler in profilers if arguments.profiler in profiler.name]
    print_row("program", "Hz", *(profiler.name for profiler in profilers))
    print_row("---", "---", *("---" for _ in profilers))
    is_right = True
    for program in function_programs(directory):
        if arguments.program not in program.name:
            continue
        for rate in arguments.rates or [100, 1000]:
            cells = []
            for profiler in profilers:
                samples = SAMPLES if profiler.name == DEFAULT else PEER_SAMPLES
                seconds = arguments.seconds or samples / rate / program.load
                try:
                    used, profile = profiler.profile(program, seconds, rate, directory)
                except RuntimeError as error:
                    print(f"accuracy: {profiler.name}, {program.name}: {error}", file=sys.stderr)
                    cells.append("failed")
                    is_right &= profiler.name != DEFAULT
                    continue
                points = share_error(used, profile, program.functions)
                percent = 100 * (profile.seconds / used["all"] - 1)
                share = f"{points:+.1f}" if program.functions else "-"
                cells.append(f"{share} ({percent:+.1f} %)")
                is_wrong = abs(points) > MOST_POINTS or abs(percent) > MOST_TOTAL_PERCENT
                is_right &= profiler.name != DEFAULT or not is_wrong
            print_row(program.name, rate, *cells)
    return is_right


def threads_table(arguments, directory, _sigprof, library):
    """Prints the table and returns whether the default clock is right."""
    in_step = compile_c(directory, "in_step.c")
    clocks = ["auto", "cpu", "perf"]
    print_row("threads", "Hz", *(f"`{clock}`" for clock in clocks))
    print_row("---", "---", *("---" for _ in clocks))
    is_right = True
    for threads in (10, 100, 400, 2000):
        for rate in arguments.rates or [100, 1000, 10000]:
            cells = []
            for clock in clocks:
                seconds = arguments.seconds or THREADS_SECONDS
                variables = {"LD_PRELOAD": str(library), "CPUPROFILE": str(directory / "prof"), "CPUPROFILE_CLOCK": clock}
                variables |= {"CPUPROFILE_FREQUENCY": str(rate), "CPUPROFILE_STATISTICS": "1"}
                output, errors = run([in_step, "busy", str(threads), str(seconds)], variables)
                statistics = re.search(r"^sigprof: statistics: (.*)$", errors, re.MULTILINE)[1]
                figures = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)\b", statistics)}
                sampled = figures["samples"] / rate
                total, lost = 100 * (sampled / used_by(output)["all"] - 1), 100 * figures["no_slot"] / figures["timer_ticks"]
                cells.append(f"{total:+.1f} %, {lost:.2f} %")
                is_right &= clock != "auto" or abs(total) <= MOST_TOTAL_PERCENT and lost <= MOST_LOST_PERCENT
            print_row(threads, rate, *cells)
    return is_right


def print_row(*cells):
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def build_pprof():
    target = TARGET / "pprof-rs"
    manifest = ROOT / "benches/pprof-rs/Cargo.toml"
    run(["cargo", "build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", target])
    return target / "release/libpprof_rs_preload.so"


TABLES = {"functions": functions_table, "threads": threads_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES, help="print one table")
    parser.add_argument("--rates", type=lambda text: [int(rate) for rate in text.split(",")], help="sampling frequencies")
    parser.add_argument("--program", default="", help="only programs with this in their names, in the first table")
    parser.add_argument("--profiler", default="", help="only profilers with this in their names, in the first table")
    parser.add_argument("--seconds", type=float, help="elapsed time of each run")
    arguments = parser.parse_args()
    run([ROOT / "ci/setup.sh", *PACKAGES])
    run(["cargo", "build", "--release", "--locked", "-p", "sigprof-cdylib", "-p", "sigprof-analysis"], cwd=ROOT)
    sigprof, library = TARGET / "release/sigprof", TARGET / "release/libprofiler.so"
    is_right = True
    for name, table in TABLES.items():
        if arguments.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as directory:
            is_right &= table(arguments, pathlib.Path(directory), sigprof, library)
        print()
    commit, _ = run(["git", "describe", "--always", "--dirty"], cwd=ROOT)
    print(f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {commit.strip()}, {os.cpu_count()} processors,",
          f"{os.uname().sysname} {os.uname().release}")
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
