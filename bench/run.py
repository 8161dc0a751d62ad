#!/usr/bin/env python3
"""Runs the benchmarks: `make bench`, `make bench ONLY=proxy`, with QUICK=1 a minute each.

Figures go to standard output, one line of JSON each: {"bench", "case", "metric", "value", "unit"},
and "proxy" where a figure belongs to one of several programs.  Progress goes to standard error.
Ends non-zero only when something could not be measured: a figure that misses what is needed is a
figure, not a failure.

    bench/run.py --build build/release --only proxy > figures.jsonl
    bench/run.py --markdown figures.jsonl               prints the tables of docs/benchmarks.md
"""
import argparse
import json
import pathlib
import sys

import agree
import cluster
import decision
import predictions
import index
import json_bench
import kvevents
import observe
import proxy
import sim
import soak_bench
import tokenizer
from report import CannotMeasure, Report

# Name -> module with `run(report, build, quick)` and `markdown(figures)`.
BENCHES = {"proxy": proxy, "index": index, "json": json_bench, "decision": decision,
           "tokenizer": tokenizer, "kvevents": kvevents, "sim": sim, "agree": agree,
           "predictions": predictions, "cluster": cluster, "observe": observe, "soak": soak_bench}


def print_markdown(path):
    with open(path) as file:
        figures = [json.loads(line) for line in file if line.startswith("{")]
    for name, module in BENCHES.items():
        mine = [figure for figure in figures if figure["bench"] == name]
        if mine:
            print(module.markdown(mine))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--only", choices=sorted(BENCHES), metavar="NAME",
                        help="one of: " + " ".join(sorted(BENCHES)))
    parser.add_argument("--quick", action="store_true", help="within a minute each")
    parser.add_argument("--markdown", metavar="FILE", help="the lines of an earlier run, as tables")
    options = parser.parse_args()
    if options.markdown:
        print_markdown(options.markdown)
        return 0
    failed = False
    for name, module in BENCHES.items():
        if options.only not in (None, name):
            continue
        report = Report(name)
        try:
            module.run(report, options.build.resolve(), options.quick)
        except CannotMeasure as why:
            report.say(f"cannot measure: {why}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
