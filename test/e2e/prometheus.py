"""A Prometheus of its own for a test, and deploy/grafana and docs/metrics.md as Python values."""
import json
import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import harness

ROOT = pathlib.Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
# Labels that Prometheus adds, and the one of histograms.
ANY_METRIC_HAS = {"job", "instance", "le"}


class Prometheus:
    """One process, which scrapes and evaluates rules every second."""

    def __init__(self, directory, config):
        self.directory = directory / "prometheus"
        self.directory.mkdir()
        self.url = f"http://127.0.0.1:{harness.free_port()}"
        self.log_path = self.directory / "log"
        config_path = self.directory / "prometheus.yml"
        config_path.write_text(config, encoding="utf-8")
        command = ["prometheus", f"--config.file={config_path}", f"--storage.tsdb.path={self.directory / 'data'}",
                   f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn"]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, "GOMAXPROCS": "1"})

    def __enter__(self):
        try:
            harness.eventually(self.is_ready, self.log, 20)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def is_ready(self):
        assert self.process.poll() is None, self.log()
        try:
            with urllib.request.urlopen(self.url + "/-/ready", timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    def ask(self, path, **arguments):
        """The data of its HTTP API; an error fails the test with Prometheus's message."""
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(address, timeout=harness.within(10)) as response:
                document = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode(errors='replace')}") from None
        assert document["status"] == "success", document
        return document["data"]

    def query(self, expression, time=None):
        """[(labels, value)] of an instant query."""
        moment = {} if time is None else {"time": f"{time:.3f}"}
        return [(row["metric"], float(row["value"][1])) for row in self.ask("query", query=expression, **moment)["result"]]

    def number(self, expression):
        """The one value of a query; None: no value."""
        values = [value for _, value in self.query(expression)]
        assert len(values) <= 1, f"{expression} has several values"
        return values[0] if values else None

    def by(self, label, expression):
        return {labels.get(label): value for labels, value in self.query(expression)}

    def rules(self):
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]


def documented_metrics():
    """{name: labels} of docs/metrics.md; for histograms and summaries the names of their series."""
    table = {}
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*) \|", (ROOT / "docs" / "metrics.md").read_text(), re.M)
    for name, kind, labels in rows:
        suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}.get(kind, ("",))
        for suffix in suffixes:
            table[name + suffix] = set(re.findall(r"\w+", labels)) | ANY_METRIC_HAS
    return table


def documented_values():
    """{label: values} of the labels whose values are a list in the code."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    values = {}
    for label in ("outcome", "stage"):
        rows = re.search(rf"^\| `{label}` \| \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)[1]
        values[label] = set(re.findall(r"^\| `(\w+)`", rows, re.M))
    problems = (ROOT / "src" / "http" / "problems.def").read_text()
    values["code"] = set(re.findall(r'^PROBLEM\(\w+, \d+, "\w+", "(\w+)"', problems, re.M))
    return values


def metrics_in(expression):
    """[(name, [(label, operator, value)])] of every series that an expression selects."""
    found = []
    for match in re.finditer(r"\b((?:warmpath|process)_\w+|up\b)(?:\{([^}]*)\})?", expression):
        found.append((match[1], re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', match[2] or "")))
    return found


def panels_of(dashboard):
    """All panels except rows, those in folded rows included."""
    for panel in dashboard["panels"]:
        yield from (panel["panels"] if panel["type"] == "row" else [panel])


def rules_text():
    return (GRAFANA / "alerts.yaml").read_text(encoding="utf-8")
