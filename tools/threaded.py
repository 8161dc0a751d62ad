#!/usr/bin/env python3
"""Prints the tests whose programs can start a thread: those that ThreadSanitizer has to run.

    tools/threaded.py build/debug    names of programs, as ninja takes them

Archives bring only the objects that a program needs, so a program without a reference to
pthread_create has no code of ours that could start one.
"""
import json
import pathlib
import subprocess
import sys


def starts_threads(program):
    symbols = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    return " pthread_create" in symbols


def tests_of(build):
    """All tests, as `meson introspect` describes them."""
    return json.loads(subprocess.run(["meson", "introspect", "--tests", str(build)], capture_output=True,
                                     check=True).stdout)


def threaded_tests(build):
    return [test for test in tests_of(build) if starts_threads(test["cmd"][0])]


def main():
    found = threaded_tests(pathlib.Path(sys.argv[1]))
    for test in found:
        print(pathlib.Path(test["cmd"][0]).name)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
