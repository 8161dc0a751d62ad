"""The runner of the tests: it tries a failed test again, and no failure is lost.

The runs here have tests of their own, in a folder for pytest and in a project for meson.
"""
import contextlib
import os
import pathlib
import subprocess
import sys

import pytest
from harness import eventually, within

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "tools/run_tests.py"
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--warmpath")
"""
TESTS = """
import os, pathlib, time
import pytest

def tries(name):
    path = pathlib.Path(__file__).with_name(name)
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    return len(path.read_text())

def test_passes():
    assert True

def test_fails_once():
    assert tries("once") > 1, "the first try"

def test_fails_twice():
    assert tries("twice") > 2

def test_fails_always():
    assert tries("always") == 0, "never well"

def test_crashes_once():
    if tries("crash") == 1:
        os._exit(3)

def test_crashes_always():
    os._exit(3)

@pytest.mark.timeout(1)
def test_hangs():
    time.sleep(1000)

@pytest.fixture
def unclean():
    yield
    assert False, "left something behind"

def test_fails_to_clean_up(unclean):
    pass

@pytest.mark.parametrize("number", range(16))
def test_takes_a_while(number):
    time.sleep(0.4)

def test_fails_an_assertion_once():
    assert tries("assertion") > 1, "file.c:12: function: assertion failed: x > 0"

def test_loses_the_router_once():
    assert tries("died") > 1, "the router died: exit status -11"

def test_reports_a_race_once():
    assert tries("race") > 1, "WARNING: ThreadSanitizer: data race"

def test_skips_when_tried_again():
    if tries("skipped") > 1:
        pytest.skip("not here")
    assert False

def test_says_odd_bytes():
    assert False, "\\udcff"

@pytest.fixture
def deadly():
    yield
    os._exit(3)

def test_crashes_when_it_cleans_up(deadly):
    pass

def test_waits_for_the_end():
    tries("waiting")
    time.sleep(1000)

@pytest.fixture
def leaky():
    yield
    assert tries("leak") > 1, "ERROR: LeakSanitizer: detected memory leaks"

def test_fails_and_then_leaks(leaky):
    assert tries("leaky") > 1

def test_is_skipped():
    pytest.skip("not here")

@pytest.mark.parametrize("number", range(11))
def test_fails_in_a_crowd(number):
    assert tries(f"crowd-{number}") > 1

@pytest.mark.quiet
def test_compares_wall_times():
    assert False

@pytest.mark.quiet
def test_quiet_crash():
    os._exit(3)

@pytest.mark.quiet
def test_quiet_unclean_crash(deadly):
    pass

@pytest.mark.quiet
def test_quiet_unclean_passes():
    pass

@pytest.mark.quiet
def test_quiet_flake():
    assert tries("flake") > 1

@pytest.mark.quiet
def test_quiet_failure():
    assert False, "always"
"""
# Each program prints TAP; the file counts its tries.
PROGRAMS = {
    "passes": "echo ok 1; echo ok 2; echo 1..2",
    "fails_once": 'echo x >> once; if [ $(wc -l < once) = 1 ]; then echo "not ok 1 - is_ready"; else echo ok 1; fi; echo 1..1',
    "fails_always": 'echo ok 1; echo "not ok 2 - is_ready"; echo 1..2',
    "crashes": "kill -SEGV $$",
    "hangs": "sleep 1000",
    "says_nothing": "true",
    "ends_early": "echo ok 1",
    "lacks_one": "echo ok 1; echo 1..2",
    "is_skipped_then": 'echo x >> tried; if [ $(wc -l < tried) = 1 ]; then echo "not ok 1"; else echo "ok 1 # SKIP"; fi; echo 1..1',
}


def run(*words):
    """The exit status, the closing lines that name tests, and the last line."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run([sys.executable, str(RUNNER), *map(str, words)], stdin=subprocess.DEVNULL, env=environment,
                          capture_output=True, text=True, errors="replace", timeout=within(120))
    *closing, last = done.stdout.partition("== result\n")[2].splitlines()
    return done.returncode, sorted(closing), last


def processes_of(word):
    """Command lines with the word."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [line] if word in line else []
    return found


@pytest.fixture
def end_to_end(tmp_path):
    """Runs those of the tests above that have one of these names."""
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider -n 2 --dist worksteal\nmarkers = quiet\n")
    (folder / "test_toy.py").write_text(TESTS)
    build = tmp_path / "build/debug"

    def make(*names, part="e2e"):
        status, closing, last = run(build, "--part", part, "--folder", folder, "--", "-k", " or ".join(names))
        return status, [line.replace(f"{folder}/test_toy.py::", "") for line in closing], last

    make.flaky = tmp_path / "build/flaky.txt"
    return make


@pytest.fixture
def unit(tmp_path):
    """Runs those of the programs above that have these names."""
    source, build = tmp_path / "source", tmp_path / "build/debug"

    def make(*names):
        source.mkdir()
        # Meson leaves the suite out of the names of tests if all are in one.
        rows = "".join(f"test('{name}', find_program('{name}.sh'), suite: '{'good' if name == 'passes' else 'toy'}', protocol: 'tap', timeout: 2, "
                       f"workdir: meson.current_source_dir())\n" for name in names)
        (source / "meson.build").write_text("project('toy')\n" + rows)
        for name in names:
            (source / f"{name}.sh").write_text(f"#!/bin/sh\n{PROGRAMS[name]}\n")
            (source / f"{name}.sh").chmod(0o755)
        subprocess.run(["meson", "setup", build, source], check=True, capture_output=True)
        return run(build, "--part", "unit")

    make.flaky = tmp_path / "build/flaky.txt"
    return make


@pytest.mark.parametrize("name, tries", [("test_fails_once", 2), ("test_fails_twice", 3), ("test_crashes_once", 2)])
def test_a_test_that_passes_when_tried_again_has_passed_and_is_listed(end_to_end, name, tries):
    status, closing, last = end_to_end(name, "test_passes")
    assert status == 0 and last == "2 passed, 0 failed"
    assert len(closing) == 1 and name in closing[0] and f"passed on try {tries}; first: " in closing[0]
    assert end_to_end.flaky.read_text().splitlines()[0].endswith(closing[0].removeprefix("FLAKY "))


def test_the_list_has_the_first_failure(end_to_end):
    _, closing, _ = end_to_end("fails_once")
    assert closing == ["FLAKY test_fails_once: passed on try 2; first: AssertionError: the first try"]


@pytest.mark.parametrize("name, why", [
    ("test_fails_always", "never well"), ("test_crashes_always", "crashed or hung: pytest ended with 3"),
    ("test_hangs", "Timeout"), ("test_fails_to_clean_up", "left something behind"),
    ("test_crashes_when_it_cleans_up", "crashed or hung: pytest ended with 3"),
    ("test_skips_when_tried_again", "crashed or hung: pytest ended with 0"), ("test_says_odd_bytes", "")])
def test_a_test_that_fails_three_times_has_failed(end_to_end, name, why):
    status, closing, last = end_to_end(name, "test_passes")
    assert status == 1 and last == "1 passed, 1 failed"
    assert len(closing) == 1 and closing[0].startswith(f"FAILED {name}: ") and why in closing[0]
    assert end_to_end.flaky.read_text() == ""


@pytest.mark.parametrize("name", ["test_reports_a_race_once", "test_fails_and_then_leaks", "test_fails_an_assertion_once",
                                  "test_loses_the_router_once"])
def test_a_report_of_a_sanitizer_or_an_assertion_is_not_forgiven(end_to_end, name):
    status, closing, last = end_to_end(name)
    assert status == 1 and last == "0 passed, 1 failed" and closing[0].startswith(f"FAILED {name}")


def test_a_crash_while_others_run_is_tried_again_and_loses_none(end_to_end):
    """The process that takes its place collects all tests again."""
    status, closing, last = end_to_end("test_crashes_once", "takes_a_while")
    assert status == 0 and last == "17 passed, 0 failed"
    assert len(closing) == 1 and closing[0].startswith("FLAKY test_crashes_once: passed on try 2")


def test_a_crash_in_the_clean_up_is_not_lost(end_to_end):
    status, closing, last = end_to_end("quiet_unclean", part="quiet")
    assert status == 1 and last == "1 passed, 1 failed" and closing[0].startswith("FAILED test_quiet_unclean_crash")


def test_two_runs_in_one_folder_exclude_each_other(end_to_end, tmp_path):
    words = [sys.executable, RUNNER, tmp_path / "build/debug", "--part", "e2e", "--folder", tmp_path / "tests", "--", "-k",
             "test_waits_for_the_end"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as runner:
        eventually((tmp_path / "tests/waiting").exists, "the first run is under way", 30)
        second = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within(30))
        assert second.returncode == 1 and "another run uses" in second.stderr
        runner.terminate()


def test_tests_behind_a_crash_are_not_lost(end_to_end):
    """One by one, a crash ends all of pytest: the tests behind it have no result."""
    status, closing, last = end_to_end("quiet_crash", "quiet_flake", "quiet_failure", part="quiet")
    assert status == 1 and last == "1 passed, 2 failed"
    assert [line.partition(":")[0] for line in closing] == [
        "FAILED test_quiet_crash", "FAILED test_quiet_failure", "FLAKY test_quiet_flake"]
    assert "always" in closing[1]


def test_a_list_of_flaky_tests_stays_until_its_lines_are_deleted(end_to_end):
    end_to_end("fails_once")
    end_to_end("fails_once", "fails_twice")
    assert [line.partition("::")[2].partition(":")[0] for line in end_to_end.flaky.read_text().splitlines()] == [
        "test_fails_once", "test_fails_twice"]


def test_asked_to_end_it_ends_its_tests_too(end_to_end, tmp_path):
    words = [sys.executable, RUNNER, tmp_path / "build/debug", "--part", "e2e", "--folder", tmp_path / "tests", "--", "-k",
             "test_waits_for_the_end"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as runner:
        eventually((tmp_path / "tests/waiting").exists, "the test runs", 30)
        runner.terminate()
        assert runner.wait(within(20)) == 1
    eventually(lambda: not processes_of(str(tmp_path)), "all processes have ended")


def test_more_than_ten_flaky_tests_fail_the_run(end_to_end):
    status, closing, last = end_to_end("crowd", "test_passes")
    assert status == 1 and last == "1 passed, 11 failed"
    assert len(closing) == 11


def test_skipped_tests_and_those_of_wall_times_count_for_nothing(end_to_end):
    assert end_to_end("is_skipped", "test_passes", "wall_times") == (0, [], "1 passed, 0 failed, 1 skipped")


def test_a_run_without_a_test_has_failed(end_to_end):
    status, closing, last = end_to_end("nothing_has_this_name")
    assert status == 1 and last == "0 passed, 1 failed" and "no test ran" in closing[0]


def test_a_unit_program_that_passes_when_tried_again_has_passed_and_is_listed(unit):
    status, closing, last = unit("passes", "fails_once")
    assert (status, last) == (0, "3 passed, 0 failed")
    assert closing == ["FLAKY toy / fails_once: passed on try 2; first: is_ready"]
    assert unit.flaky.read_text() == "toy / fails_once: passed on try 2; first: is_ready\n"


@pytest.mark.parametrize("name, why", [("fails_always", "is_ready"), ("crashes", "exit status -11"),
                                       ("hangs", "TIMEOUT"), ("says_nothing", "0 tests ran"),
                                       ("ends_early", "1 tests ran"), ("lacks_one", ""),
                                       ("is_skipped_then", "skipped when tried again")])
def test_a_unit_program_that_fails_three_times_has_failed(unit, name, why):
    status, closing, last = unit("passes", name)
    assert status == 1 and last == "2 passed, 1 failed"
    assert len(closing) == 1 and closing[0].startswith(f"FAILED toy / {name}: ") and why in closing[0]
