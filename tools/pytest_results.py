"""A plugin of pytest that writes one line of JSON to a file for each result of a test.

    python -m pytest -p pytest_results --results FILE ...

A test has up to three results: of its set-up, of the test itself and of its clean-up.  The lines
are written as the results come, so they are there too if pytest itself crashes.
"""
import json


class Recorder:
    def __init__(self, path):
        self.file = open(path, "a", buffering=1)  # each line reaches the file at once

    def write(self, report, when):
        why = str(report.longrepr or "") if report.outcome == "failed" else ""
        self.file.write(json.dumps({"test": report.nodeid, "when": when, "outcome": report.outcome,
                                    "why": why, "sections": "\n".join(text for _, text in report.sections)
                                    if why else ""}) + "\n")

    def pytest_runtest_logreport(self, report):
        self.write(report, report.when)

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(report, "collect")


def pytest_addoption(parser):
    parser.addoption("--results", help="the file that gets a line of JSON for each result")


def pytest_configure(config):
    # With pytest-xdist the results of all processes come to the one that started them.
    if config.getoption("--results") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.getoption("--results")))
