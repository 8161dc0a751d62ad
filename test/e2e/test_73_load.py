"""`warmpath load` against stand-ins: its requests, its figures, and its failures."""
import json
import re
import signal
import subprocess
import time

import pytest
from harness import SANITIZER, eventually, free_port, within
from standin import CLOSE, LAST_CHUNK, RESET, SSE_HEAD, STALL, chunk, event, head, json_response

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def token(text, path=CHAT):
    piece = {"delta": {"content": text}} if path == CHAT else {"text": text}
    return chunk(event({"choices": [{"index": 0, **piece}]}))


def usage(prompt=100, output=3, cached=None):
    details = None if cached is None else {"cached_tokens": cached}
    return chunk(event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output,
                                                 "prompt_tokens_details": details}}))


END = chunk(event(b"[DONE]")) + LAST_CHUNK


class Load:
    """One run, finished unless told otherwise."""

    def __init__(self, binary, directory, url, *words, **flags):
        self.json_path = directory / f"load-{time.monotonic_ns()}.json"
        command = [str(binary), "load", "--url", url, "--json", str(self.json_path), *words]
        for key, value in flags.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def finish(self, status=0, seconds=25):
        try:
            self.out, self.err = self.process.communicate(timeout=within(seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("it did not end") from None
        assert not SANITIZER.search(self.err), self.err
        assert self.process.returncode == status, self.out + self.err
        return self

    @property
    def json(self):
        return json.loads(self.json_path.read_text())


@pytest.fixture
def load(binary, tmp_path):
    runs = []

    def make(url, *words, wait=True, status=0, **flags):
        run = Load(binary, tmp_path, getattr(url, "url", url), *words, **flags)
        runs.append(run)
        return run.finish(status) if wait else run

    yield make
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def prompts(engine, path=CHAT):
    return [request.json() for request in list(engine.requests) if request.path == path]


# Measurements.


def test_the_first_token_is_timed_from_when_the_request_was_due(standin, load):
    engine = standin()
    role = chunk(event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
    # Neither the head nor the role is a token.
    engine.respond(CHAT, SSE_HEAD, role, 0.3, token("a"), 0.05, token("b"), 0.05, token("c"), 0.2, usage(), END)
    result = load(engine, workload="sharing", rate=20, requests=20).json
    # Never early by more than the clock's grain; late by the delays of a busy machine.
    assert 299 <= result["ttft_ms"]["p50"] < 300 + within(60)
    assert 45 <= result["itl_ms"]["p50"] < 50 + within(30)
    assert 45 <= result["tpot_ms"]["p50"] < 50 + within(30)
    assert 395 <= result["e2e_ms"]["p50"] < 400 + within(80)
    assert result["requests"] == {"sent": 20, "ended": 20, "counted": 20, "succeeded": 20, "failed": 0, "cut": 0}


def test_a_stall_is_charged_to_all_that_were_due_meanwhile(standin, load):
    """The server stalls for 1 s; a loop that waits for responses would see only one slow request.
    """
    engine = standin()
    opened = []

    def steps(request):
        opened.append(request.arrived_at)
        since = request.arrived_at - opened[0]
        return [1 - since if since < 1 else 0, SSE_HEAD, token("a"), usage(output=1), END]

    engine.respond(CHAT, steps)
    result = load(engine, workload="sharing", rate=100, requests=200, connections_max=200).json
    percentiles = result["ttft_percentiles_ms"]
    assert result["ttft_ms"]["max"] > 750
    # Requests due in the stall wait for its end: about half of all, evenly from 0 to 1 s.
    assert sum(value > 250 for value in percentiles) > 25
    assert percentiles[10] < within(100)


def test_waiting_for_a_connection_is_charged_and_reported_as_doubt(standin, load):
    engine = standin()
    engine.respond(CHAT, 0.05, SSE_HEAD, token("a"), usage(), END)
    run = load(engine, workload="sharing", rate=80, requests=40, connections_max=1)
    assert "DO NOT TRUST THESE TIMES" in run.out and "--connections-max" in run.out
    assert run.json["ttft_ms"]["max"] > 1000
    assert run.json["late_ms"]["max"] > 1000
    assert engine.open_max == 1


def test_cached_tokens_and_backends_are_reported(standin, warmpath, load):
    engines = [standin("a"), standin("b")]
    for engine in engines:
        engine.respond(CHAT, SSE_HEAD, token("a"), usage(prompt=100, output=2, cached=75), END)
    router = warmpath(*engines, policy="round_robin")
    result = load(router, workload="sharing", rate=50, requests=30, model="test-model").json
    assert result["hit_rate"] == 0.75
    assert {backend["name"] for backend in result["backends"]} == {engine.url for engine in engines}
    assert sum(backend["requests"] for backend in result["backends"]) == 30
    assert result["balance"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("warm_up", ["0.5", "5e-1", "20", "2e1"])
def test_requests_of_the_warm_up_do_not_count(standin, load, warm_up):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), usage(), END)
    for number in range(5):
        engine.respond_once(CHAT, json_response(503, {}))
    result = load(engine, workload="sharing", rate=50, requests=40, warm_up=warm_up).json
    assert result["requests"]["counted"] == 20 and result["requests"]["ended"] == 40
    assert result["requests"]["failed"] == 0


def test_whole_responses_have_no_first_token(standin, load):
    engine = standin()
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hey"}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    engine.respond(CHAT, 0.1, json_response(200, body))
    run = load(engine, "--no-stream", workload="sharing", rate=20, requests=10)
    assert run.json["ttft_ms"] is None
    assert 99 <= run.json["e2e_ms"]["p50"] < 100 + within(60)
    assert "first token" not in run.out
    assert all("stream" not in body for body in prompts(engine))


# Requests.


def test_users_wait_for_their_own_response_and_connections_are_reused(standin, load):
    engine = standin()
    engine.respond(CHAT, 0.05, SSE_HEAD, token("a"), usage(), END)
    result = load(engine, workload="sharing", users=4, duration="4s").json
    assert engine.open_max <= 4
    assert result["generator"]["in_flight_max"] <= 4
    assert result["requests"]["succeeded"] > 6
    assert engine.accepted <= 5  # and one that asked for the models
    assert 3 < result["elapsed_s"] < within(6)


def test_equal_hash_ids_are_equal_text(standin, load, tmp_path):
    engine = standin()
    engine.respond(COMPLETIONS, SSE_HEAD, token("a", COMPLETIONS), usage(), END)
    trace = tmp_path / "trace.jsonl"
    ids = [[1, 2, 3, 4], [1, 2, 5, 6], [1, 2, 3, 7], [9, 2, 3, 4]]
    trace.write_text("".join(json.dumps({"timestamp": 10 * number, "input_length": 2048, "output_length": 5,
                                         "hash_ids": row}) + "\n" for number, row in enumerate(ids)))
    load(engine, trace=trace, api="completions")
    texts = [body["prompt"] for body in prompts(engine, COMPLETIONS)]
    assert [len(text) for text in texts] == [4 * 2048] * 4

    def shared_blocks(a, b):
        equal = next((at for at in range(len(a)) if a[at] != b[at]), len(a))
        assert equal % 2048 < 100, "they part within a few letters of where the ids do"
        return equal // 2048

    assert [shared_blocks(texts[0], text) for text in texts[1:]] == [2, 3, 0]


def test_a_trace_comes_at_its_own_times_or_at_a_rate(standin, load, tmp_path):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), usage(), END)
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"timestamp": 250 * number, "input_length": 20, "output_length": 5,
                                         "hash_ids": [number]}) + "\n" for number in range(5)))
    log = tmp_path / "log.jsonl"
    load(engine, trace=trace, log=log)
    lines = sorted(lines_of(log), key=lambda line: line["number"])
    assert [line["due_ms"] for line in lines] == [0, 250, 500, 750, 1000]
    assert all(line["due_ms"] <= line["sent_ms"] < line["due_ms"] + within(100) for line in lines), lines
    assert 0.5 < engine.requests[-1].arrived_at - engine.requests[0].arrived_at < within(2)
    assert all(body["max_tokens"] == 5 for body in prompts(engine))
    engine.requests.clear()
    # A trace with 4/s becomes 20/s by five copies side by side, each with its own text.
    assert load(engine, trace=trace, rate=20, log=log).json["requests"]["succeeded"] == 25
    assert max(line["due_ms"] for line in lines_of(log)) < 1250
    assert engine.requests[-1].arrived_at - engine.requests[0].arrived_at < within(2)
    assert len({request.body for request in engine.requests}) == 25


def test_a_conversation_repeats_the_real_responses(standin, load):
    engine = standin()
    said = {}

    def steps(request):
        text = f'so "{len(said)}"\n'
        said[json.dumps(request.json()["messages"])] = text
        return [SSE_HEAD, token(text), usage(), END]

    engine.respond(CHAT, steps)
    load(engine, "--sessions", workload="agent", users=24, duration="4s")
    later = [body for body in prompts(engine) if len(body["messages"]) > 2]
    assert len(later) >= 3
    for body in later:
        messages = body["messages"]
        assert [message["role"] for message in messages[:3]] == ["system", "user", "assistant"]
        assert messages[-1]["role"] == "user"
        # Each turn is the one before, its response, and new text.
        assert said[json.dumps(messages[:-2])] == messages[-2]["content"]
    assert all(re.fullmatch(r"session-\d+", body["user"]) for body in later)
    assert len({body["user"] for body in prompts(engine)}) >= 3


def test_the_request_follows_the_flags(standin, load):
    engine = standin(models=["first", "second"])
    engine.respond("/base" + COMPLETIONS, SSE_HEAD, token("a", COMPLETIONS), usage(), END)
    engine.respond("/base/v1/models", json_response(200, {"object": "list", "data": [{"id": "other"}]}))
    load(engine.url + "/base/v1", "--header", "x-a: 1, 2", "--header", "x-b: c", api="completions",
         api_key="secret", workload="unique", rate=50, requests=2)
    request = [request for request in engine.requests if request.method == "POST"][0]
    assert request.header("x-a") == "1, 2" and request.header("x-b") == "c"
    assert request.header("authorization") == "Bearer secret"
    body = request.json()
    assert body["model"] == "other"
    assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
    assert body["ignore_eos"] is True and body["max_tokens"] >= 1


def test_equal_seeds_give_equal_requests(standin, load):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), usage(), END)
    runs = []
    for seed in (1, 1, 2):
        engine.requests.clear()
        load(engine, workload="stress", rate=50, requests=10, seed=seed)
        runs.append(sorted(request.body for request in engine.requests))
    assert runs[0] == runs[1] != runs[2]


# How it fails.


def test_errors_are_counted_by_kind(standin, load):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), usage(), END)
    broken = chunk(event({"error": {"message": "out of memory"}}))
    for steps in ([json_response(503, {})], [json_response(503, {})], [json_response(429, {})],
                  [SSE_HEAD, token("a"), RESET], [SSE_HEAD, token("a"), CLOSE],
                  [SSE_HEAD, token("a"), LAST_CHUNK], [b"what?\r\n\r\n", CLOSE],
                  [SSE_HEAD, token("a"), broken, END], [SSE_HEAD, token("a"), STALL]):
        engine.respond_once(CHAT, *steps)
    run = load(engine, workload="sharing", rate=20, requests=20, timeout=f"{min(3000, within(1000)):.0f}ms")
    errors = {kind: count for kind, count in run.json["errors"].items() if count}
    assert errors == {"status": 3, "reset": 1, "incomplete": 2, "malformed": 1, "broken": 1, "timeout": 1}
    assert run.json["statuses"] == {"429": 1, "503": 2}
    assert run.json["requests"]["succeeded"] == 11
    assert "429: 1; 503: 2" in run.out


def test_a_server_that_goes_away_is_refused_and_comes_back(standin, load):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), usage(), END)
    run = load(engine, workload="sharing", rate=40, requests=100, wait=False)
    eventually(lambda: len(prompts(engine)) >= 20, "twenty requests")
    engine.stop()
    time.sleep(0.7)  # about 28 requests are due meanwhile, which the stand-in cannot see
    engine.start()
    result = run.finish().json
    assert result["errors"]["refused"] > 5
    assert result["requests"]["succeeded"] > 30
    assert result["requests"]["failed"] + result["requests"]["succeeded"] == 100


def test_a_server_that_does_not_exist_is_a_failure(load):
    run = load(f"http://127.0.0.1:{free_port()}", workload="sharing", rate=20, requests=10, status=1)
    assert "Connection refused" in run.err


def test_a_server_that_dies_for_good_is_a_failure(standin, load):
    """It responded to the request for its models, and then to nothing."""
    engine = standin()
    engine.respond(CHAT, RESET)
    run = load(engine, workload="sharing", rate=50, requests=10, status=1)
    assert run.json["errors"]["reset"] == 10
    assert "no request succeeded" in run.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_early_with_the_figures_so_far(standin, load, number):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), usage(), END)
    run = load(engine, workload="sharing", rate=20, duration="60s", wait=False)
    eventually(lambda: len(engine.requests) >= 10, "ten requests")
    engine.respond(CHAT, STALL)
    before = len(engine.requests)
    eventually(lambda: len(engine.requests) >= before + 2, "two that hang")
    run.process.send_signal(number)
    run.finish(seconds=5)
    assert "Interrupted" in run.out
    assert run.json["was_interrupted"] is True
    assert run.json["requests"]["succeeded"] >= 9 and run.json["requests"]["cut"] >= 1
    assert run.json["requests"]["failed"] == 0


def test_an_idle_connection_that_the_server_closes_is_not_an_error(standin, load):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), usage(), END)
    run = load(engine, workload="sharing", rate=60, requests=120, wait=False)
    for number in range(1, 6):
        eventually(lambda number=number: len(engine.requests) >= 18 * number, "eighteen more requests")
        engine.close_idle_connections()
    result = run.finish().json
    assert result["requests"]["failed"] == 0
    assert engine.accepted > 2


def test_the_page_is_self_contained_and_progress_without_a_terminal_is_lines(standin, load, tmp_path):
    engine = standin()
    engine.respond(CHAT, SSE_HEAD, token("a"), 0.02, token("b"), usage(), END)
    page = tmp_path / "page.html"
    run = load(engine, workload="sharing", rate=10, requests=60, html=page, label="a <test>")
    text = page.read_text()
    assert "a &lt;test&gt;" in text and "<svg" in text
    assert re.search(r"^\d+/60  \d+ in flight  [\d.]+/s  first token [\d.]+ ms  0 failed$", run.err, re.M)
    assert load(engine, "--quiet", workload="sharing", rate=20, requests=5).err == ""
