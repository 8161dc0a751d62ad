#!/usr/bin/env python3
"""Runs the tests of one build, and tries a failed test again before it says no.

    tools/run_tests.py build/debug                        unit tests and corpora, then end to end
    tools/run_tests.py build/debug --only fleet           the unit tests of test/fleet
    tools/run_tests.py build/debug --part e2e -- -k retry the words after -- go to pytest

Parts: `unit`; `threads`, the unit programs that can start threads; `e2e`, without the tests that
compare wall times; `core`, those of `e2e` that show the path of a request; `quiet`, the tests that
compare wall times, one by one.

A test that fails is tried again, alone, when all others have ended: up to twice.  If it passes
then, it counts as passed and is listed as flaky.  A run with more than FLAKY_MAX of them has
failed at once, so that the list cannot grow unseen.  For unit tests the program is tried again.
A report of a sanitizer or an assertion counts at once: a race that shows one time in three is a
race.  A test that was expected and has no result, because its runner crashed or hung, has failed.

The flaky tests with their first failures go to flaky.txt beside the build folder, where they stay
until someone deletes their line.  The output of failed tries goes to tries/ in the build folder.
The last lines name the failed tests and count all.
"""
import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import threaded

TOOLS = pathlib.Path(__file__).resolve().parent
TRIES = 3
FLAKY_MAX = 10
HUNG_S = 3600  # for all tests of a part; single tests have limits of their own
HUNG_ALONE_S = 900
WHY_SIZE = 160
GOOD = ("OK", "EXPECTEDFAIL", "SKIP")
END_S = 5  # for a runner to end its tests
NEVER_LUCK = re.compile(r"\w+Sanitizer\b|: runtime error: |: assertion failed: |a sanitizer or an assertion spoke"
                        r"|the router died: exit status")
MARKS = {"e2e": ["-m", "not quiet"], "core": ["-m", "not quiet"], "quiet": ["-m", "quiet", "-n", "0"]}
CORE = re.compile(r"test_(10|20|30|35|40|50|55|60|75|80)_")
PARTS = ("unit", "threads", *MARKS)


class Result:
    """How a unit program or an end-to-end test ended, and how many tests it stands for."""

    def __init__(self, name, passed=0, failed=0, skipped=0, why="", output=""):
        self.name, self.passed, self.failed, self.skipped = name, passed, failed, skipped
        self.why, self.output = " ".join(why.split())[:WHY_SIZE], output
        self.is_finished = False  # end to end: its clean-up has ended

    def is_bad(self):
        return self.failed > 0

    def is_final(self):
        return NEVER_LUCK.search(self.output) is not None


def run_bounded(command, seconds, **options):
    """The exit status; a command that takes longer is ended with all processes of its group.

    Meson starts its tests in groups of their own and ends them if it is asked to end.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"hung for {seconds} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a crashed test has left, too
        process.wait()


def build_or_exit(build, *targets):
    status = subprocess.run(["ninja", "-C", str(build), *targets], check=False).returncode
    if status != 0:
        sys.exit(status)


def lock_or_exit(build):
    """Two runs in one folder would read each other's results.  Held until the process ends."""
    build.mkdir(parents=True, exist_ok=True)
    held = open(build / "tests.lock", "w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"run_tests: another run uses {build}")
    return held


class UnitTests:
    """The programs of `meson test`, which print TAP."""

    def __init__(self, build, names=None):
        self.build = build
        self.names = names or [test["name"] for test in threaded.tests_of(build)]

    @classmethod
    def of_folder(cls, build, only):
        """Builds and takes the programs of one folder of test/."""
        build_or_exit(build, "build.ninja")  # meson.build may name new tests
        tests = threaded.tests_of(build)
        folders = {test["name"]: test["suite"][0].partition(":")[2] for test in tests}
        wanted = [test for test in tests if f"{folders[test['name']]}/".startswith(f"{only.rstrip('/')}/")]
        if not wanted:
            sys.exit(f"run_tests: no unit tests in test/{only}; there are: {' '.join(sorted(set(folders.values())))}")
        build_or_exit(build, *(pathlib.Path(test["cmd"][0]).name for test in wanted))
        return cls(build, [test["name"] for test in wanted])

    @classmethod
    def with_threads(cls, build):
        """The debug build tells which programs can start threads: ThreadSanitizer can in all."""
        return cls(build, [test["name"] for test in threaded.threaded_tests(build.parent / "debug")])

    def run(self, log="testlog", names=(), seconds=HUNG_S):
        path = self.build / f"meson-logs/{log}.json"
        path.unlink(missing_ok=True)
        status = run_bounded(["meson", "test", "-C", str(self.build), "--no-rebuild", "--print-errorlogs", "--logbase", log,
                              *(names or self.names)], seconds)
        lines = path.read_text().splitlines() if path.exists() else []
        results = [self.read(json.loads(line)) for line in lines]
        missing = set(names or self.names) - {result.name.split(" / ")[-1] for result in results}
        return status, results + [Result(name, failed=1, why=f"no result: meson test ended with {status}")
                                  for name in sorted(missing)]

    def run_alone(self, result, number):
        _, results = self.run(f"try-{number}", [result.name.split(" / ")[-1]], HUNG_ALONE_S)
        [again] = results  # names of files are unique in the tree
        if again.is_bad() or again.passed:
            return again
        return Result(result.name, failed=1, why="skipped when tried again")

    @staticmethod
    def read(program):
        name, output = program["name"].rpartition(":")[2], program.get("stdout", "")
        lines = re.findall(r"^(ok|not ok) \d+(.*)", output, re.MULTILINE)
        bad = [rest.strip(" -") for word, rest in lines if word == "not ok"]
        skipped = sum(word == "ok" and "# SKIP" in rest for word, rest in lines)
        passed = len(lines) - len(bad) - skipped
        if program["result"] in GOOD and not bad:
            # The plan is the last line: without it a test has ended the program.
            plan = re.search(r"^1\.\.(\d+)", output, re.MULTILINE)
            if lines and plan and int(plan[1]) == len(lines):
                return Result(name, passed, 0, skipped)
            return Result(name, failed=1, why=f"{len(lines)} tests ran, the plan is {plan and plan[0]}", output=output)
        # A crash or a hang has no line that says "not ok".
        why = ", ".join(bad) or f"{program['result']}, exit status {program.get('returncode')}"
        return Result(name, passed, max(1, len(bad)), skipped, why, output + program.get("stderr", ""))


class EndToEndTests:
    """The tests of a folder, run by pytest."""

    def __init__(self, build, folder, part, words):
        self.build, self.folder, self.part, self.words = build, folder, part, words

    def pytest(self, log, seconds, tests, *words):
        """The status of pytest and the results by name, in the order in which they came."""
        path = self.build / f"{log}.jsonl"
        path.unlink(missing_ok=True)
        paths = os.pathsep.join(filter(None, [str(TOOLS), os.environ.get("PYTHONPATH")]))
        status = run_bounded([sys.executable, "-m", "pytest", "-q", "-p", "pytest_results", *tests, "--results", str(path),
                              *self.words, *words], seconds, env={**os.environ, "PYTHONPATH": paths})
        found = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            self.note(found, json.loads(line))
        return status, found

    def note(self, found, row):
        """A test that passed and failed to clean up has failed."""
        result = found.setdefault(row["test"], Result(f"{self.folder}/{row['test']}"))
        if row["when"] == "collected":
            return  # a process that takes the place of a crashed one collects all tests again
        if row["when"] == "finished":
            result.is_finished = True
        elif result.is_bad():
            result.output += f"\n{row['why']}\n{row['sections']}"
        elif row["outcome"] == "failed":
            lines = row["why"].splitlines()
            why = ([line[1:] for line in lines if line.startswith("E ")] or lines[-1:] or ["failed"])[0]
            found[row["test"]] = Result(result.name, failed=1, why=why, output=row["why"] + "\n" + row["sections"])
        elif row["outcome"] == "skipped":
            result.skipped = 1
        elif row["when"] == "call":
            result.passed = 1

    def run(self):
        tests = [self.folder]
        if self.part == "core":
            tests = sorted(str(path) for path in pathlib.Path(self.folder).glob("test_*.py") if CORE.match(path.name))
        status, found = self.pytest(self.part, HUNG_S, tests, *MARKS[self.part])
        for result in found.values():
            if not (result.is_finished or result.is_bad()):
                result.failed, result.why = 1, f"no result: pytest ended with {status}"
        return status, list(found.values())

    def run_alone(self, result, number):
        status, found = self.pytest(f"try-{number}", HUNG_ALONE_S, [result.name], "-n", "0")
        nodeid = result.name.removeprefix(f"{self.folder}/")
        again = found.get(nodeid)
        if again and (again.is_bad() or (again.passed and status == 0)):
            return again
        return Result(result.name, failed=1, why=f"crashed or hung: pytest ended with {status}")


class Verdict:
    """All results of a run; what failed is tried again at its end."""

    def __init__(self, build):
        self.passed = self.skipped = 0
        self.failed, self.flaky = [], []  # pairs of a name and the reason
        self.again = []  # pairs of a suite and its bad result
        self.tries = build / "tries"
        self.list = build.parent / "flaky.txt"
        shutil.rmtree(self.tries, ignore_errors=True)
        self.tries.mkdir(parents=True)

    def take(self, suite, name):
        started = time.monotonic()
        status, results = suite.run()
        print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)
        bad = [result for result in results if result.is_bad()]
        for result in results:
            self.count(result)
        self.again += [(suite, result) for result in bad]
        if not any(result.passed or result.is_bad() for result in results):
            self.failed.append((name, f"no test ran (exit status {status})"))
        elif status != 0 and not bad:
            self.failed.append((name, f"exit status {status}, though no test failed"))

    def count(self, result):
        if not result.is_bad():
            self.passed += result.passed
            self.skipped += result.skipped

    def try_again(self):
        if len(self.again) > FLAKY_MAX:
            # All flaky or not, the run has failed.
            print(f"{len(self.again)} tests failed and at most {FLAKY_MAX} may be flaky, so none is tried again")
            self.failed += [(result.name, result.why) for _, result in self.again]
            return
        for number, (suite, first) in enumerate(self.again):
            self.try_one(suite, first, number * TRIES)

    def try_one(self, suite, first, number):
        result, tries = first, 1
        while True:
            (self.tries / f"{number + tries}.txt").write_text(
                f"{result.name}, try {tries}\n{result.why}\n{result.output}", errors="backslashreplace")
            if result.is_final() or tries == TRIES:
                self.failed.append((first.name, result.why))
                return
            tries += 1
            print(f"== {first.name}: try {tries}", flush=True)
            result = suite.run_alone(first, number + tries)
            if not result.is_bad():
                self.count(result)
                self.flaky.append((first.name, f"passed on try {tries}; first: {first.why}"))
                return

    def tell(self):
        """Prints the closing lines.  Whether the run is good."""
        old = self.list.read_text().splitlines() if self.list.exists() else []
        rows = {line.partition(": ")[0]: line for line in [*old, *(f"{name}: {why}" for name, why in self.flaky)]}
        self.list.write_text("".join(f"{row}\n" for row in rows.values()), errors="backslashreplace")
        print("== result")
        for name, why in self.flaky:
            print(f"FLAKY {name}: {why}")
        for name, why in self.failed:
            print(f"FAILED {name}: {why}")
        words = [f"{self.passed} passed", f"{len(self.failed)} failed"]
        words += [f"{self.skipped} skipped"] if self.skipped else []
        print(", ".join(words), flush=True)
        return not self.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--part", choices=PARTS, action="append", help="by default unit and e2e")
    parser.add_argument("--only", help="a folder of test/")
    parser.add_argument("--folder", default="test/e2e", help="of the end-to-end tests")
    mark = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, words = parser.parse_args(sys.argv[1:mark]), sys.argv[mark + 1:]
    for kind in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, lambda *_: sys.exit("run_tests: asked to end"))
    lock = lock_or_exit(options.build)  # noqa: F841 (held)
    sys.stdout.reconfigure(errors="backslashreplace")  # a message may have any bytes
    parts = options.part or (["unit"] if options.only else ["unit", "e2e"])
    verdict = Verdict(options.build)
    for part in parts:
        if part in MARKS:
            suite = EndToEndTests(options.build, options.folder, part,
                                  ["--warmpath", str(options.build / "warmpath"), *words])
        elif part == "threads":
            suite = UnitTests.with_threads(options.build)
        else:
            suite = UnitTests.of_folder(options.build, options.only) if options.only else UnitTests(options.build)
        verdict.take(suite, part)
    verdict.try_again()
    return 0 if verdict.tell() else 1


if __name__ == "__main__":
    sys.exit(main())
