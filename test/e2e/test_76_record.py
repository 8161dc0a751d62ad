"""`serve --record FILE`: live traffic as a trace, without its text."""
import json
import os
import random
import signal
import stat
import subprocess

import pytest
import workloads
from client import chat
from drive import Account, drive
from harness import eventually, within
from standin import RESET, json_response

PATH = "/v1/chat/completions"
QUIET = {"health_interval": 0, "models_learn": False, "load_scrape": False}
SPAN = 512  # bytes of text for one id

LINE = {"timestamp", "input_length", "output_length", "hash_ids", "session_id", "turn", "block_size"}


def words(seed, size):
    """Unique text."""
    rng = random.Random(seed)
    text = ""
    while len(text) < size:
        text += "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) + " "
    return text[:size]


def turns(*texts):
    """user, assistant, user ..."""
    return [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]


def ask(router, messages, *lines, **fields):
    body = {**chat(**fields), "messages": messages}
    response = router.post(PATH, body, *lines)
    assert response.status == 200, response
    return response


def lines_of(path):
    """The complete lines: while the router writes, a part of its last line may be there."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def recorded(path, count):
    """The trace once it has that many lines, by time; workers are written one after the other."""
    eventually(lambda: len(lines_of(path)) >= count, lambda: f"{count} lines in {path.read_text()}")
    trace = sorted(lines_of(path), key=lambda line: line["timestamp"])
    assert len(trace) == count
    for line in trace:
        assert set(line) <= LINE and {"timestamp", "input_length", "output_length", "hash_ids"} <= set(line), line
        assert all(isinstance(number, int) and 0 <= number < 1 << 53 for number in line["hash_ids"]), line
        assert len(line["hash_ids"]) == -(-line["input_length"] // line.get("block_size", 512)), line
    return trace


def common(one, other):
    """Leading ids that both have."""
    count = 0
    for left, right in zip(one["hash_ids"], other["hash_ids"]):
        if left != right:
            break
        count += 1
    return count


@pytest.mark.parametrize("policy", ["round_robin", "warm"])
def test_the_trace_has_shared_prefixes_of_prompts_and_no_text(standin, warmpath, tmp_path, policy):
    path = tmp_path / "trace.jsonl"
    router = warmpath(*(standin(name) for name in "ab"), policy=policy, record=path, **QUIET)
    shared = words("shared", 5 * SPAN)
    questions = [words(number, 3 * SPAN) for number in range(3)]
    prompts = [turns(shared + question) for question in questions]
    prompts.append(turns(words("other", 6 * SPAN)))
    prompts.append([*prompts[0], *turns("", "yes", "and then?")[1:]])  # the next turn of the first
    for messages in prompts:
        ask(router, messages)
    trace = recorded(path, len(prompts))
    for line in trace[1:3]:
        assert common(trace[0], line) == 5, line
    assert common(trace[0], trace[3]) == 0
    assert common(trace[0], trace[4]) == 8
    assert len({line["hash_ids"][-1] for line in trace}) == len(trace), "each last id is unique"

    text = path.read_text()
    for prompt in [shared, *questions, "hello", "test-model", "user"]:
        assert not any(word in text for word in prompt.split() if len(word) > 3), prompt
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    eventually(lambda: router.status()["record"] == {"requests": len(prompts), "dropped": 0}, router.status)


def test_tenants_share_no_id(standin, warmpath, tmp_path):
    path = tmp_path / "trace.jsonl"
    router = warmpath(standin("a"), record=path, **QUIET)
    messages = turns(words("shared", 4 * SPAN))
    for fields in ({"cache_salt": "one"}, {"cache_salt": "one"}, {"cache_salt": "two"}, {"model": "other-model"}):
        ask(router, messages, **fields)
    trace = recorded(path, 4)
    assert common(trace[0], trace[1]) == 4
    assert not set(trace[0]["hash_ids"]) & set(trace[2]["hash_ids"])
    assert not set(trace[0]["hash_ids"]) & set(trace[3]["hash_ids"])


def test_sessions_are_anonymous_numbers(standin, warmpath, tmp_path):
    path = tmp_path / "trace.jsonl"
    router = warmpath(standin("a"), record=path, **QUIET)
    ask(router, turns("one"), "X-Session-Id: somebody")
    ask(router, turns("one", "two", "three"), "X-Session-Id: somebody")
    ask(router, turns("one"), "X-Session-Id: somebody-else")
    ask(router, turns("one"))
    trace = recorded(path, 4)
    assert [line.get("turn") for line in trace] == [0, 1, 0, None]
    assert trace[0]["session_id"] == trace[1]["session_id"] != trace[2]["session_id"]
    assert "session_id" not in trace[3]
    assert "somebody" not in path.read_text()


def test_lengths_are_the_engines(caching, warmpath, tmp_path):
    """Its tokens have five bytes; without reports the router assumes four."""
    path = tmp_path / "trace.jsonl"
    engines = caching(1, prefill_speed=1_000_000, step=0.0, token_size=5)
    router = warmpath(*engines, record=path, ask_usage=True, **QUIET)
    shared = words("shared", 20_000)
    counts = []
    for number in range(6):
        response = ask(router, turns(shared + words(number, 3000)), events=5 + number).json()
        counts.append(response["usage"]["prompt_tokens"])
    trace = recorded(path, 6)
    assert {line["block_size"] for line in trace} == {trace[0]["block_size"]}, "ids are equally long"
    assert abs(trace[0]["block_size"] - SPAN / 5) < 0.02 * SPAN / 5, trace[0]
    for line, count in zip(trace, counts):
        assert abs(line["input_length"] - count) < 0.02 * count, (line, count)
    assert [line["output_length"] for line in trace] == [5 + number for number in range(6)]


def test_a_retry_is_one_line_and_failed_or_promptless_requests_are_left_out(standin, warmpath, tmp_path):
    path = tmp_path / "trace.jsonl"
    engines = [standin("a"), standin("b")]
    router = warmpath(*engines, policy="round_robin", workers=1, record=path, **QUIET)
    engines[0].respond_once(PATH, RESET)
    for _ in range(4):
        ask(router, turns(words("a", 3000)))
    assert router.status()["retries"] == 1
    for engine in engines:
        engine.respond_once(PATH, json_response(400, {}))
    assert [router.post(PATH, chat()).status for _ in range(2)] == [400, 400]
    router.get("/not/a/prompt")
    router.post("/v1/embeddings", {"model": "test-model", "input": "words"})
    ask(router, turns("the last"))
    assert len(recorded(path, 5)[4]["hash_ids"]) == 1


def test_the_last_lines_are_written_at_exit(standin, warmpath, tmp_path):
    path = tmp_path / "trace.jsonl"
    router = warmpath(standin("a"), record=path, **QUIET)
    for number in range(20):
        ask(router, turns(f"number {number}"))
    router.signal(signal.SIGTERM)
    assert router.wait_exit() == 0
    assert len(lines_of(path)) == 20


def test_a_full_disk_is_logged_once_and_requests_go_on(standin, warmpath):
    router = warmpath(standin("a"), record="/dev/full", **QUIET)
    for number in range(10):
        ask(router, turns(f"number {number}"))
        eventually(lambda: router.status()["record"]["dropped"] > number, router.status)
    assert router.status()["record"] == {"requests": 0, "dropped": 10}
    words_of_it = [line for line in router.stderr().splitlines() if "/dev/full" in line]
    assert len(words_of_it) == 1 and "No space left" in words_of_it[0], words_of_it


def test_a_file_that_was_moved_is_created_again_at_a_signal(standin, warmpath, tmp_path):
    path, aside = tmp_path / "trace.jsonl", tmp_path / "trace.1"
    router = warmpath(standin("a"), record=path, **QUIET)
    prompt = turns(words("shared", 4 * SPAN))
    ask(router, prompt)
    recorded(path, 1)
    path.rename(aside)
    router.signal(signal.SIGHUP)
    asked = 1

    # Requests before the signal is handled are lines of the old file.
    def goes_on():
        nonlocal asked
        ask(router, prompt)
        asked += 1
        return lines_of(path)

    eventually(goes_on, "lines in a new file")
    eventually(lambda: len(lines_of(aside) + lines_of(path)) == asked, f"{asked} lines in both files")
    trace = lines_of(aside) + recorded(path, asked - len(lines_of(aside)))
    assert len(trace) == asked
    assert all(common(trace[0], line) == 4 for line in trace[1:]), "files of one run can be joined"


def test_the_size_limit_stops_the_recording_until_the_file_is_rotated(standin, warmpath, tmp_path):
    path = tmp_path / "trace.jsonl"
    router = warmpath(standin("a"), record=path, record_size_max="4k", **QUIET)
    while router.status()["record"]["dropped"] == 0:
        ask(router, turns("hello"))
    assert path.stat().st_size <= 4096
    recorded(path, router.status()["record"]["requests"])
    os.replace(path, tmp_path / "full")
    router.signal(signal.SIGHUP)
    before = router.status()["record"]["requests"]

    def goes_on():
        ask(router, turns("hello"))
        return router.status()["record"]["requests"] > before

    eventually(goes_on, router.status)
    assert lines_of(path)
    said = [line for line in router.stderr().splitlines() if str(path) in line]
    assert len(said) == 2 and "record.size_max" in said[0] and "again" in said[1], said


def test_a_file_that_cannot_be_made_is_an_error_at_the_start(binary, warmpath, tmp_path):
    router = warmpath(start=False)
    command = router.command(["http://127.0.0.1:9"], record=tmp_path / "no" / "where")
    result = subprocess.run(command, capture_output=True, text=True, timeout=within(10), check=False)
    assert result.returncode == 1
    assert "cannot record to" in result.stderr and "No such file" in result.stderr, result.stderr


def test_the_lab_reproduces_the_measured_hits(caching, warmpath, binary, tmp_path):
    """On one engine with room for all prompts.  Each prompt loses a part of an id."""
    path, out = tmp_path / "trace.jsonl", tmp_path / "lab.json"
    engines = caching(1, prefill_speed=1_000_000, step=0.0, cache_blocks=5000)
    router = warmpath(*engines, policy="round_robin", record=path, ask_usage=True, **QUIET)
    account = Account(drive(router.url, workloads.groups(1, count=8, requests=200), 1), engines)
    assert account.failures == []
    recorded(path, 200)
    subprocess.run([binary, "sim", "--trace", path, "--policy", "warm", "--backends", "1", "--warm-up", "0",
                    "--json", out], check=True, capture_output=True, timeout=within(20))
    figures = json.loads(out.read_text())["points"][0]["policies"][0]["figures"]
    assert figures["requests"] == 200 and figures["failed"] == 0
    assert abs(figures["hit_rate"] - account.hit_rate) < 0.03, (figures["hit_rate"], account)


def test_ids_can_be_as_large_as_those_of_published_traces(standin, warmpath, tmp_path):
    path = tmp_path / "trace.jsonl"
    router = warmpath(standin("a"), record=path, record_block_tokens=512, **QUIET)
    shared = words("shared", 4 * 2048)
    for number in range(2):
        ask(router, turns(shared + words(number, 1000)))
    trace = recorded(path, 2)
    assert common(*trace) == 4 and len(trace[0]["hash_ids"]) == 5
    assert all("block_size" not in line for line in trace)
