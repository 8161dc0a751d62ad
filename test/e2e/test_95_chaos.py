"""Engines die and come back at random under a crowd of streams.

Invariants: a request fails only after its response began, or when two engines died under it; a cut
stream is seen as cut, and happens only when its engine was killed; at the end nothing is in flight,
and memory and descriptors are as before.
"""
import asyncio
import collections
import json
import random
import time

import pytest
from client import Response, chat, json_request, sse_events
from harness import EngineProcess, eventually, is_sanitized, within

STREAMS = 200
MEMORY_TOLERANCE = 8_000_000  # bytes over the baseline: allocator slack; sanitizers keep far more
KEYS = {"policy": "least_requests", "workers": 2, "health_interval": "200ms", "health_timeout": "1s",
        "health_fall": 2, "health_rise": 1, "health_eject_time": "300ms", "health_eject_time_max": "1s",
        "retry_attempts": 4, "retry_budget_percent": 100, "retry_budget_min": 1_000_000,
        "timeouts_backend_keepalive": "1s"}


class Crowd:
    """Clients that send requests until they are stopped."""

    def __init__(self, router, seed):
        self.router = router
        self.rng = random.Random(seed)
        self.stopping = False
        self.counts = collections.Counter()
        self.failures = []
        self.cut = []  # (engine, begun, ended)
        self.lost = []  # (begun, ended) of requests that got no response from any engine

    async def run(self, seconds, meanwhile):
        clients = [asyncio.ensure_future(self.client(number)) for number in range(STREAMS)]
        await meanwhile(seconds)
        self.stopping = True
        await asyncio.wait_for(asyncio.gather(*clients), within(60))

    async def client(self, number):
        rng = random.Random(self.rng.random())
        await asyncio.sleep(rng.uniform(0, 0.5))
        link = None
        while not self.stopping:
            if link is None:
                link = await asyncio.open_connection(*self.router.address)
            keep = await asyncio.wait_for(self.exchange(rng, *link), within(30))
            if not keep:
                link[1].close()
                link = None
        if link:
            link[1].close()

    async def exchange(self, rng, reader, writer):
        """One request; true when the connection can be used again."""
        begun = time.monotonic()
        count, streamed = rng.randrange(2, 20), rng.random() < 0.8
        writer.write(json_request(
            "/v1/chat/completions", chat(stream=streamed, events=count),
            f"X-Standin-Delay: {rng.uniform(0, 0.3):.3f}", f"X-Standin-Gap: {rng.uniform(0.03, 0.1):.3f}"))
        leaves_after = rng.uniform(0, 1) if rng.random() < 0.1 else None
        try:
            work = self.read_response(reader)
            response, body, complete = await (asyncio.wait_for(work, leaves_after) if leaves_after else work)
        except asyncio.TimeoutError:
            self.counts["left"] += 1
            writer.transport.abort()
            return False
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.failures.append(f"no response: {error!r} after {time.monotonic() - begun:.2f} s")
            return False
        self.judge(response, body, complete, count, streamed, begun)
        return complete

    @staticmethod
    async def read_response(reader):
        response = Response(await reader.readuntil(b"\r\n\r\n"))
        body = b""
        try:
            if response.all("content-length"):
                body = await reader.readexactly(int(response.header("content-length")))
                return response, body, True
            while size := int(await reader.readuntil(b"\r\n"), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
            return response, body, True
        except (asyncio.IncompleteReadError, ConnectionError):
            return response, body, False

    def judge(self, response, body, complete, count, streamed, begun):
        if response.status == 502:
            self.lost.append((begun, time.monotonic()))
            return
        if response.status != 200:
            self.failures.append(f"{response.status} {body!r} after {time.monotonic() - begun:.2f} s")
            return
        if not streamed:
            self.counts["whole" if complete else "cut"] += 1
            if complete:
                text = json.loads(body)["choices"][0]["message"]["content"]
                self.check_words(text.split(), count)
            return
        events = sse_events(body)
        words = [json.loads(data)["choices"][0]["delta"]["content"].strip() for data in events
                 if data != "[DONE]" and '"error"' not in data]
        if complete:
            self.counts["streamed"] += 1
            if events[-1] != "[DONE]" or '"error"' in body.decode():
                self.failures.append(f"a stream that claims to be complete: {events[-2:]}")
            self.check_words(words, count)
            return
        self.counts["cut"] += 1
        self.check_words(words, len(words))
        if "[DONE]" not in events and "error" not in json.loads(events[-1]):
            self.failures.append(f"a cut stream without its error event: {events[-2:]}")
        self.cut.append((response.header("x-warmpath-backend"), begun, time.monotonic()))

    def check_words(self, words, count):
        engine = words[0].split("-")[0] if words else ""
        if words != [f"{engine}-{number}" for number in range(count)]:
            self.failures.append(f"{count} words expected, got {words}")


class Reaper:
    """Kills at most two of the engines at a time, and brings them back."""

    def __init__(self, engines, seed):
        self.engines = engines
        self.rng = random.Random(seed)
        self.kills = []
        self.away = set()  # engines that were killed and are not ready again

    async def reap(self, seconds, is_enough):
        """For that time, and longer on a slow machine where less has happened by then."""
        until = time.monotonic() + seconds
        revivals = []
        while (now := time.monotonic()) < until or (not is_enough() and now < until + within(60)):
            await asyncio.sleep(self.rng.uniform(0.2, 0.8))
            if len(self.away) < 2:
                victim = self.rng.choice([engine for engine in self.engines if engine not in self.away])
                self.away.add(victim)
                self.kills.append((victim.url, time.monotonic()))
                victim.kill()
                revivals.append(asyncio.ensure_future(self.revive(victim)))
        await asyncio.gather(*revivals)

    async def revive(self, engine):
        await asyncio.sleep(self.rng.uniform(0.3, 1.5))
        await asyncio.get_running_loop().run_in_executor(None, engine.start)
        self.away.remove(engine)

    def kill_count(self, begun, ended):
        return sum(begun <= at <= ended + 0.1 for _, at in self.kills)

    def killed(self, url, begun, ended):
        return any(name == url and begun <= at <= ended + 0.1 for name, at in self.kills)


async def peace(seconds):
    await asyncio.sleep(seconds)


@pytest.fixture
def fleet():
    engines = [EngineProcess(name) for name in ("a", "b", "c", "d")]
    try:
        for engine in engines:
            engine.start()
        yield engines
    finally:
        for engine in engines:
            engine.kill()


@pytest.mark.timeout(600)
def test_killed_engines_break_only_their_own_streams(fleet, warmpath, request, record_property):
    router = warmpath(*fleet, **KEYS)
    seconds = request.config.getoption("--chaos-seconds")

    calm = Crowd(router, 1)
    asyncio.run(calm.run(2, peace))
    assert calm.failures == [] and calm.cut == [] and calm.lost == []
    eventually(lambda: router.in_flight() == 0, "nothing in flight after the calm")
    eventually(lambda: router.status()["connections"] == 0, "no clients after the calm")
    memory, descriptors = router.memory(), router.descriptors()

    crowd, reaper = Crowd(router, 2), Reaper(fleet, 3)

    def is_enough():
        return crowd.counts["streamed"] > STREAMS and crowd.counts["cut"] > 0 and len(reaper.kills) >= seconds / 3

    asyncio.run(crowd.run(seconds, lambda seconds: reaper.reap(seconds, is_enough)))
    record_property("counts", dict(crowd.counts))
    print(dict(crowd.counts), f"{len(reaper.kills)} kills")

    assert crowd.failures == [], f"{len(crowd.failures)} of {sum(crowd.counts.values())}"
    stray = [lost for lost in crowd.lost if reaper.kill_count(*lost) < 2]
    assert stray == [], f"{len(stray)} requests were given up after one engine"
    stray = [cut for cut in crowd.cut if not reaper.killed(*cut)]
    assert stray == [], f"{len(stray)} streams were cut though their engine lived"
    assert is_enough(), f"{dict(crowd.counts)}, {len(reaper.kills)} kills"

    eventually(lambda: router.in_flight() == 0, "nothing in flight")
    eventually(lambda: router.status()["connections"] == 0, "no clients")
    eventually(lambda: router.post("/v1/completions", chat()).status == 200  # after a trial
               and all(row["state"] == "up" for row in router.backends().values()), router.backends, 10)
    eventually(lambda: router.descriptors() <= descriptors + 8, "descriptors are closed", 10)
    if not is_sanitized():
        grown = router.memory() - memory
        assert grown < MEMORY_TOLERANCE, f"the router grew by {grown} bytes"
