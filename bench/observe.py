"""observe -- the cost of metrics, logs and history: docs/benchmarks.md.

bench_metrics measures counting a request, its line in the log, and a page of metrics, in a new
process for each size of fleet.  bench_chronicle measures a receipt in the chronicle.  overhead.py
compares the whole server with and without all of it.
"""
import json
import os
import subprocess
import tempfile
import time

import overhead
from proxy import machine, number
from report import CannotMeasure

SIZES = [1000, 4096]
# (case, metric) -> what is needed of it.
NEEDED = {("scrape_1000", "p50_ms"): ("≤", 5.0), ("note", "p50_ns"): ("≤", 150.0),
          ("access_line", "p50_ns"): ("≤", 250.0), ("chronicle", "p50_ns"): ("≤", 250.0),
          **overhead.NEEDED}


def alone(report, build, program, *words):
    """Runs a program that prints figures, on a core of its own."""
    core = max(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), str(build / program), *words]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise CannotMeasure(why) from why
    for line in done.stdout.splitlines():
        figure = json.loads(line)
        report.figure(figure["case"], figure["metric"], figure["value"], figure["unit"])
        report.say(f"{figure['case']}: {figure['metric']} {figure['value']:.4g} {figure['unit']}")


def run(report, build, quick):
    rounds = 15 if quick else 101
    report.figure("setup", "rounds", rounds, "1", quick=quick, date=time.strftime("%Y-%m-%d"),
                  machine=machine())
    for backends in SIZES:
        alone(report, build, "bench_metrics", "--backends", str(backends), "--workers", "2",
              "--rounds", str(rounds))
    alone(report, build, "bench_chronicle", "--rounds", str(3 * rounds))
    with tempfile.TemporaryDirectory() as directory:
        for case in overhead.CASES:
            overhead.overhead(report, build, quick, directory, case)


def markdown(figures):
    """The table of docs/benchmarks.md."""
    setup = next(figure for figure in figures if figure["case"] == "setup")
    lines = [f"{setup['date']}, {setup['machine']}; medians of {setup['value']} rounds"
             f"{' (quick run)' if setup['quick'] else ''}.", "",
             "| case | metric | value | needed |", "|---|---|---:|---|"]
    for figure in figures:
        if figure["case"] != "setup":
            sign, limit = NEEDED.get((figure["case"], figure["metric"]), ("", None))
            name = f"{figure['metric']} {figure.get('server', '')}".strip()
            lines.append(f"| {figure['case']} | {name} | {number(figure['value'])} {figure['unit']} | "
                         f"{sign} {number(limit) if limit else ''} |")
    return "\n".join(lines) + "\n"
