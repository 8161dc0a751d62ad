"""A router in front of engines that publish KV events, and checks that it knows their caches.

The engines are those of kv_engine.py, whose caches tests read directly.  The router's view comes
from /explain, the decision header and /backends.  `kv`, `fleet` and `relay` are fixtures, for tests
to import.
"""
import asyncio
import contextlib
import json
import random
import re

import pytest
from harness import eventually
from kv_engine import KvEngine, free_ports
from standin import on_loop

PATH = "/v1/completions"
MODEL = "test-model"
QUIET = "health: {interval: 0}\nmodels: {learn: false}\nload: {scrape: false}\n"
# The router learns cache sizes.
SIZED = "health: {interval: 0}\nmodels: {learn: false}\nload: {interval: 100ms}\n"
LIVE = ("live",)
SALTY = ["vllm-0.17", "vllm-0.22", "vllm-0.26", "sglang", "sglang-maps"]  # forms that name salts


@pytest.fixture
def kv(standin):
    """Makes engines that publish KV events."""
    made = []

    def make(name="a", http=True, **options):
        made.append(KvEngine(standin(name, start=http), **options))
        return made[-1]

    yield make
    for engine in made:
        engine.stop()


class Relay:
    """A port that forwards to another one until it is cut."""

    def __init__(self, target):
        self.target, self.port = target, free_ports(1)
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        self.open = set()

    def start(self):
        async def begin():
            self.server = await asyncio.start_server(self.join, "127.0.0.1", self.port)
        on_loop(begin())
        return self

    async def join(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            return writer.close()
        ends = {writer, far_writer}
        self.open |= ends
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        self.open -= ends

    def stop(self):
        async def end():
            self.server.close()
            for writer in self.open:
                writer.transport.abort()
        on_loop(end())


async def pump(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@pytest.fixture
def relay():
    made = []

    def make(port):
        made.append(Relay(port).start())
        return made[-1]

    yield make
    for one in made:
        one.stop()


def rows_of(engines):
    return [engine.row() for engine in engines]


def config(*rows, more=QUIET, policy="warm"):
    return f"policy: {policy}\n{more}backends:\n" + "".join(f"  - {row}\n" for row in rows)


@pytest.fixture
def fleet(warmpath):
    """A router for these engines that has subscribed to all publishers and has read the cache sizes
    of engines that report them.
    """

    def make(*engines, more=QUIET, rows=None, **keys):
        before = [engine.subscriptions() for engine in engines]
        router = warmpath(config=config(*(rows or rows_of(engines)), more=more), **keys)
        for engine, count in zip(engines, before):
            if engine.publisher.live:
                engine.await_subscribers(count)
        for engine in engines:
            if engine.tells_size:
                eventually(lambda engine=engine: router.backend(engine)["load"]["cache_tokens"] is not None,
                           "the size of the cache is read")
        return router

    return make


def prompt_of(name, tokens=100):
    """Token ids that share no prefix with those of another name."""
    return random.Random(f"prompt {name}").choices(range(1, 150_000), k=tokens)


PROMPTS = [prompt_of("a"), prompt_of("a")[:48] + prompt_of("b", 60), prompt_of("c", 64), prompt_of("d", 33),
           prompt_of("e", 15)]


def body_of(prompt, model=MODEL, **more):
    return {"model": model, "prompt": prompt, "max_tokens": 1, **more}


class Answer:
    def __init__(self, response):
        assert response.status == 200, response
        self.said = response.header("x-warmpath-decision")
        words = dict(re.findall(r"([a-z_]+)=([^ ;,]+)", self.said))
        self.backend = response.header("x-warmpath-backend")
        self.expected, self.by_events = int(words["expected_tokens"]), words["by_events"] == "yes"
        self.cached = response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def send(router, prompt, **more):
    return Answer(router.post(PATH, body_of(prompt, **more), "x-warmpath-decision: 1"))


def push(router, backend, *events, status=202, **more):
    response = router.admin("POST", "/v1/cache/events", {"backend": backend, "events": list(events), **more})
    assert response.status == status, response
    return response


def name_of(engine, rank=0):
    return engine.url if len(engine.ranks) == 1 else f"{engine.url}#rank={rank}"


def events_of(router, engine, rank=0):
    return router.backends()[name_of(engine, rank)]["events"]


def settle(router, *engines, states=LIVE, seconds=5.0):
    """Waits until the router has read all published messages and is in one of the states."""
    for engine in engines:
        for rank in engine.ranks:
            def is_settled(engine=engine, rank=rank):
                events = events_of(router, engine, rank.number)
                return "stream" in events and events["stream"]["number"] == rank.publisher.number and (
                    events["state"] in states)
            eventually(is_settled, lambda engine=engine: f"all of {engine.publisher.number} is read: "
                       f"{json.dumps(router.backends(), indent=1)}", seconds)


def explained(router, prompt, **more):
    """For each backend the predicted cached tokens, and whether the prediction is by events."""
    response = router.admin("POST", f"/explain?path={PATH}", body_of(prompt, **more))
    assert response.status == 200, response
    return {row["url"]: (row["expected_tokens"], row["by_events"]) for row in response.json()["backends"]}


def held(engines, prompt, adapter=None, salt=None):
    """The same, by the engines' own caches."""
    return {name_of(engine, rank.number): (rank.cache.hit(prompt, adapter, salt), True)
            for engine in engines for rank in engine.ranks}


def agree(router, engines, prompts=PROMPTS, seconds=3.0, salt=None):
    """Checks that the router's predictions for these prompts equal the caches."""
    more = {"cache_salt": salt} if salt else {}
    for prompt in prompts:
        def said(prompt=prompt):
            return explained(router, prompt, **more)
        eventually(lambda said=said, prompt=prompt: said() == held(engines, prompt, salt=salt),
                   lambda said=said, prompt=prompt: f"{said()} is {held(engines, prompt, salt=salt)}: "
                   f"{json.dumps(router.backends(), indent=1)}", seconds)


def serve(router, engine, *prompts, states=LIVE):
    for prompt in prompts:
        send(router, prompt)
        settle(router, engine, states=states)


def begin(fleet, engine, **keys):
    """A router that is live, with some prompts in the cache."""
    router = fleet(engine, **keys)
    serve(router, engine, *PROMPTS[:3])
    agree(router, [engine])
    return router
