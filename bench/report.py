"""How a benchmark says what it found."""
import json
import sys


class CannotMeasure(Exception):
    """Why a figure cannot be measured."""


class Report:
    def __init__(self, bench):
        self.bench = bench

    def figure(self, case, metric, value, unit, **extra):
        """One line on standard output.  Four digits: more would be noise."""
        if isinstance(value, float):
            value = float(f"{value:.4g}")
        line = {"bench": self.bench, "case": case, "metric": metric, "value": value, "unit": unit}
        print(json.dumps({**line, **extra}), flush=True)

    def say(self, text):
        print(f"{self.bench}: {text}", file=sys.stderr, flush=True)
