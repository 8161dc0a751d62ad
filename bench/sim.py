"""sim -- the time of one run of the policy lab: docs/benchmarks.md.

`warmpath sim` with one thread on one core, from start to end, including reading the trace and
writing the report.  The published trace is not part of the source: TRACE= names it.  Without it, a
built-in workload is measured, under another name.
"""
import os
import pathlib
import resource
import statistics
import subprocess
import time

from proxy import machine, number
from report import CannotMeasure

# Fixed rates, so that a change of the routing does not change the work: 0.7 of what saturates 8
# backends, which `warmpath sim --load 0.7` told on 2026-11-15.
TRACE_RATE = "8.4"
RAG_RATE = "76"
NEEDED = {("conversation_8", "wall_s"): 2.0}


def case_of(report):
    path = os.environ.get("TRACE")
    if not path:
        report.say("conversation_8 needs TRACE=/path/conversation_trace.jsonl; measuring rag_8")
        return "rag_8", ["--workload", "rag", "--rate", RAG_RATE, "--requests", "12000"]
    if not pathlib.Path(path).is_file():
        raise CannotMeasure(f"TRACE={path} is no file")
    with open(path, "rb") as file:
        lines = sum(1 for _ in file)
    # The figure that is followed is that of the published trace.
    name = "conversation_8" if lines == 12031 else "trace_8"
    return name, ["--trace", path, "--rate", TRACE_RATE]


def once(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise CannotMeasure(why) from why
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(report, build, quick):
    repetitions = 5 if quick else 9
    case, words = case_of(report)
    report.figure("setup", "repetitions", repetitions, "1", quick=quick,
                  date=time.strftime("%Y-%m-%d"), machine=machine(), load=os.getloadavg()[0])
    core = max(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), str(build / "warmpath"), "sim", *words, "--policy",
               "warm", "--backends", "8", "--model", "llama-3.1-8b", "--threads", "1"]
    once(command)  # files and pages are warm from now on
    times = [once(command) for _ in range(repetitions)]
    walls = sorted(wall for wall, _ in times)
    wall = statistics.median(walls)
    cpu = statistics.median(cpu for _, cpu in times)
    spread = (walls[-1 - repetitions // 4] - walls[repetitions // 4]) / wall
    report.figure(case, "wall_s", wall, "s", spread=round(spread, 3))
    report.figure(case, "cpu_s", cpu, "s")
    report.say(f"{case}: {wall:.3g} s, of them {cpu:.3g} s on the core")


def markdown(figures):
    """The table of docs/benchmarks.md."""
    found = {(figure["case"], figure["metric"]): figure for figure in figures}
    setup = found["setup", "repetitions"]
    lines = [f"{setup['date']}, {setup['machine']}, load {setup['load']:.1f}; medians of "
             f"{setup['value']} repetitions{' (quick run)' if setup['quick'] else ''}.", "",
             "| case | wall_s | spread | cpu_s | needed |", "|---|---:|---:|---:|---|"]
    for (case, metric), figure in found.items():
        if metric == "wall_s":
            needed = NEEDED.get((case, metric))
            met = "met" if needed and figure["value"] <= needed else "**missed**"
            lines.append(f"| {case} | {number(figure['value'])} | {figure['spread']} "
                         f"| {number(found[case, 'cpu_s']['value'])} "
                         f"| {f'≤ {needed}: {met}' if needed else ''} |")
    return "\n".join(lines) + "\n"
