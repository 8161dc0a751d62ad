"""The request log and the process log."""
import collections
import datetime
import json
import os
import signal
import subprocess
import threading
import time

import pytest
from client import Ended, chat, json_request, request
from harness import eventually, free_port, within
from standin import LAST_CHUNK, RESET, SSE_HEAD, Gate, chunk, event, json_response

QUIET = {"health_interval": 0}
SECRET = "xylophone-of-the-prompt"
# Fields of all lines; `trace_id`, `problem` and `slow` are optional.
FIELDS = {
    "time", "id", "model", "path", "policy", "backend", "outcome", "status", "attempts", "streamed",
    "prompt_tokens", "expected_tokens", "cached_tokens", "output_tokens", "by_events", "candidates",
    "running_requests", "queued_tokens", "predicted_ms", "ttft_ms", "tpot_ms", "total_ms", "saved_ms", "stages_us",
    "request_bytes", "answer_bytes"}


def lines_of(path):
    """All lines of the file, parsed."""
    def whole():
        # A write that crosses a page of the file is seen in parts.
        text = path.read_text() if path.exists() else ""
        return [text] if text == "" or text.endswith("\n") else None

    text, = eventually(whole, f"{path} ends with a whole line")
    return [json.loads(line) for line in text.splitlines()]


def logged(path, count):
    return eventually(lambda: len(lines := lines_of(path)) >= count and lines, lambda: lines_of(path))


def ask(router, *lines, content=SECRET, **options):
    return router.ask(request("POST", "/v1/chat/completions", "Content-Type: application/json", *lines,
                              body=json.dumps({"model": "test-model", **options,
                                               "messages": [{"role": "user", "content": content}]}).encode()))


def by_id(lines):
    return {line["id"]: line for line in lines}


def test_each_request_is_one_line_that_agrees_with_client_and_engine(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    engines = [standin("a"), standin("b")]
    usage = {"prompt_tokens": 321, "completion_tokens": 4, "total_tokens": 325,
             "prompt_tokens_details": {"cached_tokens": 256}}
    for engine in engines:
        engine.respond("/v1/completions", json_response(200, {"choices": [{"text": "x"}], "usage": usage}))
    router = warmpath(*engines, access_log_file=path, policy="round_robin", **QUIET)
    before = time.time()
    seen = {}
    for number in range(8):
        seen[f"chat-{number}"] = ask(router, f"X-Request-Id: chat-{number}", max_tokens=5)
    for number in range(4):
        response = router.post("/v1/completions", {"model": "test-model", "prompt": SECRET},
                               f"X-Request-Id: plain-{number}")
        seen[f"plain-{number}"] = response
    lines = by_id(logged(path, 12))
    assert set(lines) == set(seen) and len(lines_of(path)) == 12
    for name, line in lines.items():
        response = seen[name]
        assert set(line) == FIELDS
        assert line["backend"]["url"] == response.header("x-warmpath-backend")
        assert line["backend"]["id"] == router.backend(line["backend"]["url"])["id"]
        assert (line["status"], line["outcome"], line["attempts"]) == (200, "ok", 1)
        assert (line["model"], line["policy"], line["candidates"]) == ("test-model", "round_robin", 2)
        assert line["answer_bytes"] == len(response.raw_head) + len(response.body)
        assert 0 < line["total_ms"] < (time.time() - before) * 1000
        assert all(value >= 0 for value in line["stages_us"].values()) and line["stages_us"]["parse"] > 0
        moment = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()
        assert before - 0.01 <= moment <= time.time()
    for name in (name for name in lines if name.startswith("chat")):
        assert lines[name]["path"] == "/v1/chat/completions"
        told = seen[name].json()["usage"]
        assert lines[name]["prompt_tokens"] == told["prompt_tokens"]
        assert lines[name]["output_tokens"] == told["completion_tokens"] == 5
        assert lines[name]["cached_tokens"] is None and lines[name]["streamed"] is False
    for name in (name for name in lines if name.startswith("plain")):
        assert lines[name]["path"] == "/v1/completions"
        assert (lines[name]["prompt_tokens"], lines[name]["cached_tokens"], lines[name]["output_tokens"]) == (321, 256, 4)
    assert SECRET not in path.read_text()


def test_a_stream_has_its_times(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    engine, gate = standin("a"), Gate()
    tokens = [chunk(event({"choices": [{"index": 0, "delta": {"content": "x"}}]}))] * 5
    engine.respond("/v1/chat/completions", 0.2, SSE_HEAD, tokens[0], gate, *tokens[1:],
                   chunk(event(b"[DONE]")) + LAST_CHUNK)
    router = warmpath(engine, access_log_file=path, **QUIET)
    with router.connect() as connection:
        begun = time.monotonic()
        connection.send(json_request("/v1/chat/completions", chat(stream=True)))
        response = connection.read_head()
        assert connection.read_chunk(response)
        time.sleep(0.2)  # the time of the other four tokens, at least
        gate.open()
        connection.read_body(response)
        taken_ms = (time.monotonic() - begun) * 1000
    assert response.complete
    line = logged(path, 1)[0]
    assert line["streamed"] is True and line["outcome"] == "ok"
    assert 200 <= line["ttft_ms"] < line["total_ms"] <= taken_ms
    assert 200 <= 4 * line["tpot_ms"] <= line["total_ms"] - line["ttft_ms"] + 0.1


def test_refused_and_broken_requests_have_their_outcome(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    engine = standin("a")
    gate = Gate()
    engine.respond("/broken", SSE_HEAD, chunk(event({"x": 1})), gate, RESET)
    engine.respond("/failed", json_response(500, {}))
    engine.respond("/busy", json_response(429, {}))
    engine.respond("/rejected", json_response(404, {}))
    router = warmpath(engine, access_log_file=path, retry_attempts=1, health_eject_failures=0, **QUIET)
    eventually(lambda: router.backend(engine)["models"] == ["test-model"], "its models are known")
    for name in ("failed", "busy", "rejected"):
        router.post(f"/{name}", {}, f"X-Request-Id: {name}")
    with router.connect() as connection:
        connection.send(request("POST", "/broken", "X-Request-Id: broken", body=b"{}"))
        response = connection.read_head()
        assert connection.read_chunk(response)
        gate.open()
        connection.read_body(response)
        assert not response.complete
    refused = router.post("/v1/chat/completions", {"model": "no-such-model", "messages": []}, "X-Request-Id: refused")
    lines = by_id(logged(path, 5))
    assert {name: line["outcome"] for name, line in lines.items()} == {name: name for name in lines} and len(lines) == 5
    assert lines["refused"]["problem"] == refused.error()["code"]
    assert lines["refused"]["status"] == refused.status and lines["refused"]["backend"] is None
    assert (lines["failed"]["status"], lines["busy"]["status"], lines["rejected"]["status"]) == (500, 429, 404)


def test_ids_and_models_cannot_write_lines_of_their_own(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    engine = standin("a")
    engine.respond("/v1/models", json_response(404, {}))  # so it gets requests for any
    router = warmpath(engine, access_log_file=path, **QUIET)
    names = ['a"b\\c', "line\nbreak\x1b[31m", "名" * 100]
    for number, name in enumerate(names):
        router.post("/v1/chat/completions", {"model": name, "messages": []}, f"X-Request-Id: {number}")
    lines = by_id(logged(path, 3))
    assert set(lines) == {"0", "1", "2"}
    assert [lines["0"]["model"], lines["1"]["model"]] == names[:2]
    assert lines["2"]["model"].rstrip("?") == "名" * 42, "cut at 128 bytes"


def test_sampling_keeps_failures_and_agrees_with_other_routers(standin, warmpath, tmp_path):
    engine = standin("a")
    engine.respond("/failed", json_response(500, {}))
    chosen = []
    for number in range(2):
        path = tmp_path / f"access-{number}.log"
        router = warmpath(engine, access_log_file=path, access_log_every=5, retry_attempts=1,
                          health_eject_failures=0, **QUIET)
        with router.connect() as connection:
            for count in range(200):
                connection.send(request("POST", "/x", f"X-Request-Id: {count}", body=b"{}"))
                connection.read_response("POST")
            # On the same connection, so by the same worker: their lines come last.
            for count in range(10):
                connection.send(request("POST", "/failed", f"X-Request-Id: failed-{count}", body=b"{}"))
                connection.read_response("POST")
        failed = {f"failed-{count}" for count in range(10)}
        lines = eventually(lambda: failed <= set(found := by_id(lines_of(path))) and found, "failures")
        chosen.append(set(lines) - failed)
        assert 20 <= len(chosen[-1]) <= 65, len(chosen[-1])
    assert chosen[0] == chosen[1]


def test_slow_requests_have_a_log_of_their_own(standin, warmpath, tmp_path):
    path, slow = tmp_path / "access.log", tmp_path / "slow.log"
    router = warmpath(standin("a"), access_log_file=path, access_log_slow_file=slow, access_log_every=1000000,
                      access_log_slow_first="150ms", access_log_slow_total="1s", **QUIET)
    ask(router, "X-Request-Id: first", "x-standin-delay: 0.2", stream=True, max_tokens=2)
    ask(router, "X-Request-Id: total", "x-standin-delay: 1.05", max_tokens=2)
    ask(router, "X-Request-Id: quick", max_tokens=2)
    ask(router, "X-Request-Id: first-again", "x-standin-delay: 0.2", stream=True, max_tokens=2)
    lines = by_id(logged(slow, 3))
    assert {name: line["slow"] for name, line in lines.items()} == {
        "first": "first", "total": "total", "first-again": "first"}
    both = by_id(logged(path, 3))
    assert {name: line["slow"] for name, line in both.items() if "slow" in line} == {
        name: line["slow"] for name, line in lines.items()}


def burst(router, prefix, until):
    """Requests one after the other, on one connection; how many there were."""
    count = 0
    with router.connect() as connection:
        while not until.is_set():
            connection.send(request("POST", "/x", f"X-Request-Id: {prefix}-{count}", body=b"{}"))
            assert connection.read_response("POST").status == 200
            count += 1
    return count


def test_files_that_are_moved_lose_nothing(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    router = warmpath(standin("a"), access_log_file=path, **QUIET)
    until, counts = threading.Event(), []
    threads = [threading.Thread(target=lambda name=name: counts.append(burst(router, name, until))) for name in "ab"]
    for thread in threads:
        thread.start()
    for number in range(5):
        eventually(lambda: path.exists() and path.stat().st_size > 0, "lines in the new file")
        path.rename(tmp_path / f"access.log.{number}")
        router.signal(signal.SIGUSR1)
        eventually(path.exists, "a new file")
    until.set()
    for thread in threads:
        thread.join()
    total = sum(counts)
    files = [path, *(tmp_path / f"access.log.{number}" for number in range(5))]
    eventually(lambda: sum(len(lines_of(file)) for file in files) == total, f"{total} lines")
    ids = collections.Counter(line["id"] for file in files for line in lines_of(file))
    assert len(ids) == total and max(ids.values()) == 1
    eventually(lambda: router.stderr().count("files reopened") >= 5, router.stderr)
    assert router.stderr().count("files reopened") == 5


def test_a_signal_for_new_files_without_files_does_no_harm(standin, warmpath):
    router = warmpath(standin("a"), **QUIET)
    router.signal(signal.SIGUSR1)
    eventually(lambda: "files reopened" in router.stderr(), "it is heard")
    assert router.get("/x").status == 200


def test_the_last_lines_are_written_at_exit(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    router = warmpath(standin("a"), access_log_file=path, **QUIET)
    for number in range(20):
        assert router.get("/x").status == 200
    router.signal(signal.SIGTERM)
    assert router.wait_exit() == 0
    assert len(lines_of(path)) == 20


def test_a_full_disk_costs_lines_and_no_request(standin, warmpath):
    router = warmpath(standin("a"), access_log_file="/dev/full", **QUIET)
    router.get("/x")
    eventually(lambda: "/dev/full" in router.stderr(), "it is said")
    deadline = time.monotonic() + 2.5  # it is tried again, and not logged again
    while time.monotonic() < deadline:
        assert router.get("/x").status == 200
    said = [line for line in router.stderr().splitlines() if "/dev/full" in line]
    assert len(said) == 1 and " warn " in said[0] and "No space left" in said[0], said


def test_a_directory_that_vanishes_and_comes_back_heals(standin, warmpath, tmp_path):
    directory = tmp_path / "logs"
    directory.mkdir()
    path = directory / "access.log"
    router = warmpath(standin("a"), access_log_file=path, **QUIET)
    router.get("/x")
    logged(path, 1)
    path.unlink()
    directory.rmdir()
    router.get("/x")
    eventually(lambda: "lines are dropped" in router.stderr(), "it is said")
    directory.mkdir()

    def heals():
        assert router.get("/x").status == 200
        return lines_of(path)

    eventually(heals, "lines again")
    eventually(lambda: "takes lines again" in router.stderr(), "that is said too")


def test_a_log_that_cannot_be_opened_is_an_error_at_the_start(binary, warmpath, tmp_path):
    router = warmpath(start=False)
    path = tmp_path / "no" / "where"
    command = router.command(["http://127.0.0.1:9"], access_log_file=path)
    done = subprocess.run(command, capture_output=True, timeout=within(10))
    assert done.returncode == 1
    assert f"access log {path} cannot be opened: No such file or directory" in done.stderr.decode()


class Output:
    """A router whose standard output is ours."""

    def __init__(self, router, backends, stdout, **keys):
        self.router = router
        with open(router.stderr_path, "ab") as stderr:
            router.process = subprocess.Popen(router.command(backends, access_log_file="-", **keys),
                                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
        eventually(router.is_listening, "the router listens", 10)


def test_standard_output_can_be_a_pipe_without_a_reader_for_a_while(standin, warmpath):
    router = warmpath(start=False)
    engine = standin("a")
    ours, theirs = os.pipe()
    Output(router, [engine], theirs, **QUIET)
    os.close(theirs)
    with router.connect() as connection:
        for count in range(1500):  # much more than a pipe and the router hold
            connection.send(request("POST", "/x", f"X-Request-Id: {count}", body=b"{}"))
            assert connection.read_response("POST").status == 200
    eventually(lambda: "its reader is too slow" in router.stderr(), "it is said")
    os.set_blocking(ours, False)
    text = b""

    def marker():
        nonlocal text
        router.get("/after", "X-Request-Id: after")
        try:
            text += os.read(ours, 1 << 20)
        except BlockingIOError:
            pass
        return b'"id":"after"' in text

    eventually(marker, "it goes on")
    lines = [json.loads(line) for line in text[: text.rindex(b"\n")].splitlines()]
    assert 100 < len(lines) < 1500 and lines[0]["id"] == "0"
    os.close(ours)


def test_a_terminal_gets_text_for_people(standin, warmpath):
    router = warmpath(start=False)
    engine = standin("a")
    ours, theirs = os.openpty()
    Output(router, [engine], theirs, **QUIET)
    os.close(theirs)
    ask(router, "X-Request-Id: for-people", max_tokens=2)
    text = b""

    def has_line():
        nonlocal text
        text += os.read(ours, 65536)
        return b"\n" in text

    eventually(has_line, "a line")
    line = text.decode().splitlines()[0]
    assert f"Z 200 ok {engine.url} test-model /v1/chat/completions prompt=7 " in line, line
    assert line.endswith(" id=for-people") and SECRET not in line
    os.close(ours)


def test_new_rules_hold_after_a_reload(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    engine = standin("a")
    text = "access_log:\n  format: {}\nbackends: [{}]\n"
    router = warmpath(config=text.format("json", engine.url), access_log_file=path, **QUIET)
    router.get("/x")
    logged(path, 1)
    router.write_config(text.format("text", engine.url))
    router.signal(signal.SIGHUP)

    def has_text():
        router.get("/x")
        return "Z 200 ok " in path.read_text()

    eventually(has_text, "lines of text")


# The log of the process.

def test_as_json_every_line_is_an_object(standin, warmpath):
    router = warmpath(standin("a"), f"http://127.0.0.1:{free_port()}", log_format="json", health_interval="50ms",
                      health_fall=1)
    eventually(lambda: ": down: " in router.stderr(), "it is said")
    for value in lines_of(router.stderr_path):
        assert list(value) == ["time", "level", "message"] and value["level"] in ("error", "warn", "info"), value


@pytest.mark.parametrize("way", ("garbage", "reset", "half", "refused"))
def test_a_broken_backend_does_not_flood_the_log(standin, warmpath, way):
    bad, good = standin("bad", start=way != "refused"), standin("good")
    ways = {"garbage": (b"this is no HTTP at all\r\n\r\n", RESET), "reset": (RESET,),
            "half": (SSE_HEAD, chunk(b"data: x\n\n"), RESET), "refused": ()}
    bad.respond("/x", *ways[way])
    router = warmpath(bad, good, policy="round_robin", health_eject_failures=2, health_eject_time="1ms",
                      health_eject_time_max="2ms", health_interval="20ms", health_fall=1)
    eventually(lambda: "listening on" in router.stderr(), "it has said all about its start")
    before = len(router.stderr().splitlines())
    for _ in range(300):
        with router.connect() as connection:
            connection.send(request("POST", "/x", body=b"{}"))
            try:
                connection.read_response("POST")
            except Ended:
                assert way == "half"
    lines = router.stderr().splitlines()[before:]
    assert len(lines) <= 6, lines


def test_a_flapping_backend_is_logged_a_few_times(standin, warmpath):
    engine = standin("a")
    router = warmpath(engine, standin("b"), health_interval="10ms", health_fall=1, health_rise=1)
    router.wait_state(engine, "up")
    for number in range(30):
        engine.health_status = 500 if number % 2 == 0 else 200
        router.wait_state(engine, "down" if number % 2 == 0 else "up")
    lines = [line for line in router.stderr().splitlines() if f"{engine.url}: up" in line or f"{engine.url}: down" in line]
    assert 3 <= len(lines) <= 6, lines


def test_a_log_that_stays_empty_because_nothing_is_counted_is_announced(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    router = warmpath(standin(), access_log_file=path, metrics_enabled=False, **QUIET)
    assert ask(router).status == 200
    assert "metrics.enabled is off" in router.stderr()
    assert lines_of(path) == []


def test_a_malformed_request_is_a_line_with_a_time(standin, warmpath, tmp_path):
    path = tmp_path / "access.log"
    router = warmpath(standin(), access_log_file=path, **QUIET)
    assert router.ask(b"nonsense\r\n\r\n").status == 400
    line = logged(path, 1)[0]
    assert (line["outcome"], line["status"], line["problem"]) == ("refused", 400, "malformed_request")
    told = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()
    assert abs(told - time.time()) < 60
