"""json -- how fast JSON is read, beside cJSON: docs/benchmarks.md.

bench_json measures; this starts it on a core of its own and passes on what it prints.  Not named
after its benchmark, since Python has a module of that name.
"""
import os
import subprocess
import time

from proxy import machine, number
from report import CannotMeasure

NEEDED = {("scan_200k", "gb_per_s"): 2.0}


def run(report, build, quick):
    report.figure("setup", "repetitions", 5 if quick else 15, "1", quick=quick,
                  date=time.strftime("%Y-%m-%d"), machine=machine())
    core = max(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), str(build / "bench_json"),
               "--repetitions", "5" if quick else "15", "--window-ms", "50" if quick else "200"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise CannotMeasure(why) from why
    for line in done.stdout.splitlines():
        case, metric, value, unit = line.split()
        report.figure(case, metric, float(value), unit)
        if metric in ("gb_per_s", "answer_ns"):
            report.say(f"{case}: {float(value):.4g} {unit}")


def markdown(figures):
    """The tables of docs/benchmarks.md."""
    found = {}
    for figure in figures:
        found.setdefault(figure["case"], {})[figure["metric"]] = figure["value"]
    setup = next(figure for figure in figures if figure["case"] == "setup")
    lines = [f"{setup['date']}, {setup['machine']}; medians of {setup['value']} repetitions"
             f"{' (quick run)' if setup['quick'] else ''}.", "",
             "| case | GB/s | walk, GB/s | cJSON, GB/s | ratio_cjson | needed |",
             "|---|---:|---:|---:|---:|---|"]
    for case, values in found.items():
        if "gb_per_s" in values:
            needed = NEEDED.get((case, "gb_per_s"))
            met = "met" if needed and values["gb_per_s"] >= needed else "**missed**"
            cells = [case, *(number(values[metric]) for metric in (
                "gb_per_s", "walk_gb_per_s", "cjson_gb_per_s", "ratio_cjson")),
                f"≥ {needed}: {met}" if needed else ""]
            lines.append("| " + " | ".join(cells) + " |")
    chunk = found["chunk_200"]
    lines += ["", "| case | answer, ns | walk, ns | cJSON, ns | ratio_cjson |",
              "|---|---:|---:|---:|---:|",
              "| chunk_200 | " + " | ".join(number(chunk[metric]) for metric in (
                  "answer_ns", "walk_ns", "cjson_ns", "ratio_cjson")) + " |"]
    return "\n".join(lines) + "\n"
