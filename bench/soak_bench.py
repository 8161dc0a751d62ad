"""soak -- a minute of random faults under 300 streams: docs/benchmarks.md.

Runs test/soak/soak.py, which has the faults, the invariants and the failures that are allowed.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import time

from proxy import machine
from report import CannotMeasure

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / "build/venv/bin/python"
CASE, MINUTES, SEED = "short", 1, 1
METRICS = ("failed", "altered", "leaked")
LIMIT_S = 600  # of the whole run, which waits longer for a slow machine


def soak(report, build, figures):
    command = [str(PYTHON), str(ROOT / "test/soak/soak.py"), "--warmpath", str(build / "warmpath"),
               "--minutes", str(MINUTES), "--seed", str(SEED), "--figures", str(figures)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as why:
        process.terminate()
        process.wait()
        raise CannotMeasure(why) from why
    for line in output.splitlines():
        report.say(line)
    if not figures.exists():
        raise CannotMeasure(f"soak.py ends with {process.returncode}")
    return json.loads(figures.read_text())


def run(report, build, quick):
    """The same minute, quick or not: `make soak` has longer ones."""
    report.figure("setup", "minutes", MINUTES, "1", quick=quick, date=time.strftime("%Y-%m-%d"),
                  machine=machine(), load=os.getloadavg()[0], seed=SEED)
    with tempfile.TemporaryDirectory() as directory:
        found = soak(report, build, pathlib.Path(directory) / "figures.json")
    for metric in METRICS:
        report.figure(CASE, metric, found[metric], "1")


def markdown(figures):
    """The table of docs/benchmarks.md."""
    setup = next(figure for figure in figures if figure["case"] == "setup")
    lines = [f"{setup['date']}, {setup['machine']}, load {setup['load']:.1f}; seed {setup['seed']}.", "",
             "| case | metric | value | needed |", "|---|---|---:|---|"]
    for figure in figures:
        if figure["case"] != "setup":
            met = "met" if figure["value"] == 0 else "**missed**"
            lines.append(f"| {figure['case']} | {figure['metric']} | {figure['value']} | 0: {met} |")
    return "\n".join(lines) + "\n"
