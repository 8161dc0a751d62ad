#!/usr/bin/env python3
"""Sensitivity of the policy `warm` to its constants: the lab with each at half and twice its value.

    make BUILD=release program && bench/sensitivity.py --build build/release > sensitivity.md

Every line `static const float name = value;` of src/policy/warm.c is a constant.  The program is
linked once more with a warm.c that reads them from the environment, and simulates each workload at
three loads, as `warmpath sim` does.  A figure is the geometric mean over all points of the shipped
value's time over the varied one's: above 1 the varied value is better.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/policy/warm.c"
CONSTANT = re.compile(r"^static const (float|double) (\w+) = ([0-9.]+)F?;$", re.MULTILINE)
WORKLOADS = ("b2b", "rag", "chat", "agent", "hot", "unique", "stress")
LOADS = "0.5,0.85,0.95"
METRICS = (("TTFT mean", ("ttft_ms", "mean")), ("TTFT p99", ("ttft_ms", "p99")), ("E2E mean", ("e2e_ms", "mean")))
FACTORS = (0.5, 2)
# Of these factors, 1 + x, the part x is halved and doubled.
FACTORS_AROUND_ONE = {"cost_noise", "session_worth", "habit_worth"}
SHARES = {"load_max", "fill_max", "crowd_by_tokens"}  # below 1: at most 0.99


def constants():
    return {name: float(value) for _, name, value in CONSTANT.findall(SOURCE.read_text())}


def varied(name, value, factor):
    if name in FACTORS_AROUND_ONE:
        return 1 + (value - 1) * factor
    return min(value * factor, 0.99) if name in SHARES else value * factor


def build(folder, out):
    """Links the program with a warm.c whose constants come from WARM_<name>."""
    text = CONSTANT.sub(r"static \1 \2 = \3;", SOURCE.read_text())
    reads = "\n".join(f'    if (getenv("WARM_{name}")) {name} = strtof(getenv("WARM_{name}"), NULL);' for name in constants())
    text += f"\n#include <stdlib.h>\n__attribute__((constructor)) static void read_constants(void)\n{{\n{reads}\n}}\n"
    source = out / "warm_tunable.c"
    source.write_text(text)
    commands = subprocess.run(["ninja", "-t", "commands", "warmpath"], cwd=folder, check=True, text=True, capture_output=True).stdout
    compiles = next(line for line in commands.splitlines() if "policy/warm.c" in line)
    words = shlex.split(compiles)
    words[words.index("-o") + 1] = str(out / "warm_tunable.o")
    words[-1] = str(source)
    words = [word for word in words if word != "-Werror"] + ["-Wno-conversion", "-Wno-float-conversion"]
    subprocess.run(words, cwd=folder, check=True)
    links = shlex.split(commands.splitlines()[-1])
    links[links.index("-o") + 1] = str(out / "warmpath")
    links.insert(links.index("-o") + 2, str(out / "warm_tunable.o"))
    subprocess.run(links, cwd=folder, check=True)
    return out / "warmpath"


def simulate(program, arguments, environment):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, "sim", "--policy", "warm", "--threads", "1", "--json", file.name, *arguments], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment})
        return json.load(open(file.name, encoding="utf-8"))["points"]


def figures(point):
    return {name: point["policies"][0]["figures"][family][kind] for name, (family, kind) in METRICS}


def points_of(program, options, pool):
    """The grid with its rates, which the shipped constants find once for all."""
    jobs = []
    for workload in [*WORKLOADS, *(["trace"] if options.trace else [])]:
        what = ["--trace", options.trace] if workload == "trace" else ["--workload", workload]
        common = [*what, "--backends", options.backends, "--model", options.model, "--requests", options.requests]
        jobs.append((workload, common, pool.submit(simulate, program, [*common, "--load", LOADS], {})))
    for workload, common, job in jobs:
        for point in job.result():
            yield workload, point["level"], [*common, "--rate", repr(point["rate_per_s"])]


def compare(program, options, pool):
    grid = list(points_of(program, options, pool))
    variants = [(None, None, {})]
    for name, value in constants().items():
        variants += [(name, factor, {f"WARM_{name}": repr(varied(name, value, factor))}) for factor in FACTORS]
    jobs = {}
    for variant, (_, _, environment) in enumerate(variants):
        for place, (_, _, arguments) in enumerate(grid):
            for seed in range(1, options.seeds + 1):
                jobs[variant, place, seed] = pool.submit(simulate, program, [*arguments, "--seed", str(seed)], environment)
    times = {key: figures(job.result()[0]) for key, job in jobs.items()}
    shipped = constants()
    for variant, (name, factor, _) in enumerate(variants[1:], 1):
        row = {"name": name, "shipped": shipped[name], "value": varied(name, shipped[name], factor), "factor": factor}
        for metric, _ in METRICS:
            ratios = []
            for place in range(len(grid)):
                seeds = range(1, options.seeds + 1)
                ratios.append(statistics.mean(times[0, place, seed][metric] for seed in seeds) /
                              statistics.mean(times[variant, place, seed][metric] for seed in seeds))
            worst = min(range(len(grid)), key=lambda place: ratios[place])
            row[metric] = math.exp(statistics.mean(math.log(ratio) for ratio in ratios))
            row[metric + " worst"] = (ratios[worst], f"{grid[worst][0]} {grid[worst][1]}")
        yield row


def write(rows, options):
    print(f"{options.model}, {options.backends} replicas, loads {LOADS}, {options.requests} requests, {options.seeds} seeds: the shipped")
    print("value's time over the varied one's. Below 1 the varied value is worse; in brackets the worst point.\n")
    print("| constant | shipped | varied | " + " | ".join(name for name, _ in METRICS) + " |")
    print("|---|---:|---:|" + "---|" * len(METRICS))
    for row in rows:
        cells = [f"{row[name]:.3f} ({row[name + ' worst'][0]:.2f}, {row[name + ' worst'][1]})" for name, _ in METRICS]
        print(f"| `{row['name']}` | {row['shipped']:g} | {row['value']:g} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="folder of a release build, with which the program is linked")
    parser.add_argument("--program", help="a program that was linked before (--link-only)")
    parser.add_argument("--link-only", type=pathlib.Path, help="write the program into this folder and stop")
    parser.add_argument("--trace", help="a trace as one more workload")
    parser.add_argument("--model", default="llama-3.1-8b")
    parser.add_argument("--backends", default="8")
    parser.add_argument("--requests", default="8000")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if options.link_only:
        build(options.build, options.link_only.resolve())
        return
    with tempfile.TemporaryDirectory() as folder:
        program = options.program or build(options.build, pathlib.Path(folder))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            write(list(compare(program, options, pool)), options)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
