#!/usr/bin/env python3
"""Runs what the gate leaves out, one part after the other, and says at the end how each went.

    tools/deep.py             all parts
    tools/deep.py asan fuzz   these

The output of a part goes to build/deep/PART.log, its end to standard output if the part fails.  A
failed part does not stop the others.
"""
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/deep"
LINES_SHOWN = 60
LINE_WIDTH = 300
PARTS = {  # name -> words of make
    "quiet": ["e2e", "PART=quiet"],
    "check": ["-k", "check"],
    "asan": ["BUILD=asan", "unit"],
    "asan-e2e": ["BUILD=asan", "e2e", "PART=core"],
    "tsan": ["threads"],
    "fuzz": ["fuzz"],
}


def run(name):
    """One line for the closing table, and whether the part is good."""
    log, started = LOGS / f"{name}.log", time.monotonic()
    with open(log, "wb") as output:
        status = subprocess.run(["make", "--no-print-directory", *PARTS[name]], cwd=ROOT, stdin=subprocess.DEVNULL,
                                stdout=output, stderr=output).returncode
    lines = log.read_text(errors="replace").splitlines() or ["no output"]
    word = "ok" if status == 0 else "FAILED"
    print(f"== {name}: {word}", flush=True)
    if status != 0:
        print("\n".join(line[:LINE_WIDTH] for line in lines[-LINES_SHOWN:]), flush=True)
    # The last line of a part that counts something is its count.
    return f"{name:10}{word:8}{(time.monotonic() - started) / 60:6.1f} min   {lines[-1][:100]}", status == 0


def main():
    names = sys.argv[1:] or list(PARTS)
    unknown = set(names) - set(PARTS)
    if unknown:
        sys.exit(f"deep: no part named {' '.join(sorted(unknown))}; there are: {' '.join(PARTS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    rows = [run(name) for name in names]
    good = sum(is_good for _, is_good in rows)
    print("\n".join(row for row, _ in rows))
    print(f"{good} parts passed, {len(rows) - good} parts failed")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
