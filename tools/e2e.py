#!/usr/bin/env python3
"""The end-to-end tests of one build: those that compare wall times run last, one by one.

    tools/e2e.py build/debug [ARGUMENT of pytest]...

Results go to e2e.xml and e2e_quiet.xml in the build folder, where tools/tally.py counts them.
"""
import pathlib
import subprocess
import sys

NO_TESTS_COLLECTED = 5  # pytest's exit status, for example with -k


def run(build, name, *words):
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "test/e2e", "--warmpath", str(build / "warmpath"),
                           "-o", "junit_family=xunit1", f"--junitxml={build / name}", *words]).returncode


def main():
    build, arguments = pathlib.Path(sys.argv[1]), sys.argv[2:]
    statuses = {run(build, "e2e.xml", "-m", "not quiet", *arguments),
                run(build, "e2e_quiet.xml", "-m", "quiet", "-n", "0", *arguments)}
    return max(statuses - {NO_TESTS_COLLECTED}, default=NO_TESTS_COLLECTED)


if __name__ == "__main__":
    sys.exit(main())
