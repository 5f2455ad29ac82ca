#!/usr/bin/env python3
"""Runs the tests with cargo-nextest and reports those that are flaky.

usage: ci/run_tests.py CARGO_NEXTEST [ARGUMENT]...

CARGO_NEXTEST is the program, ARGUMENT an argument of `cargo nextest run`. Settings are in .config/nextest.toml.

1. Cargo builds the libraries under test once. Without this, each test would start cargo.
2. All tests run, each in a process of its own, one more at a time than there are processors. If a test runs for more
   than nine minutes, the stacks of its processes are printed; nextest kills it two minutes later.
3. A test that failed runs again while no other test does, at most twice. If it then passes, it is flaky.
   If more than three tests failed, none runs again.
4. The modules whose tests took longest are listed, then each test that was skipped, in whole or in part
   (tests/support/skip.rs), and what the tests have left behind: processes, temporary files, shared memory. If anything
   is left, the run fails.
5. The last lines are the flaky tests: `flaky: NAME (try 2)`.

Exit status: 0 if every test passed at last and nothing is left behind, otherwise that of nextest, or 1.
"""

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

# In nextest's own directory in the workspace, which CARGO_TARGET_DIR does not move.
REPORT = "target/nextest/default/junit.xml"
DUMP_AFTER_SECONDS = 540
POLL_SECONDS = 5
MOST_FLAKY = 3
MOST_TRIES = 3
MODULES_LISTED = 15
# As in tests/support/built.rs.
BUILD_LIBRARIES = ["cargo", "build", "--release", "--package", "sigprof-cdylib", "--lib", "--locked"]
# Killed processes may take this long to exit.
GONE_AFTER_SECONDS = 30


def main():
    # Lines in the order of those that nextest prints.
    sys.stdout.reconfigure(line_buffering=True)
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    run = [sys.argv[1], "nextest", "run", *sys.argv[2:]]
    if "--test-threads" not in run:
        # Tests spend a part of their time waiting for processes and timers.
        run += ["--test-threads", str(os.cpu_count() + 1)]
    if build := subprocess.call(BUILD_LIBRARIES):
        sys.exit(build)
    target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", "target"))
    os.environ["SIGPROF_TEST_BUILT"] = os.path.join(target, "release")
    place = Place()
    try:
        status, outcomes = run_all(run)
        place.print_skipped()
        left = place.left_behind()
        for line in [*(f"left behind: {line}" for line in left), *outcomes]:
            print(line)
    finally:
        place.remove()
    sys.exit(status or (1 if left else 0))


def run_all(run):
    """Runs the tests, and those that fail again. Returns the exit status, and a line for each test that failed."""
    run_again = without_options(run, ("-E", "--test-threads"))
    if os.path.exists(REPORT):
        os.remove(REPORT)
    status = watch(run)
    if not os.path.exists(REPORT):
        # Nothing ran: nextest has printed why.
        return status or 1, []
    tests = list(results(REPORT))
    print_times(tests)
    failed = [test for test in tests if test["failed"]]
    if not failed:
        return status, []
    if len(failed) > MOST_FLAKY:
        lines = [f"{len(failed)} tests failed, more than the {MOST_FLAKY} that are run again:"]
        return status or 1, lines + [f"failed: {test['name']}" for test in failed]
    outcomes = [(test["name"], passing_try(run_again, test)) for test in failed]
    lines = [
        f"flaky: {name} (try {number})" if number else f"failed: {name} ({MOST_TRIES} tries)"
        for name, number in outcomes
    ]
    return 0 if all(number for _, number in outcomes) else status or 1, lines


class Place:
    """The temporary directory of one run, `TMPDIR`. Its name shows which processes and shared memory are the run's."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="sigprof-tests-")
        # As /tmp: some programs of the tests run as another user.
        self.temporary = os.path.join(self.directory, "tmp")
        os.mkdir(self.temporary)
        os.chmod(self.directory, 0o755)
        os.chmod(self.temporary, 0o1777)
        self.skips = os.path.join(self.directory, "skips")
        os.environ["TMPDIR"] = self.temporary
        os.environ["SIGPROF_TEST_SKIPS"] = self.skips
        # cdylib/tests/support/scratch.rs begins the names of its directories with it.
        self.name = os.path.basename(self.directory)
        os.environ["SIGPROF_TEST_RUN"] = self.name
        self.spools_before = set(spool_directories())

    def print_skipped(self):
        if os.path.exists(self.skips):
            with open(self.skips, errors="replace") as file:
                for line in sorted(set(file)):
                    print(line.rstrip())

    def left_behind(self):
        """Processes, temporary files and shared memory that are there, though the tests have ended."""
        end = time.monotonic() + GONE_AFTER_SECONDS
        while (left := self.there_now()) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def there_now(self):
        # Some programs have a directory of their own in it.
        mark = b"TMPDIR=" + os.fsencode(self.temporary)
        left = [
            f"process {process}: {title(facts)}"
            for process, facts in process_table().items()
            if process != os.getpid() and any(variable.startswith(mark) for variable in environment(process))
        ]
        left += [os.path.join(self.temporary, name) for name in sorted(os.listdir(self.temporary))]
        left += sorted(glob.glob(f"/dev/shm/{self.name}*"))
        return left + sorted(path for path in spools() if os.fsencode(self.directory) in contents(path))

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        for directory in set(spool_directories()) - self.spools_before:
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def spools():
    """The files in the default directories of spools and in those of recorders. A spool has the path of its profile."""
    for directory in spool_directories() + glob.glob("/dev/shm/sigprof-record-*"):
        yield from glob.glob(os.path.join(directory, "*"))


def spool_directories():
    """The default directories of spools, which the library makes for each user and keeps."""
    return glob.glob("/dev/shm/sigprof-[0-9]*")


def contents(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def environment(process):
    """The variables that a process was started with; none if it has ended."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def results(report):
    """Each test of a JUnit report: its binary, name, seconds, and whether it failed."""
    for case in ElementTree.parse(report).iter("testcase"):
        yield {
            "binary": case.get("classname"),
            "test": case.get("name"),
            "name": f"{case.get('classname')} {case.get('name')}",
            "seconds": float(case.get("time", 0)),
            "failed": case.find("failure") is not None or case.find("error") is not None,
        }


def print_times(tests):
    """Prints the modules whose tests took longest."""
    seconds, counts = {}, {}
    for test in tests:
        module = " ".join([test["binary"], *test["test"].split("::")[:-1][:1]])
        seconds[module] = seconds.get(module, 0) + test["seconds"]
        counts[module] = counts.get(module, 0) + 1
    slowest = sorted(seconds, key=lambda module: (-seconds[module], module))[:MODULES_LISTED]
    print(f"\n{len(tests)} tests, {sum(seconds.values()):.0f} s in all. The slowest modules:")
    for module in slowest:
        print(f"{seconds[module]:8.1f} s  {module} ({counts[module]} tests)")


def without_options(arguments, options):
    """The arguments without these options and their values."""
    kept = list(arguments)
    for option in options:
        while option in kept:
            place = kept.index(option)
            del kept[place : place + 2]
    return kept


def passing_try(run, test):
    """Runs a failed test again, alone. Returns the number of the try that passed, counted from 1; None if none did."""
    only = f"binary_id(={test['binary']}) & test(={test['test']})"
    for number in range(2, MOST_TRIES + 1):
        print(f"\nagain, alone: {test['name']} (try {number})")
        if watch([*run, "--profile", "again", "--test-threads", "1", "-E", only]) == 0:
            return number
    return None


def watch(command):
    """Runs `command` to its end, prints the stacks of tests that hang, and returns the exit status."""
    process = subprocess.Popen(command)
    dumped = set()
    while True:
        try:
            return process.wait(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            dump_hanging(process.pid, dumped)


def dump_hanging(nextest, dumped):
    processes = process_table()
    for test, facts in processes.items():
        # Nextest starts a test as `BINARY NAME --nocapture --exact`; its other children compile.
        is_test = facts["parent"] == nextest and b"--exact" in facts["arguments"]
        if is_test and facts["age"] > DUMP_AFTER_SECONDS and test not in dumped:
            dumped.add(test)
            dump(test, processes)


def dump(test, processes):
    """Prints the stacks of a test's process and of its descendants."""
    print(f"\nhangs for {processes[test]['age']:.0f} s: {title(processes[test])}")
    waiting = [test]
    while waiting:
        process = waiting.pop(0)
        waiting += [child for child, facts in processes.items() if facts["parent"] == process]
        print(f"process {process}: {title(processes[process])}")
        try:
            stacks = subprocess.run(
                ["eu-stack", "--pid", str(process)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30
            ).stdout
            print(stacks.decode(errors="replace"))
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"no stacks: {error}")


def title(facts):
    return b" ".join(facts["arguments"]).decode(errors="replace").strip()


def process_table():
    """All processes: parent, arguments, and seconds since the start (proc(5), /proc/PID/stat)."""
    ticks_a_second = os.sysconf("SC_CLK_TCK")
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    processes = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The second field, the program's name, is in parentheses and may have any characters.
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue  # It has ended.
        processes[int(name)] = {
            "parent": int(fields[1]),
            "age": now - int(fields[19]) / ticks_a_second,
            "arguments": arguments,
        }
    return processes


if __name__ == "__main__":
    main()
