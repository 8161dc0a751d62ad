"""The first steps of a newcomer: the demonstration behind `make run`, and the example
configuration.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import uuid

import pytest
from harness import SANITIZER, eventually, within

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "tools/demo.py"
MARK = "WARMPATH_DEMO_TEST"  # in the environment of all that a demonstration starts
pytestmark = pytest.mark.timeout(200)  # with the time for those before it


class Demo:
    """A demonstration with its output redirected to a file."""

    def __init__(self, binary, directory, *words):
        self.path = directory / "demo.output"
        self.reports = directory / "reports"
        self.reports.mkdir()
        self.mark = f"{MARK}={uuid.uuid4()}"
        environment = {**os.environ, MARK: self.mark.partition("=")[2], "TMPDIR": str(self.reports)}
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen([sys.executable, str(DEMO), str(binary), *words], env=environment,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def output(self):
        return self.path.read_text()

    def commands(self):
        """The command lines of its child processes."""
        found = []
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended, or is not ours
                if self.mark.encode() in (directory / "environ").read_bytes().split(b"\0"):
                    found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return [command for command in found if command and str(DEMO) not in command]

    def wait_for(self, words, seconds=60):
        eventually(lambda: words in self.output() or self.process.poll() is not None, f"it says {words!r}", seconds)
        assert words in self.output(), self.output()

    def wait_end(self, seconds=60):
        """Its exit status; checks that its children have ended."""
        status = self.process.wait(within(seconds))
        assert self.commands() == [], self.output()
        return status

    def lines_to_paste(self):
        said = self.output()
        return re.findall(r"^    (\S.*)$", said[said.index("In another terminal"):], re.MULTILINE)


@pytest.fixture
def alone():
    """Demonstrations use the same ports, so they run one at a time, over all test processes."""
    with open(pathlib.Path(tempfile.gettempdir()) / "warmpath-demo-test.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def demo(binary, tmp_path, alone):
    made = []

    def start(*words):
        made.append(Demo(binary, tmp_path, *words))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(within(20))
        assert not SANITIZER.search(one.output())


@pytest.fixture
def busy_ports(alone):
    """Occupies the ports that it prefers."""
    ports = (8080, 9090, 9004)
    with contextlib.ExitStack() as stack:
        for port in ports:
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                sock.bind(("127.0.0.1", port))
                sock.listen()
        yield ports


def row(output, name):
    """A line of the table, its cells as numbers."""
    line = re.search(rf"^{name}  .*%.*$", output, re.MULTILINE)
    assert line, output
    return [float(number) for number in re.findall(r"[0-9.]+", line[0])]


def test_both_policies_are_measured_with_the_same_users_and_warm_has_more_hits(demo):
    one = demo("--quick", "--once")
    assert one.wait_end(100) == 0, one.output()
    runs = {path.stem: json.loads(path.read_text()) for path in one.reports.glob("*/*.json")}
    assert set(runs) == {"round_robin", "warm"}, one.output()
    for policy, run in runs.items():
        assert run["requests"]["succeeded"] == 400 and len(run["backends"]) == 8, run
        hits, _, ttft_p99_ms, *_ = row(one.output(), policy)
        assert abs(hits - 100 * run["hit_rate"]) < 0.06 and abs(ttft_p99_ms - run["ttft_ms"]["p99"]) < 0.6, one.output()
        assert "<svg" in next(one.reports.glob(f"*/{policy}.html")).read_text()
    # The order of users depends on the responses; the questions of each user do not.
    old, new = (sum(backend["prompt_tokens"] for backend in run["backends"]) for run in runs.values())
    assert abs(old - new) < 0.01 * old and runs["warm"]["seed"] == runs["round_robin"]["seed"], (old, new)
    assert runs["warm"]["hit_rate"] > runs["round_robin"]["hit_rate"] + 0.1, one.output()


@pytest.mark.quiet
def test_streams_begin_sooner_with_warm(demo):
    one = demo("--quick", "--once")
    assert one.wait_end(100) == 0, one.output()
    runs = {path.stem: json.loads(path.read_text()) for path in one.reports.glob("*/*.json")}
    assert runs["warm"]["ttft_ms"]["mean"] < runs["round_robin"]["ttft_ms"]["mean"], one.output()


def test_it_goes_on_serving_on_free_ports_and_finishes_running_requests_at_the_end(demo, busy_ports):
    one = demo("--quick")
    one.wait_for("Ctrl-C ends", 100)
    lines = one.lines_to_paste()
    assert len(lines) == 4, one.output()
    assert not set(map(int, re.findall(r"127\.0\.0\.1:(\d+)", one.output()))) & set(busy_ports), one.output()
    said = subprocess.run("\n".join(lines), shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(20)).stdout
    check_pasted(said)
    longer = [lines[0].replace('"max_tokens":20', '"max_tokens":600'), lines[1]]
    with subprocess.Popen("\n".join(longer), shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as curl:
        while "data: " not in (line := curl.stdout.readline()):
            assert line, "the response ended before it began"
        one.process.terminate()
        rest = curl.stdout.read()
    assert rest.rstrip().endswith("data: [DONE]") and rest.count("data: ") > 500, rest
    assert one.wait_end() == 0, one.output()


def check_pasted(said):
    """The second prompt goes to the backend of the first, as explained before and after; so would a
    third.
    """
    assert said.count("data: [DONE]") == 2 and said.count("data: ") > 40, said
    backends = re.findall(r"^x-warmpath-backend: (\S+)", said, re.MULTILINE)
    assert len(backends) == 2 and len(set(backends)) == 1, said
    matched = re.findall(r"^x-warmpath-decision: policy=warm;.* matched_blocks=(\d+); prompt_blocks=(\d+);", said,
                         re.MULTILINE)
    assert [int(blocks) for blocks, _ in matched] == [0, int(matched[1][1])] and int(matched[1][1]) > 10, said
    cached = [int(number) for number in re.findall(r'"cached_tokens": ?(\d+)', said)]
    assert len(cached) == 2 and cached[0] == 0 and cached[1] > 900, said
    why = json.loads(said[said.index('{"policy"'):])
    assert why["chosen"] == backends[0] and len(why["backends"]) == 8, why
    assert {row["url"] == backends[0]: row["matched_blocks"] > 0 for row in why["backends"]} == {True: True,
                                                                                                False: False}, why


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_during_a_run_ends_everything_and_leaves_no_half_results(demo, number):
    one = demo("--quick")
    eventually(lambda: any(" load " in command for command in one.commands()), one.output, 20)
    one.process.send_signal(number)
    assert one.wait_end(20) == 0, one.output()
    assert list(one.reports.iterdir()) == []


def test_without_the_program_the_demonstration_fails(tmp_path):
    done = subprocess.run([sys.executable, str(DEMO), str(tmp_path / "none"), "--once"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=within(20))
    assert done.returncode == 1
    assert done.stderr.startswith("demo: "), done.stderr


def test_the_example_configuration_is_accepted(binary):
    path = ROOT / "examples/warmpath.yaml"
    done = subprocess.run([binary, "check", str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(10))
    assert done.returncode == 0, done.stderr
