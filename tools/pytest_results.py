"""A plugin of pytest that writes one line of JSON to a file for each result of a test.

    python -m pytest -p pytest_results --results FILE ...

A test has a line when it is collected, up to three results (of its set-up, of the test itself and
of its clean-up) and a line when all of them are over.  The lines are written as they come.  So a
test that did not end, because pytest itself crashed or hung, is known too.
"""
import json

import pytest


class Recorder:
    def __init__(self, path):
        self.file = open(path, "a", buffering=1)  # each line reaches the file at once

    def write(self, report, when):
        why = str(report.longrepr or "") if report.outcome == "failed" else ""
        self.file.write(json.dumps({"test": report.nodeid, "when": when, "outcome": report.outcome,
                                    "why": why, "sections": "\n".join(text for _, text in report.sections)
                                    if why else ""}) + "\n")

    def expect(self, tests):
        for test in tests:
            self.file.write(json.dumps({"test": test, "when": "collected", "outcome": ""}) + "\n")

    def pytest_collection_finish(self, session):
        self.expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        self.expect(ids)

    def pytest_runtest_logreport(self, report):
        self.write(report, report.when)

    def pytest_runtest_logfinish(self, nodeid):
        self.file.write(json.dumps({"test": nodeid, "when": "finished", "outcome": ""}) + "\n")

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(report, "collect")


def pytest_addoption(parser):
    parser.addoption("--results", help="the file that gets a line of JSON for each result")


def pytest_configure(config):
    # With pytest-xdist the results of all processes come to the one that started them.
    if config.getoption("--results") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.getoption("--results")))
