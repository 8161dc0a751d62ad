"""What a newcomer runs first: the demonstration behind `make run`, and the example configuration."""
import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from harness import SANITIZER, eventually, within

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "tools/demo.py"


@pytest.fixture
def demo(binary, tmp_path):
    """Starts the demonstration; its output is in a file, as for anyone who redirects it."""
    path = tmp_path / "demo.output"
    processes = []

    def start(*words):
        with open(path, "wb") as output:
            process = subprocess.Popen([sys.executable, str(DEMO), str(binary), *words],
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        processes.append(process)
        return process, path.read_text

    yield start
    for process in processes:
        if process.poll() is None:  # so that it takes its router along
            process.terminate()
            process.wait(within(20))
    assert not SANITIZER.search(path.read_text())


def test_one_streaming_request_comes_through_word_by_word(demo):
    process, output = demo("--once")
    assert process.wait(within(20)) == 0, output()
    assert re.search(r"^200 from http://127\.0\.0\.1:\d+:$", output(), re.MULTILINE), output()
    assert "This is engine A." in output() or "This is engine B." in output(), output()
    assert int(re.search(r"^(\d+) events$", output(), re.MULTILINE)[1]) > 10, output()


def lines_to_paste(output):
    return re.findall(r"^    (\S.*)$", output, re.MULTILINE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_the_printed_commands_work_when_pasted_and_the_second_prompt_finds_the_first(demo, number):
    process, output = demo()
    eventually(lambda: "Ctrl-C ends" in output() or process.poll() is not None, "it says what to try", 20)
    lines = lines_to_paste(output())
    assert len(lines) == 4, output()
    said = subprocess.run("\n".join(lines), shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(20)).stdout
    assert said.count("data: ") > 20 and said.count("data: [DONE]") == 2, said
    backends = re.findall(r"^x-warmpath-backend: (\S+)", said, re.MULTILINE)
    assert len(backends) == 2 and len(set(backends)) == 1, said
    matched = re.findall(r"^x-warmpath-decision: policy=warm;.* matched_blocks=(\d+); prompt_blocks=(\d+);", said,
                         re.MULTILINE)
    assert [int(blocks) for blocks, _ in matched] == [0, int(matched[1][1])] and int(matched[1][1]) > 10, said
    why = json.loads(said[said.index('{"policy"'):])
    assert why["chosen"] == backends[0], why
    assert {row["url"] == backends[0]: row["matched_blocks"] > 0 for row in why["backends"]} == {True: True,
                                                                                                False: False}, why
    process.send_signal(number)
    assert process.wait(within(20)) == 0, output()


def test_an_answer_that_runs_is_finished_when_the_demonstration_ends(demo):
    process, output = demo()
    eventually(lambda: "Ctrl-C ends" in output() or process.poll() is not None, "it says what to try", 20)
    lines = lines_to_paste(output())
    with subprocess.Popen("\n".join(lines[:2]), shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as curl:
        while "data: " not in (line := curl.stdout.readline()):
            assert line, "the answer ended before it began"
        process.terminate()
        rest = curl.stdout.read()
    assert rest.rstrip().endswith("data: [DONE]"), rest
    assert process.wait(within(20)) == 0, output()


def test_without_a_router_the_demonstration_fails(tmp_path):
    done = subprocess.run([sys.executable, str(DEMO), str(tmp_path / "none"), "--once"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=within(20))
    assert done.returncode == 1
    assert done.stderr.startswith("demo: "), done.stderr


def test_the_example_configuration_is_accepted(binary):
    path = ROOT / "examples/warmpath.yaml"
    done = subprocess.run([binary, "check", str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(10))
    assert done.returncode == 0, done.stderr
