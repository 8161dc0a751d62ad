"""Caching engines as processes, and the load that tests put on a router in front of them."""
import asyncio
import collections
import json
import pathlib
import random
import subprocess
import sys
import time
import urllib.parse

import client
import harness

PROGRAM = pathlib.Path(__file__).with_name("engine.py")


class CachingEngine:
    """One engine of a process, by its URL."""

    def __init__(self, name, port, host):
        self.name = name
        self.port = port
        self.host = host
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, data):
        with client.Client(("127.0.0.1", self.port), harness.within(10)) as connection:
            connection.send(data)
            return connection.read_response(data.split(b" ", 1)[0].decode())

    def post(self, target, value, *lines):
        return self.ask(client.json_request(target, value, *lines))

    def counters(self):
        return self.ask(client.request("GET", "/_counters")).json()

    def is_idle(self):
        counters = self.counters()
        return counters["running"] == counters["waiting"] == 0 and counters["free_blocks"] == counters["all_blocks"]

    def log(self):
        return self.ask(client.request("GET", "/_log")).json()

    def flush(self):
        assert self.ask(client.request("POST", "/_flush", body=b"")).status == 200


class EngineHost:
    """A process with some engines in it.  It ends with its input, so it never outlives the test."""

    def __init__(self, names, **options):
        self.options = options
        self.engines = [CachingEngine(name, harness.free_port(), self) for name in names]
        self.process = None
        self.start()

    def start(self):
        """Starts again after a kill: the same ports, and empty caches."""
        rows = [json.dumps({"name": engine.name, "port": engine.port, **self.options}) for engine in self.engines]
        self.process = subprocess.Popen([sys.executable, str(PROGRAM), "--lifetime", str(harness.within(120)), *rows],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line.startswith(b"ready"), f"the engines said {line!r}"

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def check(self):
        """Checks the invariants after every test."""
        for engine in self.engines if self.process else []:
            harness.eventually(engine.is_idle, lambda: f"{engine.name} is idle: {engine.counters()}")
            assert engine.counters()["misuse"] == [], f"{engine.name} received what is not HTTP/1.1"


class Result:
    """The result of one request."""

    def __init__(self, ask, number):
        self.ask = ask
        self.id = f"drive-{number}"
        self.begun_at = time.monotonic()
        self.status = None
        self.error = None  # the reason if the response is incomplete
        self.backend = None
        self.decision = None
        self.first_s = None  # to the first data
        self.total_s = None
        self.text = ""
        self.prompt_tokens = None  # from the response, or later from the engine's log
        self.cached_tokens = None

    @property
    def is_good(self):
        return self.status == 200 and self.error is None

    @property
    def is_hit(self):
        """Whether its whole shared part was cached."""
        return self.cached_tokens is not None and self.cached_tokens >= self.ask.shared_cached

    def note_usage(self, usage):
        self.prompt_tokens = usage["prompt_tokens"]
        self.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")

    def __repr__(self):
        return f"<{self.id} {self.ask.group} {self.status} {self.error} {self.backend} cached {self.cached_tokens}>"


class Lane:
    """One connection with one request on it at a time."""

    def __init__(self, url, lines):
        self.address = urllib.parse.urlsplit(url)
        self.lines = lines
        self.reader = self.writer = None

    async def ask(self, result):
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection(
                    self.address.hostname, self.address.port, limit=1 << 20)
            self.writer.write(client.request(
                "POST", result.ask.path, "Content-Type: application/json", f"X-Request-Id: {result.id}", *self.lines,
                body=result.ask.encode()))
            await self.read(result)
        except (OSError, EOFError, client.Ended) as error:
            result.error = repr(error)
        result.total_s = time.monotonic() - result.begun_at
        if result.error or result.status != 200:
            self.close()

    async def read(self, result):
        response = client.Response(await self.reader.readuntil(b"\r\n\r\n"))
        result.status = response.status
        result.backend = response.header("x-warmpath-backend")
        result.decision = response.header("x-warmpath-decision")
        length = response.header("content-length")
        if length is None:
            await self.read_events(result)
            return
        body = await self.reader.readexactly(int(length))
        result.first_s = time.monotonic() - result.begun_at
        if result.status == 200:
            value = json.loads(body)
            result.text = result.ask.text_of(value)
            result.note_usage(value["usage"])
        else:
            result.error = body[:200].decode(errors="replace")

    async def read_events(self, result):
        parts = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append((await self.reader.readexactly(size + 2))[:-2])
            if result.first_s is None:
                result.first_s = time.monotonic() - result.begun_at
        await self.reader.readexactly(2)
        events = client.sse_events(b"".join(parts))
        if not events or events[-1] != "[DONE]":
            result.error = f"the stream ended with {events[-1:]}"
            return
        for data in map(json.loads, events[:-1]):
            if "error" in data:
                result.error = str(data["error"])
            elif data["choices"]:
                choice = data["choices"][0]
                result.text += choice["delta"].get("content", "") if "delta" in choice else choice["text"]
            if data.get("usage"):
                result.note_usage(data["usage"])

    def close(self):
        if self.writer:
            self.writer.close()
            self.reader = self.writer = None


async def run_lanes(url, workload, lanes, think_s, lines, on_result):
    queue = iter(workload)
    results = []

    async def run_conversation(lane, conversation, rng):
        response = None
        while True:
            try:
                ask = conversation.send(response)
            except StopIteration:
                return
            if think_s and response is not None:
                await asyncio.sleep(rng.uniform(*think_s))
            result = Result(ask, len(results))
            results.append(result)
            await lane.ask(result)
            if on_result:
                on_result(results)
            if not result.is_good:
                return
            response = result.text

    async def run_lane(number):
        lane, rng = Lane(url, lines), random.Random(number)
        if think_s:
            await asyncio.sleep(rng.uniform(0, think_s[1]))
        for conversation in queue:
            await run_conversation(lane, conversation, rng)
            if think_s:
                await asyncio.sleep(rng.uniform(*think_s))
        lane.close()

    await asyncio.gather(*(run_lane(number) for number in range(lanes)))
    return results


def drive(url, workload, lanes, think_s=None, lines=(), on_result=None):
    """Sends a workload over some connections and returns the results in the order of requests.

    Each connection waits for its response before the next request, and thinks in between if asked
    to. on_result(results so far) is called after each response.
    """
    return asyncio.run(run_lanes(url, workload, lanes, think_s, lines, on_result))


class Account:
    """The figures of a run, by the engines' own logs."""

    def __init__(self, results, engines):
        self.results = results
        rows = {}
        self.requests = collections.Counter({engine.url: 0 for engine in engines})
        self.prompt_tokens = collections.Counter({engine.url: 0 for engine in engines})
        self.computed_tokens = collections.Counter({engine.url: 0 for engine in engines})
        for engine in engines:
            for row in engine.log():
                rows[row["id"], engine.url] = row
        for result in results:
            row = rows.get((result.id, result.backend))
            if row:
                result.prompt_tokens, result.cached_tokens = row["prompt_tokens"], row["cached_tokens"]
            if result.is_good:
                self.requests[result.backend] += 1
                self.prompt_tokens[result.backend] += result.prompt_tokens
                self.computed_tokens[result.backend] += result.prompt_tokens - result.cached_tokens

    @property
    def failures(self):
        return [result for result in self.results if not result.is_good]

    @property
    def hit_rate(self):
        """Cached tokens over all tokens."""
        return 1 - self.computed_tokens.total() / self.prompt_tokens.total()

    def hits(self, results=None):
        """Of the requests with a shared part, the share whose shared part was cached completely."""
        asked = [result for result in (results or self.results) if result.ask.shared]
        return sum(result.is_hit for result in asked) / len(asked)

    def repeats(self, results=None):
        """The published measure of a hit: sent to the backend of the group's previous request."""
        last, same, count = {}, 0, 0
        for result in results or self.results:
            if result.ask.shared:
                same += last.get(result.ask.group) == result.backend
                count += 1
                last[result.ask.group] = result.backend
        return same / count

    @staticmethod
    def peak(counter):
        """The load of the busiest backend, as a multiple of the mean."""
        return max(counter.values()) * len(counter) / counter.total()

    def quantile(self, share):
        times = sorted(result.first_s for result in self.results if result.is_good)
        return times[min(len(times) - 1, int(len(times) * share))]

    def __repr__(self):
        span = max(r.begun_at + r.total_s for r in self.results) - self.results[0].begun_at
        return (f"{len(self.results)} requests in {span:.1f} s, {len(self.failures)} failed; "
                f"tokens cached {self.hit_rate:.1%}, requests hit {self.hits():.1%}, "
                f"same backend {self.repeats():.1%}; "
                f"busiest of mean: requests {self.peak(self.requests):.2f}, "
                f"prompt tokens {self.peak(self.prompt_tokens):.2f}, "
                f"computed tokens {self.peak(self.computed_tokens):.2f}; "
                f"first data p50 {self.quantile(0.5) * 1000:.0f} ms, p99 {self.quantile(0.99) * 1000:.0f} ms")
