"""index -- the prefix index: how long a match takes, how fast it is fed, what it costs in memory.

bench_index does the work, a fresh process for each size and number of backends, so that none finds
another's memory warm.  The names without a suffix are those of 10 million blocks and 64 backends.
"""
import datetime
import json
import os
import platform
import subprocess

from report import CannotMeasure

PLAIN = (10, 64)  # million blocks, backends
OTHERS = [(1, 8), (1, 64), (1, 1024), (10, 8), (10, 1024)]
# (case, metric) -> what is needed of it.
NEEDED = {
    ("match_short", "p50_ns"): ("≤", 300),
    ("match_512", "p50_ns"): ("≤", 3000),
    ("store", "blocks_per_s"): ("≥", 8e6),
    ("memory", "bytes_per_holder_block"): ("≤", 32),
    ("readers_2", "scaling"): ("≥", 1.8),
}


def run_one(report, build, millions, backends, suffix, rounds):
    report.say(f"{millions} million blocks, {backends} backends")
    command = [build / "bench_index", "--blocks", str(millions * 1000000),
               "--backends", str(backends), "--rounds", str(rounds)]
    if suffix:
        command += ["--suffix", suffix]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise CannotMeasure(f"bench_index ended with {done.returncode}")
    for line in done.stdout.splitlines():
        figure = json.loads(line)
        report.figure(figure["case"], figure["metric"], figure["value"], figure["unit"])


def run(report, build, quick):
    rounds = 5 if quick else 15
    report.figure("setup", "rounds", rounds, "", date=datetime.date.today().isoformat(),
                  machine=f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} "
                          f"{platform.release()}", load=os.getloadavg()[0], quick=quick)
    run_one(report, build, *PLAIN, "", rounds)
    for millions, backends in OTHERS:
        run_one(report, build, millions, backends, f"_{millions}m_{backends}", rounds)


def number(value):
    return "–" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def markdown(figures):
    """The table of docs/benchmarks.md, losses included."""
    found = {(f["case"], f["metric"]): f for f in figures}
    setup = found["setup", "rounds"]
    sizes = [("", PLAIN), *((f"_{m}m_{b}", (m, b)) for m, b in OTHERS)]
    rows = [key for key in found if key[0] != "setup" and not key[0][-1].isdigit()
            or key[0] in ("match_512", "readers_2")]
    lines = [f"{setup['date']}, {setup['machine']}, load {setup['load']:.1f} at the start; medians of "
             f"{setup['value']} rounds{' (quick run)' if setup['quick'] else ''}.", "",
             "| case | metric | " + " | ".join(f"{m} M, {b}" for _, (m, b) in sizes) + " | needed |",
             "|---|---|" + "---:|" * len(sizes) + "---|"]
    for case, metric in rows:
        cells = [number(found.get((case + suffix, metric), {}).get("value")) for suffix, _ in sizes]
        sign, limit = NEEDED.get((case, metric), ("", None))
        lines.append(f"| {case} | {metric} | " + " | ".join(cells) +
                     f" | {sign} {number(limit) if limit else ''} |")
    return "\n".join(lines)
