#!/usr/bin/env python3
"""Compares what profilers find of programs in step with the kernel's tick with what these programs measure themselves.

usage: ci/in_step.py [SECONDS]

cdylib/tests/programs/in_step.c runs for SECONDS, by default 12, under each profiler in turn, and prints the CPU time that
its functions paced() and loose() used. Each cell of the table is the share of paced() in the samples of both, in percent;
more than 3 points from the truth is **bold**. `record` is `sigprof record` with its default clock.

Exit status: 1 if a share is wrong that sigprof finds by default.

Nothing else should run at the same time. docs/accuracy.md has the results.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAMS = [
    *(["paced", str(frequency)] for frequency in (1000, 500, 250, 100, 60, 50)),
    ["virtual"],
    ["timerfd"],
    ["audio"],
]
MARGIN = 3.0


def run(command, **variables):
    """Runs a command that must succeed. Returns its standard output and standard error."""
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    if result.returncode != 0:
        sys.exit(f"in_step: {' '.join(command)}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout, result.stderr


def build(*arguments):
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", *arguments], check=True)


class Profilers:
    def __init__(self, directory):
        target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", "target"))
        build("--package", "sigprof-cdylib", "--package", "sigprof-analysis")
        build("--manifest-path", "benches/pprof-rs/Cargo.toml", "--target-dir", target)
        self.sigprof = f"{target}/release/sigprof"
        self.library = f"{target}/release/libprofiler.so"
        self.pprof_rs = f"{target}/release/libpprof_rs_preload.so"
        self.gperftools = run(["gcc", "-print-file-name=libprofiler.so"])[0].strip()
        self.path = f"{directory}/prof"

    def record(self, command, frequency):
        variables = {"SIGPROF_LIBRARY": self.library}
        options = ["-q", "-F", frequency, "-o", self.path]
        output, _ = run([self.sigprof, "record", *options, *command], **variables)
        return output, self.functions(self.path)

    def clock(self, command, frequency, clock):
        variables = {"CPUPROFILE_CLOCK": clock, "LD_PRELOAD": self.library}
        output, _ = run(command, CPUPROFILE=self.path, CPUPROFILE_FREQUENCY=frequency, **variables)
        return output, self.functions(self.path)

    def preloaded_gperftools(self, command, frequency):
        variables = {"LD_PRELOAD": self.gperftools}
        output, _ = run(command, CPUPROFILE=self.path, CPUPROFILE_FREQUENCY=frequency, **variables)
        return output, self.functions(self.path)

    def preloaded_pprof_rs(self, command, frequency):
        variables = {"LD_PRELOAD": self.pprof_rs, "INNERMOST_OF": "paced loose"}
        output, lines = run(command, CPUPROFILE_FREQUENCY=frequency, **variables)
        return output, counted(re.findall(r"^pprof-rs: (\w+) (\d+)$", lines, re.MULTILINE))

    def perf(self, command, frequency):
        # Time, as sigprof's default clock, and not processor cycles, which a virtual machine may not count.
        options = ["-q", "-e", "task-clock", "-F", frequency, "-o", self.path]
        output, _ = run(["perf", "record", *options, "--", *command])
        lines, _ = run(["perf", "report", "-q", "-i", self.path, "--stdio", "-F", "sample,sym", "--sort", "sym"])
        return output, counted((name, count) for count, name in re.findall(r"(\d+)\s+\[\.\] (\w+)", lines))

    def functions(self, path):
        lines, _ = run([self.sigprof, "top", "--unit", "ms", "-n", "100", path])
        return counted((name, flat) for flat, name in re.findall(r"^\s*([\d.]+)ms.* (\w+)$", lines, re.MULTILINE))


def counted(pairs):
    return {name: float(count) for name, count in pairs}


def share(times):
    """The share of paced() in percent; None without samples of the two."""
    paced, loose = times.get("paced", 0), times.get("loose", 0)
    return 100 * paced / (paced + loose) if paced + loose else None


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    seconds = sys.argv[1] if len(sys.argv) > 1 else "12"
    if not shutil.which("perf"):
        sys.exit("in_step: no perf (apt install linux-perf)")
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/in_step"
        run(["gcc", "-O2", "-g", "-pthread", "-o", program, "cdylib/tests/programs/in_step.c"])
        sys.exit(table(Profilers(directory), program, seconds))


def table(profilers, program, seconds):
    columns = [
        ("record, 100 Hz", lambda command: profilers.record(command, "100")),
        ("record, 1000 Hz", lambda command: profilers.record(command, "1000")),
        ("clock cpu, 1000 Hz", lambda command: profilers.clock(command, "1000", "cpu")),
        ("gperftools, 1000 Hz", lambda command: profilers.preloaded_gperftools(command, "1000")),
        ("pprof-rs, 1000 Hz", lambda command: profilers.preloaded_pprof_rs(command, "1000")),
        ("perf record, 1000 Hz", lambda command: profilers.perf(command, "1000")),
    ]
    print("| program | truth | " + " | ".join(name for name, _ in columns) + " |")
    print("| --- |" + " --- |" * (1 + len(columns)), flush=True)
    status = 0
    for arguments in PROGRAMS:
        truths, cells = [], []
        for name, profile in columns:
            output, times = profile([program, *arguments, seconds])
            truth, found = share(counted(re.findall(r"^(\w+) ([\d.]+)$", output, re.MULTILINE))), share(times)
            is_right = found is not None and abs(found - truth) <= MARGIN
            shown = "none" if found is None else f"{found:.1f}"
            # Each run has a truth of its own.
            cells.append(shown if is_right else f"**{shown}**")
            truths.append(truth)
            status |= name.startswith("record") and not is_right
        print(f"| {' '.join(arguments)} | {min(truths):.1f} to {max(truths):.1f} | " + " | ".join(cells) + " |", flush=True)
    print()
    date = time.strftime("%Y-%m-%d", time.gmtime())
    kernel = os.uname()
    print(f"{seconds} s each, {date}, {os.cpu_count()} processors, {kernel.sysname} {kernel.release}, load {os.getloadavg()[0]:.2f}")
    return status


main()
