"""`warmpath engine`: simulated inference servers, in real time."""
import asyncio
import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import time

import client
import harness
import msgpack
import openai
import pytest
import zmq
from harness import eventually, within
from kv_engine import free_ports

PROFILES = pathlib.Path(__file__).parents[2] / "src" / "sim" / "engine" / "profiles.def"


class Fleet:
    """One `warmpath engine`, on ports of the kernel's choice unless told otherwise."""

    def __init__(self, binary, stderr_path, count=1, port=0, **flags):
        words = [str(binary), "engine", "--port", str(port), "--count", str(count)]
        for key, value in flags.items():
            words += [harness.flag(key), str(value)]
        self.stderr_path = stderr_path
        with open(stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                                            text=True)
        # It prints one line for all engines, or with port 0 a line for each.
        lines = [self.process.stdout.readline() for _ in range(1 if port else count)]
        self.ports = [int(re.match(r"http://127\.0\.0\.1:(\d+)[: ]", line)[1]) for line in lines]
        if port:
            self.ports = list(range(port, port + count))

    def url(self, index=0):
        return f"http://127.0.0.1:{self.ports[index]}"

    def connect(self, index=0):
        return client.Client(("127.0.0.1", self.ports[index]), within(20))

    def ask(self, data, index=0):
        with self.connect(index) as connection:
            connection.send(data)
            return connection.read_response(data.split(b" ", 1)[0].decode())

    def get(self, target, index=0):
        return self.ask(client.request("GET", target), index)

    def post(self, target, value, index=0):
        return self.ask(client.json_request(target, value), index)

    def metric(self, name, index=0):
        page = self.get("/metrics", index).body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name + "{"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def memory(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(within(10))
        words = self.stderr_path.read_text(errors="replace")
        self.process.stdout.close()
        assert not harness.SANITIZER.search(words), words
        assert code == 0, words


@pytest.fixture
def fleet(binary, tmp_path):
    fleets = []

    def make(count=1, **flags):
        fleets.append(Fleet(binary, tmp_path / f"engine-{len(fleets)}.stderr", count, **flags))
        return fleets[-1]

    yield make
    try:
        for one in fleets:
            one.stop()
    finally:
        for one in fleets:
            one.process.kill()


def prompt_ms(name, tokens):
    """A twin of the model's formula: one prompt of at most one step, alone on an idle engine."""
    text = PROFILES.read_text()
    row = re.search(rf'PROFILE\("{re.escape(name)}", \d+, \d+,\s*([^)]*)\)', text)[1]
    floor, token, sharpness, _, square, *_ = (float(word) for word in row.split(","))
    return (floor**sharpness + (token * tokens)**sharpness)**(1 / sharpness) + square * tokens**2


def words(tokens, seed=0):
    return "".join(f"{(i * 7919 + seed) % 1000:03d} " for i in range(tokens))


def completion(tokens, seed=0, output=5, **more):
    return {"prompt": words(tokens, seed), "max_tokens": output, **more}


class Stream:
    """A completion, read event by event."""

    def __init__(self, engines, body, index=0):
        began = time.monotonic()
        with engines.connect(index) as connection:
            connection.send(client.json_request("/v1/completions", {
                **body, "stream": True, "stream_options": {"include_usage": True}}))
            self.response = connection.read_response("POST")
        assert self.response.status == 200 and self.response.complete
        self.events = self.response.events()
        self.ttft_ms = (self.response.pieces[0][0] - began) * 1000
        self.whole_s = self.response.pieces[-1][0] - began
        self.usage = json.loads(self.events[-2])["usage"]

    @property
    def cached(self):
        return self.usage["prompt_tokens_details"]["cached_tokens"]


def test_the_first_token_comes_when_the_model_says_and_a_repeated_prompt_is_cached(fleet):
    engines = fleet(model="codellama-13b", speed=1)
    expected = prompt_ms("codellama-13b", 4000)
    times, repeats = [], []
    for seed in range(5):
        first = Stream(engines, completion(4000, seed))
        assert first.usage["prompt_tokens"] == 4000 and first.cached == 0
        times.append(first.ttft_ms)
        again = Stream(engines, completion(4000, seed))
        assert again.cached == 3984  # the last token of a prompt is always computed
        repeats.append(again.ttft_ms)
    print(f"expected {expected:.1f} ms, seen {[round(ms, 1) for ms in times]}, then {[round(ms, 1) for ms in repeats]}")
    assert min(times) >= expected - 0.5
    # A busy machine may delay one run, but not five in a row.
    assert min(times) <= within(expected * 1.05 + 3)
    assert min(repeats) < min(times) / 3


def test_tokens_come_one_by_one_and_as_fast_as_the_model_makes_them(fleet):
    engines = fleet(model="codellama-13b")
    stream = Stream(engines, completion(100, output=40))
    texts = [json.loads(event)["choices"][0]["text"] for event in stream.events[:-2]]
    assert len(texts) == 40 and all(len(text) == 4 for text in texts)
    assert stream.events[-1] == "[DONE]"
    assert [json.loads(event)["choices"][0]["finish_reason"] for event in stream.events[:-2]] == [None] * 39 + ["length"]
    took_ms = stream.ttft_ms + (stream.response.pieces[-1][0] - stream.response.pieces[0][0]) * 1000
    expected_ms = prompt_ms("codellama-13b", 100) + 39 * prompt_ms("codellama-13b", 1)
    assert expected_ms - 0.5 <= took_ms <= within(expected_ms * 1.2 + 1000)


def test_a_conversation_hits_its_earlier_responses(fleet):
    engines = fleet(speed=20)
    messages = [{"role": "system", "content": words(200)}, {"role": "user", "content": words(50, 1)}]
    before = 0
    for turn in range(4):
        response = engines.post("/v1/chat/completions", {"messages": messages, "max_tokens": 64}).json()
        usage = response["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        assert usage["completion_tokens"] == 64
        # All of the last turn, its response included, except for a partial block.
        assert cached >= before - 16 and (turn == 0) == (cached == 0)
        before = usage["total_tokens"]
        messages += [response["choices"][0]["message"] | {"tool_calls": None}, {"role": "user", "content": words(30, turn)}]


def test_salts_keep_tenants_apart(fleet):
    engines = fleet(speed=20, lora="tuned")
    assert Stream(engines, completion(200)).cached == 0
    assert Stream(engines, completion(200)).cached == 192
    assert Stream(engines, completion(200, cache_salt="a")).cached == 0
    assert Stream(engines, completion(200, cache_salt="a")).cached == 192
    assert Stream(engines, completion(200, model="tuned")).cached == 0


def test_the_openai_library_works_with_it(fleet):
    engines = fleet(model="llama-3.1-8b", speed=20, output=7)
    with openai.OpenAI(base_url=engines.url() + "/v1", api_key="x", max_retries=0) as library:
        assert [model.id for model in library.models.list()] == ["llama-3.1-8b"]
        messages = [{"role": "user", "content": "Hello"}]
        whole = library.chat.completions.create(model="llama-3.1-8b", messages=messages)
        assert whole.usage.completion_tokens == 7 and whole.choices[0].finish_reason == "stop"
        parts = list(library.chat.completions.create(model="llama-3.1-8b", messages=messages, stream=True,
                                                     stream_options={"include_usage": True}))
        assert parts[0].choices[0].delta.role == "assistant"
        text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
        assert text == whole.choices[0].message.content and len(text) == 28
        assert parts[-1].usage.completion_tokens == 7
        with pytest.raises(openai.NotFoundError):
            library.chat.completions.create(model="other", messages=messages)
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            library.completions.create(model="llama-3.1-8b", prompt=words(140000))


def test_a_client_that_leaves_frees_its_place(fleet):
    engines = fleet()
    connection = engines.connect()
    connection.send(client.json_request("/v1/completions", completion(100, output=5000, stream=True)))
    connection.read_head()
    eventually(lambda: engines.metric("vllm:num_requests_running") == 1, "it runs")
    connection.close()
    eventually(lambda: engines.metric("vllm:num_requests_running") == 0, "it is cancelled", 1)
    eventually(lambda: engines.metric("vllm:kv_cache_usage_perc") == 0, "its blocks are free")
    # Also one whose response has not begun.
    connection = engines.connect()
    connection.send(client.json_request("/v1/completions", completion(100, output=5000)))
    eventually(lambda: engines.metric("vllm:num_requests_running") == 1, "it runs")
    connection.close()
    eventually(lambda: engines.metric("vllm:num_requests_running") == 0, "it is cancelled", 1)
    assert engines.metric("vllm:generation_tokens_total") < 5000


def test_metrics_agree_with_what_clients_saw(fleet):
    engines = fleet(speed=10)
    for seed in (1, 1, 2):
        Stream(engines, completion(160, seed, output=10))
    eventually(lambda: engines.metric("vllm:request_success_total") == 3, "all are counted")
    assert engines.metric("vllm:prompt_tokens_total") == 480
    assert engines.metric("vllm:generation_tokens_total") == 30
    assert engines.metric("vllm:prefix_cache_queries_total") == 480
    assert engines.metric("vllm:prefix_cache_hits_total") == 144
    assert engines.metric("vllm:time_to_first_token_seconds_count") == 3
    assert engines.metric("vllm:inter_token_latency_seconds_count") == 27


def test_the_router_serves_and_scrapes_them(fleet, warmpath):
    engines = fleet(3, speed=5, threads=2)
    urls = [engines.url(index) for index in range(3)]
    router = warmpath(*urls, policy="warm", load_interval="100ms")
    body = {"model": "codellama-13b", "messages": [{"role": "user", "content": words(600)}], "max_tokens": 5}
    backends = set()
    for turn in range(4):
        response = router.post("/v1/chat/completions", body)
        assert response.status == 200
        backends.add(response.header("x-warmpath-backend"))
        assert (response.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 500) == (turn > 0)
    assert len(backends) == 1
    eventually(lambda: all(router.backend(url)["load"]["cache_tokens"] == 123120 for url in urls), "their size is read")


def test_errors_can_be_injected(fleet):
    engines = fleet(speed=100)
    assert engines.post("/sim/faults", {"error_rate": 0.3, "error_status": 503}).json()["error_rate"] == 0.3
    statuses = [engines.post("/v1/completions", completion(10)).status for _ in range(100)]
    assert 10 <= statuses.count(503) <= 60 and statuses.count(200) + statuses.count(503) == 100
    assert engines.get("/health").status == 200
    assert engines.ask(client.request("DELETE", "/sim/faults")).json()["error_rate"] == 0
    assert all(engines.post("/v1/completions", completion(10)).status == 200 for _ in range(20))
    refused = engines.post("/sim/faults", {"error_rate": "often"})
    assert refused.status == 400 and "error_rate" in refused.json()["error"]["message"]


def test_stalls_and_slowness_can_be_injected(fleet):
    engines = fleet(speed=10)
    engines.post("/sim/faults", {"stall_ms": 700})
    stream = Stream(engines, completion(10, output=10))
    assert stream.whole_s >= 0.69
    assert len(stream.events) == 12
    engines.post("/sim/faults", {"stall_ms": 0, "slow": 50})
    assert Stream(engines, completion(10, 1)).ttft_ms >= prompt_ms("codellama-13b", 10) * 5 - 1


def test_a_crash_refuses_for_its_time_and_loses_the_cache(fleet):
    # Outgoing connections cannot take these ports during the crash.
    engines = fleet(2, port=free_ports(2), speed=1)
    crash_s = min(3, within(1))  # long enough for the connection that is refused
    assert Stream(engines, completion(100)).cached == 0 and Stream(engines, completion(100)).cached == 96
    with engines.connect() as running:
        running.send(client.json_request("/v1/completions", completion(100, output=5000, stream=True)))
        running.read_head()
        began = time.monotonic()
        assert engines.post("/sim/faults", {"crash_s": crash_s}).status == 200
        with pytest.raises(client.Ended, match="reset"):
            while True:
                running.receive()
    with pytest.raises(ConnectionRefusedError):
        engines.connect()
    assert engines.get("/health", 1).status == 200  # its neighbour

    def is_back():
        try:
            return engines.get("/health").status == 200
        except ConnectionRefusedError:
            return False

    eventually(is_back, "it is back", 10)
    assert time.monotonic() - began >= crash_s - 0.01
    assert engines.metric("vllm:generation_tokens_total") == 0
    assert Stream(engines, completion(100)).cached == 0


def test_a_reset_and_a_flush_reach_all_engines(fleet):
    engines = fleet(4, speed=20, threads=2)

    def tell_all(order):
        assert engines.post("/sim/faults/all", order, 1).status == 200
        for index in range(4):
            # Some thread may be in the middle of the reset.
            eventually(lambda at=index: slowness(at) == order["slow"], "all have heard it")

    def slowness(index):
        with contextlib.suppress(client.Ended, ConnectionError):
            return engines.get("/sim/faults", index).json()["slow"]

    for index in range(4):
        Stream(engines, completion(100), index)
    with engines.connect(3) as running:
        running.send(client.json_request("/v1/completions", completion(100, output=9000, stream=True)))
        running.read_head()
        tell_all({"reset": True, "slow": 2})
        with pytest.raises(client.Ended, match="reset"):
            while True:
                running.receive()
    assert [Stream(engines, completion(100), index).cached for index in range(4)] == [96] * 4
    tell_all({"flush": True, "slow": 3})
    assert [Stream(engines, completion(100), index).cached for index in range(4)] == [0] * 4
    assert engines.post("/reset_prefix_cache", {}, 0).status == 200
    assert Stream(engines, completion(100), 0).cached == 0


class Subscriber:
    """Receives one engine's KV events."""

    def __init__(self, context, port):
        self.socket = context.socket(zmq.SUB)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(within(5) * 1000)
        self.socket.subscribe("")
        self.socket.connect(f"tcp://127.0.0.1:{port}")

    def next(self, wanted):
        """The next event of that kind; others are skipped."""
        while True:
            _, _, payload = self.socket.recv_multipart()
            for event in msgpack.unpackb(payload)[1]:
                if event["type"] == wanted:
                    return event


def test_kv_events_report_the_blocks_of_the_cache(fleet):
    port = harness.free_port()
    engines = fleet(1, speed=20, kv_events_port=port, kv_tokens=1600, block_tokens=16)
    with zmq.Context() as context:
        subscriber = Subscriber(context, port)

        def subscription_is_known():
            # An unchanged cache publishes nothing, so flush until an event arrives.
            engines.post("/reset_prefix_cache", {})
            return subscriber.socket.poll(100)

        eventually(subscription_is_known, "the subscription is known")
        ids = list(range(1000, 1040))
        engines.post("/v1/completions", {"prompt": ids, "max_tokens": 4})
        stored = subscriber.next("BlockStored")
        assert stored["token_ids"] == ids[:32] and stored["block_size"] == 16
        assert len(stored["block_hashes"]) == 2 and stored["parent_block_hash"] is None
        # A continuation names the block before it.
        engines.post("/v1/completions", {"prompt": ids + ids, "max_tokens": 4})
        more = subscriber.next("BlockStored")
        assert more["parent_block_hash"] == stored["block_hashes"][1]
        assert more["token_ids"] == (ids + ids)[32:80]
        # Other blocks replace them, the last ones first.
        for seed in range(3):
            engines.post("/v1/completions", {"prompt": [seed] * 700, "max_tokens": 4})
        removed = subscriber.next("BlockRemoved")["block_hashes"]
        assert removed[0] in stored["block_hashes"] + more["block_hashes"]
        engines.post("/sim/faults", {"flush": True})
        assert subscriber.next("AllBlocksCleared")
        subscriber.socket.close()


def test_a_port_in_use_is_named(binary):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        run = subprocess.run([binary, "engine", "--port", str(port)], capture_output=True, text=True, timeout=within(10),
                             check=False)
    assert run.returncode == 1
    assert run.stderr == f"warmpath engine: cannot listen on 127.0.0.1:{port}: Address already in use\n"


async def read_stream(port, seed, tokens):
    """Counts the events of one stream and notes its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(client.json_request("/v1/completions", completion(64, seed, output=tokens, stream=True)))
    text = await reader.readuntil(b"0\r\n\r\n")
    writer.close()
    return text.count(b"data: "), text.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), time.monotonic()


@pytest.mark.timeout(180)
def test_two_hundred_engines_serve_a_thousand_streams(fleet):
    tokens = 30
    engines = fleet(200, model="qwen2.5-32b", speed=0.2, kv_tokens=65536)
    cpu = engines.cpu_seconds()

    async def run():
        return await asyncio.gather(*(read_stream(engines.ports[i % 200], i, tokens) for i in range(1000)))

    began = time.monotonic()
    ends = asyncio.run(run())
    took = max(when for _, _, when in ends) - began
    cpu = engines.cpu_seconds() - cpu
    assert {(events, is_whole) for events, is_whole, _ in ends} == {(tokens + 1, True)}
    late_ms = (sum(engines.metric("warmpath:engine_late_seconds_total", index) for index in range(200)) * 1000
               / sum(engines.metric("warmpath:engine_steps_total", index) for index in range(200)))
    print(f"{took:.1f} s, {cpu:.2f} s of CPU, {engines.memory() >> 20} MiB, steps seen {late_ms:.2f} ms late")
    # 30 steps of 18.6 ms at a fifth of the speed.
    assert took >= tokens * 18.6 * 5 / 1000
    assert took < within(tokens * 18.6 * 5 / 1000 + 10)
    if harness.slow_factor == 1:
        assert engines.memory() < 300 << 20
