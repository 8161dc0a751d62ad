#!/usr/bin/env python3
"""Everything that continuous integration runs, in an order that keeps two cores busy.

Two lanes run side by side.  The tests wait a good part of their time, so the other lane uses the
idle CPU time: it compiles for the sanitizers and runs `make check`, at the lowest priority.

    debug build | make test                  | unit tests under ASan+UBSan | threads under TSan
                | asan build   tsan build    | make check

The output of a part goes to build/ci/PART.log, and to standard output if the part fails.  At the
end come the time of each part and one line that counts the tests: `N passed, N failed`.  A part
that fails without a failed test counts as one failure.
"""
import os
import pathlib
import subprocess
import sys
import threading
import time

import tally

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/ci"
LOG_LINES_SHOWN = 300


class Part:
    """One command; `after` are the parts whose end it waits for."""

    def __init__(self, name, command, after=(), nice=0):
        self.name, self.command, self.after, self.nice = name, command, after, nice
        self.ended = threading.Event()
        self.status, self.wall_s, self.cpu_s = None, 0.0, 0.0

    def run(self):
        for part in self.after:
            part.ended.wait()
        started = time.monotonic()
        with open(LOGS / f"{self.name}.log", "wb") as log:
            process = subprocess.Popen(self.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       preexec_fn=lambda: os.nice(self.nice))
            _, status, usage = os.wait4(process.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        self.wall_s, self.cpu_s = time.monotonic() - started, usage.ru_utime + usage.ru_stime
        self.ended.set()
        self.tell()

    def tell(self):
        words = "ok" if self.status == 0 else f"FAILED with {self.status}"
        print(f"== {self.name}: {words}, {self.wall_s:.0f} s", flush=True)
        if self.status != 0:
            lines = (LOGS / f"{self.name}.log").read_text(errors="replace").splitlines()
            print("\n".join(lines[-LOG_LINES_SHOWN:]), flush=True)


def make(*words):
    return ["make", "--no-print-directory", *words]


def plan():
    """The two lanes."""
    debug = Part("debug-build", make("all"))
    asan = Part("asan-build", make("BUILD=asan", "all"), [debug], 19)
    tsan = Part("tsan-build", make("threads-build"), [debug], 19)
    tests = [debug, Part("test", make("test")), Part("asan", make("BUILD=asan", "unit"), [asan]),
             Part("tsan", make("threads"), [tsan])]
    return [tests, [asan, tsan, Part("check", make("check"), [debug], 19)]]


def run_lane(parts):
    for part in parts:
        part.run()


def count_tests(parts):
    """The count of all runs; what an earlier run left was removed."""
    total = tally.Count()
    for name, count in (
            ("test", tally.count_unit(ROOT / "build/debug/meson-logs/testlog.json")),
            ("test", tally.count_junit(ROOT / "build/debug")),
            ("asan", tally.count_unit(ROOT / "build/asan/meson-logs/testlog.json")),
            ("tsan", tally.count_unit(ROOT / "build/tsan/meson-logs/testlog.json"))):
        tally.judge(count, name, 0)
        total.add(count)
    for part in parts:
        if part.status != 0 and (part.name not in ("test", "asan", "tsan") or total.failed == 0):
            total.blame(f"{part.name}: exit status {part.status}")
    return total


def main():
    LOGS.mkdir(parents=True, exist_ok=True)
    for build in ("debug", "asan", "tsan"):
        (ROOT / "build" / build / "meson-logs/testlog.json").unlink(missing_ok=True)
    for path in (ROOT / "build/debug").glob("e2e*.xml"):
        path.unlink()
    started = time.monotonic()
    lanes = plan()
    threads = [threading.Thread(target=run_lane, args=[lane]) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parts = [part for lane in lanes for part in lane]
    wall_s = time.monotonic() - started
    print(f"\n{'part':12}{'minutes':>9}{'CPU minutes':>13}")
    for part in parts:
        print(f"{part.name:12}{part.wall_s / 60:9.1f}{part.cpu_s / 60:13.1f}")
    print(f"{'all':12}{wall_s / 60:9.1f}{sum(part.cpu_s for part in parts) / 60:13.1f}")
    total = count_tests(parts)
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
