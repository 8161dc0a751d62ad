"""kvevents -- exact cache state: how fast engines' events become known, and what knowing them costs.

bench_kvevents does the work, in one process: it fills the ledger to 10 million blocks of 64 engines, then
keeps it there.
"""
import datetime
import json
import os
import platform
import subprocess

from report import CannotMeasure

BLOCKS = 10_000_000
BACKENDS = 64
# (case, metric) -> what is needed of it.
NEEDED = {
    ("apply", "blocks_per_s"): ("≥", 8e6),
    ("apply_readers_2", "blocks_per_s"): ("≥", 5e6),
    ("memory", "bytes_per_holder_block"): ("≤", 32),
}


def run(report, build, quick):
    rounds = 5 if quick else 15
    report.figure("setup", "rounds", rounds, "", date=datetime.date.today().isoformat(),
                  machine=f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} "
                          f"{platform.release()}", load=os.getloadavg()[0], quick=quick)
    report.say(f"{BLOCKS // 1000000} million blocks, {BACKENDS} backends")
    done = subprocess.run([build / "bench_kvevents", "--blocks", str(BLOCKS), "--backends",
                           str(BACKENDS), "--rounds", str(rounds)],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise CannotMeasure(f"bench_kvevents ended with {done.returncode}")
    for line in done.stdout.splitlines():
        figure = json.loads(line)
        report.figure(figure["case"], figure["metric"], figure["value"], figure["unit"])


def number(value):
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def markdown(figures):
    """The table of docs/benchmarks.md, losses included."""
    setup = next(figure for figure in figures if figure["case"] == "setup")
    lines = [f"{setup['date']}, {setup['machine']}, load {setup['load']:.1f} at the start; medians of "
             f"{4 * setup['value']} rounds{' (quick run)' if setup['quick'] else ''}.", "",
             "| case | metric | value | needed |", "|---|---|---:|---|"]
    for figure in figures:
        if figure["case"] != "setup":
            sign, limit = NEEDED.get((figure["case"], figure["metric"]), ("", None))
            lines.append(f"| {figure['case']} | {figure['metric']} | {number(figure['value'])} | "
                         f"{sign} {number(limit) if limit else ''} |")
    return "\n".join(lines)
