#!/usr/bin/python3
"""Writes docs/policies.md and docs/policies/: every policy on every workload, and the score of
warm.

    tools/policies.py WARMPATH --trace FILE             runs the grid: hours on two cores
    tools/policies.py --from grid.json [more.json]      writes the documents of runs that were kept

The runs are `warmpath sim`; this program starts them, one size of the fleet after the other, and
writes the tables.
"""

import argparse
import collections
import json
import math
import os
import subprocess
import sys

MODELS = "llama-3.1-8b,codellama-13b,qwen2.5-32b"
WORKLOADS = "b2b,rag,chat,agent,hot,unique,stress"
LOADS = "0.3,0.5,0.7,0.85,0.95,1.1"
SIZES = (4, 8, 16, 64)
# With equal weights the weighted policies are their plain selves.
POLICIES = ("warm,round_robin,random,least_requests,power_of_two,consistent_hash,prefix_cost,kv_aware,prodstack_prefix,"
            "aibrix_prefix,dynamo,dynamo32,lmetric,smetric,ranvier,ranvier_median,cache_aware,gaie,llmd_sticky,preble")
JUDGED = "warm"
METRICS = (("TTFT", ("ttft_ms", "mean")), ("TTFT p99", ("ttft_ms", "p99")), ("E2E", ("e2e_ms", "mean")),
           ("E2E p99", ("e2e_ms", "p99")))
TITLES = {
    "trace": "Conversation trace", "b2b": "Customers on 150 system prompts (b2b)", "rag": "Questions about documents (rag)",
    "chat": "Conversations (chat)", "agent": "Agents that call tools (agent)", "hot": "One hot prompt (hot)",
    "unique": "Nothing shared (unique)", "stress": "The stress mix (stress)",
}
SHOWN = ("llama-3.1-8b", 8, 0.85)  # the point of each workload that the first page shows


def run_grid(options):
    """The JSON of one run for each size."""
    results = []
    for size in SIZES:
        path = os.path.join(options.keep, f"policies-{size}.json")
        command = [options.warmpath, "sim", "--trace", options.trace, "--workload", WORKLOADS, "--model", MODELS,
                   "--policy", POLICIES, "--load", LOADS, "--backends", str(size), "--requests", str(options.requests),
                   "--json", path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        results.append(path)
    return results


def load(paths):
    points = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            points += json.load(file)["points"]
    for point in points:
        point["figures"] = {cell["policy"]: cell["figures"] for cell in point["policies"]}
    return points


def value(figures, metric):
    return figures[metric[0]][metric[1]]


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


# Groups of points, in the order of the table.
GROUPINGS = (lambda point: "all", lambda point: point["workload"], lambda point: point["model"],
             lambda point: f"load {point['level']:g}", lambda point: f"{point['backends']} replicas")


def score(points):
    """Ratios best peer over judged, by group and metric; and all ratios with their names, worst
    first.
    """
    ratios = {group: collections.defaultdict(list) for group in
              dict.fromkeys(name(point) for name in GROUPINGS for point in points)}
    ranking = []
    for point in points:
        for name, metric in METRICS:
            own = value(point["figures"][JUDGED], metric)
            best, peer = min((value(figures, metric), policy) for policy, figures in point["figures"].items()
                             if policy != JUDGED)
            for grouping in GROUPINGS:
                ratios[grouping(point)][name].append(best / own)
            ranking.append((best / own, name, peer, point, best, own))
    ranking.sort(key=lambda entry: entry[0])
    return ratios, ranking


def cell(ratios):
    return f"{geometric_mean(ratios):.3f} ({min(ratios):.2f})"


def score_table(ratios):
    lines = ["| | points | " + " | ".join(name for name, _ in METRICS) + " |", "|---|---:|" + "---|" * len(METRICS)]
    for group, by_metric in ratios.items():
        cells = " | ".join(cell(by_metric[name]) for name, _ in METRICS)
        lines.append(f"| {group} | {len(by_metric['TTFT'])} | {cells} |")
    return lines


def head_to_head(points):
    lines = ["| peer | " + " | ".join(name for name, _ in METRICS) + " |", "|---|" + "---|" * len(METRICS)]
    rows = []
    for peer in points[0]["figures"]:
        if peer == JUDGED:
            continue
        ratios = [[value(point["figures"][peer], metric) / value(point["figures"][JUDGED], metric) for point in points]
                  for _, metric in METRICS]
        rows.append((geometric_mean([ratio for column in ratios for ratio in column]), peer, ratios))
    for _, peer, ratios in sorted(rows):
        lines.append(f"| {peer} | " + " | ".join(cell(column) for column in ratios) + " |")
    return lines


def point_name(point):
    return f"{point['workload']}, {point['model']}, {point['backends']} replicas, load {point['level']:g}"


def behind(ranking, count):
    lines = ["| best peer / warm | metric | best peer | its ms | warm's ms | point |", "|---:|---|---|---:|---:|---|"]
    for ratio, metric, peer, point, best, own in ranking[:count]:
        lines.append(f"| {ratio:.2f} | {metric} | {peer} | {best:.0f} | {own:.0f} | {point_name(point)} |")
    return lines


COLUMNS = (
    ("TTFT ms", lambda f: f["ttft_ms"]["mean"], min, "{:.0f}"), ("p99", lambda f: f["ttft_ms"]["p99"], min, "{:.0f}"),
    ("TPOT ms", lambda f: f["tpot_ms"]["mean"], min, "{:.1f}"), ("E2E ms", lambda f: f["e2e_ms"]["mean"], min, "{:.0f}"),
    ("p99", lambda f: f["e2e_ms"]["p99"], min, "{:.0f}"), ("hits", lambda f: f["hit_rate"] * 100, max, "{:.1f}%"),
    ("balance", lambda f: f["balance"], min, "{:.2f}"), ("goodput", lambda f: f["goodput"] * 100, max, "{:.0f}%"),
)


def figures_table(point):
    best = [pick(map(of, point["figures"].values())) for _, of, pick, _ in COLUMNS]
    lines = ["| policy | " + " | ".join(name for name, *_ in COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for policy, figures in sorted(point["figures"].items(), key=lambda item: item[1]["ttft_ms"]["mean"]):
        cells = []
        for (_, of, _, form), top in zip(COLUMNS, best):
            text = form.format(of(figures))
            cells.append(f"**{text}**" if text == form.format(top) else text)
        lines.append(f"| {policy} | " + " | ".join(cells) + " |")
    return lines


def bound_of(point):
    bound = next(iter(point["figures"].values())).get("bound_rate", -1)
    return f"; an infinite cache hits {bound * 100:.1f}%" if bound >= 0 else ""


def write_workload(points, workload, folder):
    lines = [f"# {TITLES.get(workload, workload)}", "",
             "Written by `tools/policies.py`; [policies.md](../policies.md) says how to read it. The best of each column is bold.", ""]
    for point in points:
        if point["workload"] == workload:
            lines += [f"## {point['model']}, {point['backends']} replicas, load {point['level']:g}", "",
                      f"{point['rate_per_s']:.4g} requests/s{bound_of(point)}.", "", *figures_table(point), ""]
    with open(os.path.join(folder, "policies", f"{workload}.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def write_first_page(points, folder):
    path = os.path.join(folder, "policies.md")
    with open(path, encoding="utf-8") as file:
        head = file.read().split("<!-- figures -->")[0]
    ratios, ranking = score(points)
    lines = ["<!-- figures -->", "", "## The score", "", *score_table(ratios), "",
             "## Each peer over `warm`", "",
             "Geometric mean over all points (the point at which the peer does best); above 1 `warm` is ahead.", "",
             *head_to_head(points), "", "## Where a peer stays ahead", "",
             f"Of {len(ranking)} pairs of point and metric, {sum(entry[0] < 0.75 for entry in ranking)} are below 0.75, "
             f"{sum(entry[0] < 0.75 and entry[3]['level'] < 1 for entry in ranking)} of them below saturation. The worst:", "",
             *behind(ranking, 24), ""]
    for workload in dict.fromkeys(point["workload"] for point in points):
        point = next(p for p in points if p["workload"] == workload and (p["model"], p["backends"], p["level"]) == SHOWN)
        lines += [f"## {TITLES.get(workload, workload)}", "",
                  f"{point['model']}, {point['backends']} replicas, load {point['level']:g} "
                  f"({point['rate_per_s']:.4g} requests/s{bound_of(point)}). All other points: "
                  f"[policies/{workload}.md](policies/{workload}.md).", "", *figures_table(point), ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + "\n".join(lines))


def main():
    arguments = argparse.ArgumentParser(description="every policy on every workload")
    arguments.add_argument("warmpath", nargs="?", help="the program to run")
    arguments.add_argument("--trace", help="the conversation trace")
    arguments.add_argument("--requests", type=int, default=8000, help="of each run")
    arguments.add_argument("--keep", default="build", help="where the JSON of the runs is kept")
    arguments.add_argument("--from", dest="kept", nargs="+", help="JSON of earlier runs")
    arguments.add_argument("--docs", default="docs", help="where the documents are")
    options = arguments.parse_args()
    if not options.kept and not (options.warmpath and options.trace):
        arguments.error("name the program and --trace, or --from")
    points = load(options.kept or run_grid(options))
    os.makedirs(os.path.join(options.docs, "policies"), exist_ok=True)
    for workload in dict.fromkeys(point["workload"] for point in points):
        write_workload(points, workload, options.docs)
    write_first_page(points, options.docs)
    ratios, _ = score(points)
    print("\n".join(score_table(ratios)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
