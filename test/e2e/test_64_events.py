"""KV events: what the router says that engines hold is what they hold, whatever happens on the way.

The engines are those of kv_engine.py, whose caches are asked directly.  The router is asked by /explain, by the header of
a decision and by /backends.
"""
import asyncio
import contextlib
import itertools
import json
import random
import re
import signal
import threading
import time

import msgpack
import pytest
from harness import eventually, within
from kv_engine import FORMS, KvEngine, Publisher, free_ports
from standin import Gate, on_loop

PATH = "/v1/completions"
MODEL = "test-model"
QUIET = "health: {interval: 0}\nmodels: {learn: false}\nload: {scrape: false}\n"
SIZED = "health: {interval: 0}\nmodels: {learn: false}\nload: {interval: 100ms}\n"  # the size of caches is asked for
LIVE = ("live",)
SALTY = ["vllm-0.17", "vllm-0.22", "vllm-0.26", "sglang", "sglang-maps"]  # forms that name salts


@pytest.fixture
def kv(standin):
    """Makes engines that tell what they hold."""
    made = []

    def make(name="a", http=True, **options):
        made.append(KvEngine(standin(name, start=http), **options))
        return made[-1]

    yield make
    for engine in made:
        engine.stop()


class Relay:
    """A port behind which another one is, until it is cut."""

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
    """A router for these engines, which has subscribed to all that publish."""

    def make(*engines, more=QUIET, rows=None, **keys):
        before = [engine.subscriptions() for engine in engines]
        router = warmpath(config=config(*(rows or rows_of(engines)), more=more), **keys)
        for engine, count in zip(engines, before):
            if engine.publisher.live:
                engine.await_subscribers(count)
        return router

    return make


def prompt_of(name, tokens=100):
    """Token ids that have no beginning in common with those of another name."""
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
        self.expected, self.exact = int(words["expected_tokens"]), words["exact"] == "yes"
        self.cached = response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def send(router, prompt, **more):
    return Answer(router.post(PATH, body_of(prompt, **more), "x-warmpath-decision: 1"))


def name_of(engine, rank=0):
    return engine.url if len(engine.ranks) == 1 else f"{engine.url}#rank={rank}"


def events_of(router, engine, rank=0):
    return router.backends()[name_of(engine, rank)]["events"]


def settle(router, *engines, states=LIVE, seconds=5.0):
    """Waits until the router has read all that was published, and is in one of the states."""
    for engine in engines:
        for rank in engine.ranks:
            def is_settled(engine=engine, rank=rank):
                events = events_of(router, engine, rank.number)
                return "stream" in events and events["stream"]["number"] == rank.publisher.number and (
                    events["state"] in states)
            eventually(is_settled, lambda engine=engine: f"all of {engine.publisher.number} is read: "
                       f"{json.dumps(router.backends(), indent=1)}", seconds)


def explained(router, prompt, **more):
    """Of each backend what an answer will say was cached, and whether that is known."""
    response = router.admin("POST", f"/explain?path={PATH}", body_of(prompt, **more))
    assert response.status == 200, response
    return {row["url"]: (row["expected_tokens"], row["exact"]) for row in response.json()["backends"]}


def held(engines, prompt, adapter=None, salt=None):
    """The same, as the engines know it."""
    return {name_of(engine, rank.number): (rank.cache.hit(prompt, adapter, salt), True)
            for engine in engines for rank in engine.ranks}


def agree(router, engines, prompts=PROMPTS, seconds=3.0, salt=None):
    """What the router says of these prompts is what the caches say."""
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


# What engines say.


@pytest.mark.parametrize("form", FORMS)
def test_in_every_form_the_router_knows_what_the_engine_holds(kv, fleet, form):
    engine = kv(form=form, blocks=24)
    router = begin(fleet, engine)
    for number in range(4):  # more than fits
        answer = send(router, prompt_of(number, 90 + number))
        assert answer.exact and answer.expected == answer.cached == 0
        settle(router, engine)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 90 + number) for number in range(4))])
    last = prompt_of(3, 93)
    assert engine.cache.hit(last) == 80 and engine.cache.hit(PROMPTS[0]) < 96, "some are there and some went"
    engine.cache.evict_block(last, 2)
    engine.ranks[0].publish()
    settle(router, engine)
    agree(router, [engine], [last])
    answer = send(router, last)
    assert answer.exact and answer.expected == answer.cached == 32, "the end behind a hole does not count"
    settle(router, engine)
    answer = send(router, last)
    assert answer.exact and answer.expected == answer.cached == 80, "the hole is filled"
    engine.reset()
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, last])
    truth = router.backend(engine)["truth"]["exact"]["all"]
    assert truth["count"] == truth["equal"] >= 6
    told = events_of(router, engine)["told"]
    assert (told["blocks"], told["cleared"], told["malformed"], told["unknown_kinds"]) == (0, 1, 0, 0), told


@pytest.mark.parametrize("size", [1, 4, 24, 64, 256])
def test_blocks_of_any_size_are_matched(kv, fleet, size):
    engine = kv(block_tokens=size, blocks=max(12, 600 // size))
    router = fleet(engine)
    prompts = [prompt_of("x", 300), prompt_of("x", 300)[:270] + prompt_of("y", 64), prompt_of("z", 65)]
    serve(router, engine, *prompts)
    agree(router, [engine], prompts)
    engine.cache.evict_block(prompts[0], 0)
    engine.ranks[0].publish()
    settle(router, engine)
    agree(router, [engine], prompts)


def test_what_is_longer_than_what_is_asked_for_is_not_called_exact(kv, fleet):
    """A prompt is looked up by its first 8,192 blocks; an engine may have blocks of one token."""
    engine = kv(form="sglang", block_tokens=1, blocks=20_000)
    router = fleet(engine)
    prompts = [prompt_of("long", 9000), prompt_of("short", 8100)]
    serve(router, engine, *prompts)
    eventually(lambda: explained(router, prompts[0])[engine.url] == (8192, False),
               lambda: str(explained(router, prompts[0])))
    agree(router, [engine], prompts[1:])


def test_engines_of_different_kinds_and_sizes_are_compared_by_content(kv, fleet):
    engines = [kv("a", form="vllm-0.26", block_tokens=16, blocks=1000),
               kv("b", form="sglang", block_tokens=4, blocks=1000),
               kv("c", form="trtllm", block_tokens=32, blocks=1000)]
    router = fleet(*engines)
    shared = prompt_of("shared", 8000)
    for engine, tokens in zip(engines, (1000, 1011, 7000)):
        engine.ranks[0].serve(shared[:tokens])
        engine.ranks[0].publish()
    settle(router, *engines)
    agree(router, engines, [shared])
    answer = send(router, shared)
    assert (answer.backend, answer.expected, answer.cached) == (engines[2].url, 6976, 6976)


def test_a_long_row_of_random_requests_is_predicted_to_the_token(kv, fleet):
    engines = [kv("a", blocks=40, form="vllm-0.22"), kv("b", blocks=40, form="sglang")]
    router = fleet(*engines)
    dice = random.Random(7)
    for engine in engines:
        engine.ranks[0].serve(prompt_of("first", 20))
        engine.ranks[0].publish()
    for _ in range(50):
        root = prompt_of(f"root {dice.randrange(4)}", 160)
        prompt = root[: dice.randrange(20, 160)] + prompt_of(f"tail {dice.randrange(6)}", dice.randrange(1, 50))
        settle(router, *engines)
        answer = send(router, prompt)
        assert answer.exact and answer.expected == answer.cached
    settle(router, *engines)
    agree(router, engines, [prompt_of(f"root {number}", 160) for number in range(4)])
    assert all(events_of(router, engine)["told"]["removed"] > 0 for engine in engines)


def test_each_copy_of_a_block_is_taken_back_by_itself(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    prompt = PROMPTS[2]  # of whole blocks: the last is computed again, into a block of its own
    answer = send(router, prompt)
    assert answer.cached == 48
    longer = prompt + prompt_of("more", 10)
    last = engine.cache.chain(prompt)[-1]
    copies = engine.cache.by_digest[last.digest]
    assert len(copies) == 2
    for left in (64, 48):
        engine.cache.evict(copies[0])
        engine.ranks[0].publish()
        settle(router, engine)
        assert engine.cache.hit(longer) == left
        agree(router, [engine], [longer])


def test_an_engine_that_takes_back_once_what_it_told_twice_is_a_set(kv, fleet):
    engine = kv()
    router = begin(fleet, engine, more=QUIET + "events: {copies: set}\n")
    prompt = PROMPTS[0]
    rank = engine.ranks[0]
    block = engine.cache.chain(prompt)[3]
    rank.say(rank.stored([block]))
    engine.cache.evict_block(prompt, 3)
    rank.publish()
    settle(router, engine)
    agree(router, [engine])


def test_copies_that_are_left_are_believed_where_they_are_told(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    rank = engine.ranks[0]
    block = engine.cache.chain(PROMPTS[0])[3]
    rank.say(rank.stored([block]), rank.stored([block]))
    engine.cache.evict_block(PROMPTS[0], 3)
    engine.cache.news.clear()
    rank.say({**rank.removed([block]), "remaining_copy_counts": [0]})
    settle(router, engine)
    agree(router, [engine])


@pytest.mark.parametrize("form", ["vllm-0.20", "vllm-0.22", "vllm-0.26"])
@pytest.mark.parametrize("groups", [(0, 1), (1, 0)])
def test_a_sliding_window_beside_full_attention_is_not_looked_at(kv, fleet, form, groups):
    if form == "vllm-0.20" and groups == (1, 0):
        pytest.skip("before 0.22 nothing says which group has full attention")
    engine = kv(form=form, full_group=groups[0], window_group=groups[1], blocks=24)
    router = fleet(engine)
    prompts = [*PROMPTS, *(prompt_of(number, 90) for number in range(3))]
    serve(router, engine, *prompts)
    agree(router, [engine], prompts)
    rank = engine.ranks[0]
    rank.say(rank.removed(engine.cache.chain(prompts[-1]), groups[1]))  # it has left the window
    settle(router, engine)
    agree(router, [engine], prompts)


def test_blocks_that_are_not_full_are_not_counted(kv, fleet):
    engine = kv(partials=True)
    router = fleet(engine)
    growing = prompt_of("growing", 120)
    serve(router, engine, growing[:7])  # now a block seems to have seven tokens
    for tokens in (20, 33, 48, 63, 120):
        serve(router, engine, growing[:tokens])
        agree(router, [engine], [growing])
    assert engine.cache.hit(growing) == 112


@pytest.mark.parametrize("placeholder", [True, False])
def test_what_is_in_host_memory_stays_when_the_gpu_is_cleared(kv, fleet, placeholder):
    engine = kv()
    router = begin(fleet, engine)
    prompt = PROMPTS[0]
    engine.cache.offload(prompt, 4, placeholder)
    engine.ranks[0].publish()
    settle(router, engine)
    agree(router, [engine])
    engine.reset()
    settle(router, engine)
    assert engine.cache.hit(prompt) == 64
    agree(router, [engine])
    row = router.admin("POST", f"/explain?path={PATH}", body_of(prompt)).json()["backends"][0]
    assert (row["matched_tokens"], row["host_tokens"]) == (64, 64)
    engine.cache.drop_host(prompt, 2)
    engine.ranks[0].publish()
    settle(router, engine)
    assert engine.cache.hit(prompt) == 32
    agree(router, [engine])


@pytest.mark.parametrize("medium, tier", [("CPU", "host"), ("cpu", "host"), ("CPU_PINNED", "host"), ("STORAGE", "disk"),
                                          ("DISK", "disk"), ("EXTERNAL", "disk"), ("whatever", "disk")])
def test_each_medium_has_its_tier(kv, fleet, medium, tier):
    engine = kv(form="sglang", medium=medium)
    router = begin(fleet, engine)
    row = router.admin("POST", f"/explain?path={PATH}", body_of(PROMPTS[0])).json()["backends"][0]
    told = {"host": row["host_tokens"], "disk": row["disk_tokens"]}
    assert row["matched_tokens"] == 96 and told == {"host": 0, "disk": 0, tier: 96}, row


def test_what_another_machine_holds_does_not_count(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    rank = engine.ranks[0]
    remote = prompt_of("remote")
    rank.say(rank.stored(engine.cache.chain(remote), locality="REMOTE"))
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, remote])


def test_an_image_makes_a_block_another_one(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    rank = engine.ranks[0]
    prompt = prompt_of("image")
    chain = engine.cache.chain(prompt)
    rank.say(rank.stored(chain, extra_keys=[None, None, [["image", -3]], [["image", -19]], None, None]))
    settle(router, engine)
    assert explained(router, prompt)[engine.url] == (32, True), "up to the image"


def test_ids_of_tokens_have_32_bits(kv, fleet):
    engine = kv()
    router = fleet(engine)
    prompt = [2**32 - 1 - number for number in range(50)] + [0] * 50
    serve(router, engine, prompt)
    agree(router, [engine], [prompt])


@pytest.mark.parametrize("medium", ["gpu", None, ""])
def test_the_gpu_has_many_names(kv, fleet, medium):
    engine = kv(medium=medium)
    router = begin(fleet, engine)
    row = router.admin("POST", f"/explain?path={PATH}", body_of(PROMPTS[0])).json()["backends"][0]
    assert row["matched_tokens"] == 96 and row["host_tokens"] == row["disk_tokens"] == 0


@pytest.mark.parametrize("form", ["vllm-0.14", "vllm-0.17", "vllm-0.22", "vllm-0.26"])
def test_adapters_are_told_apart(kv, fleet, form):
    engine = kv(form=form, adapters=("poet", "clerk"))
    router = fleet(engine, more="health: {interval: 100ms}\nmodels: {interval: 100ms}\nload: {scrape: false}\n")
    eventually(lambda: set(router.backend(engine)["models"]) == {MODEL, "poet", "clerk"}, "models are known")
    prompt = PROMPTS[0]
    for model, adapter, tokens in ((MODEL, None, 100), ("poet", "poet", 70), ("clerk", "clerk", 40)):
        send(router, prompt[:tokens], model=model)
        settle(router, engine)
    for model, adapter, tokens in ((MODEL, None, 96), ("poet", "poet", 64), ("clerk", "clerk", 32)):
        assert engine.cache.hit(prompt, adapter) == tokens
        eventually(lambda: explained(router, prompt, model=model)[engine.url] == (tokens, True),
                   lambda: f"{model}: {explained(router, prompt, model=model)} is {tokens}")


@pytest.mark.parametrize("form", SALTY)
def test_salts_are_told_apart(kv, fleet, form):
    engine = kv(form=form)
    router = fleet(engine)
    prompt = PROMPTS[0]
    for salt, tokens in ((None, 100), ("tenant-a", 70), ("tenant-b", 40)):
        send(router, prompt[:tokens], **({"cache_salt": salt} if salt else {}))
        settle(router, engine)
    for salt, tokens in ((None, 96), ("tenant-a", 64), ("tenant-b", 32), ("tenant-c", 0)):
        more = {"cache_salt": salt} if salt else {}
        assert engine.cache.hit(prompt, salt=salt) == tokens
        eventually(lambda: explained(router, prompt, **more)[engine.url] == (tokens, True),
                   lambda: f"{salt}: {explained(router, prompt, **more)} is {tokens}")


def test_adapter_and_salt_together(kv, fleet):
    engine = kv(adapters=("poet",))
    router = fleet(engine, more="health: {interval: 100ms}\nmodels: {interval: 100ms}\nload: {scrape: false}\n")
    eventually(lambda: "poet" in router.backend(engine)["models"], "models are known")
    prompt = PROMPTS[0]
    send(router, prompt, model="poet", cache_salt="s")
    settle(router, engine)
    for model, more, tokens in (("poet", {"cache_salt": "s"}, 96), ("poet", {}, 0), (MODEL, {"cache_salt": "s"}, 0),
                                (MODEL, {"cache_salt": "poet"}, 0), (MODEL, {}, 0)):
        eventually(lambda: explained(router, prompt, model=model, **more)[engine.url] == (tokens, True),
                   lambda: f"{model} {more}: {explained(router, prompt, model=model, **more)}")


def test_an_orphan_finds_its_place_when_its_parent_comes(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    prompt = prompt_of("torn", 100)
    engine.cache.serve(prompt)
    engine.cache.news.clear()
    rank = engine.ranks[0]
    chain = engine.cache.chain(prompt)
    for blocks in (chain[4:], chain[2:4], chain[1:2]):
        rank.say(rank.stored(blocks))
        settle(router, engine)
        assert explained(router, prompt)[engine.url] == (0, True), "never where it may not belong"
    assert events_of(router, engine)["orphans_waiting"] == 3
    rank.say(rank.stored(chain[:1]))
    settle(router, engine)
    agree(router, [engine], [prompt])
    events = events_of(router, engine)
    assert events["orphans_waiting"] == 0 and events["told"]["adopted"] == 3


# What is lost, and who begins again.


@pytest.mark.parametrize("form", ["vllm-0.25", "vllm-0.26", "sglang"])
def test_a_gap_is_filled_by_a_replay(kv, fleet, form):
    engine = kv(form={"vllm-0.25": "vllm-0.24"}.get(form, form), blocks=16)
    router = begin(fleet, engine)
    engine.publisher.drop = 2
    for number in range(2):
        send(router, prompt_of(number, 50))
    assert engine.publisher.drop == 0
    send(router, prompt_of(2, 50))
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(3))])
    stream = events_of(router, engine)["stream"]
    assert (stream["gaps"], stream["lost"], stream["purges"]) == (1, 2, 0), stream
    assert stream["replayed"] >= 2


def test_a_last_message_that_is_lost_is_asked_for_when_it_is_quiet(kv, fleet):
    engine = kv(blocks=8)
    router = begin(fleet, engine)
    engine.publisher.drop = 1
    send(router, PROMPTS[0])
    settle(router, engine, seconds=6)
    agree(router, [engine])
    assert events_of(router, engine)["stream"]["purges"] == 0


def test_a_gap_that_nobody_fills_makes_it_learn_anew(kv, fleet):
    engine = kv(blocks=30, replay=False, tells_size=True)
    router = begin(fleet, engine, more=SIZED)
    engine.publisher.drop = 1
    send(router, prompt_of("lost"))
    send(router, prompt_of("seen"))
    settle(router, engine, states=("learning",))
    stream = events_of(router, engine)["stream"]
    assert (stream["gaps"], stream["lost"], stream["purges"]) == (1, 1, 1), stream
    expected, exact = explained(router, prompt_of("seen"))[engine.url]
    assert (expected, exact) == (96, False)
    prompts = [prompt_of(number, 70) for number in range(9)]
    for prompt in prompts:  # as much as the cache can hold, so nothing older is left
        send(router, prompt)
    settle(router, engine, states=LIVE)
    agree(router, [engine], [*PROMPTS, *prompts, prompt_of("lost"), prompt_of("seen")])


def test_a_replay_that_no_longer_reaches_back_is_a_new_beginning(kv, fleet):
    engine = kv(blocks=30, buffer_steps=2, tells_size=True)
    router = begin(fleet, engine, more=SIZED)
    engine.publisher.drop = 4
    for number in range(4):
        send(router, prompt_of(number, 50))
    send(router, prompt_of("seen", 50))
    settle(router, engine, states=("learning",))
    assert events_of(router, engine)["stream"]["purges"] == 1
    assert explained(router, prompt_of("seen", 50))[engine.url] == (48, False)
    prompts = [prompt_of(f"new {number}", 70) for number in range(9)]
    for prompt in prompts:
        send(router, prompt)
    settle(router, engine, states=LIVE)
    agree(router, [engine], [*PROMPTS, *prompts])


def test_what_is_used_all_the_time_is_known_although_it_is_never_told_again(kv, fleet):
    engine = kv(blocks=30, replay=False, tells_size=True)
    router = fleet(engine, more=SIZED)
    system = prompt_of("system", 64)
    serve(router, engine, *(system + prompt_of(number, 40) for number in range(3)))
    engine.publisher.drop = 1
    for number in range(3, 30):  # as much as fits in the cache, several times
        answer = send(router, system + prompt_of(number, 40))
        assert answer.expected == answer.cached == 64, number
        settle(router, engine, states=("live", "learning")) if number > 3 else None
    assert events_of(router, engine)["stream"]["purges"] == 1


def test_a_replay_with_holes_is_not_believed(kv, fleet):
    engine = kv(blocks=30)
    router = begin(fleet, engine)
    engine.publisher.replay_fault = "holes"
    engine.publisher.drop = 3
    for number in range(4):
        send(router, prompt_of(number, 50))
    settle(router, engine, seconds=8)
    stream = events_of(router, engine)["stream"]
    assert stream["replays"] >= 3 and stream["purges"] == 0, stream
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(4))])


@pytest.mark.parametrize("fault", ["silent", "endless"])
def test_a_replay_that_does_not_end_is_given_up_for_another(kv, fleet, fault):
    engine = kv(blocks=30)
    router = begin(fleet, engine)
    engine.publisher.replay_fault = fault
    engine.publisher.drop = 1
    for number in range(2):
        send(router, prompt_of(number, 50))
    eventually(lambda: len(engine.publisher.replays) >= 2, "it has asked")
    engine.publisher.replay_fault = None
    settle(router, engine, seconds=8)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(2))])


def test_messages_that_come_twice_count_once(kv, fleet):
    engine = kv(blocks=16)
    router = begin(fleet, engine)
    engine.publisher.repeat = 3
    for number in range(4):
        send(router, prompt_of(number, 50))
    settle(router, engine, seconds=8)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(4))], 8)


@pytest.mark.parametrize("replay", [True, False])
def test_a_router_that_comes_late(kv, fleet, replay):
    engine = kv(blocks=20, replay=replay, tells_size=True)
    rank = engine.ranks[0]
    for prompt in [*PROMPTS, *(prompt_of(number, 50) for number in range(6))]:
        rank.serve(prompt)
        rank.publish()
    before = engine.cache.hit(prompt_of(5, 50))
    assert before == 48
    router = fleet(engine, more=SIZED)
    if replay:
        settle(router, engine)
        agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(6))])
        return
    assert explained(router, prompt_of(5, 50))[engine.url] == (0, False)
    send(router, prompt_of("new"))
    settle(router, engine, states=("learning",))
    assert explained(router, prompt_of("new"))[engine.url] == (96, False)
    prompts = [prompt_of(f"new {number}", 70) for number in range(8)]
    for prompt in prompts:
        send(router, prompt)
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, *prompts])


def test_a_publisher_that_counts_from_one(kv, fleet):
    engine = kv(first=1)
    engine.ranks[0].serve(PROMPTS[0])
    engine.ranks[0].publish()
    router = fleet(engine)
    settle(router, engine)
    agree(router, [engine])


def test_without_a_replay_there_is_no_telling_whether_it_counts_from_one(kv, fleet):
    engine = kv(first=1, replay=False)
    router = fleet(engine)
    serve(router, engine, PROMPTS[0], states=("learning",))
    assert explained(router, PROMPTS[0])[engine.url] == (96, False)


def test_an_engine_that_comes_late(kv, fleet):
    engine = kv(start=False)
    router = fleet(engine)
    send(router, PROMPTS[0])
    engine.cache.news.clear()
    engine.cache.clear(silently=True)
    engine.start()
    engine.await_subscribers()
    serve(router, engine, *PROMPTS[1:3])
    agree(router, [engine])


ORDERS = list(itertools.permutations(("engine", "publisher", "router"))) + [
    ("engine", "engine", "router"), ("router", "router", "engine"), ("engine+router",)]


@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_after_restarts_in_any_order_it_heals_by_itself(kv, fleet, order, replay):
    engine = kv(blocks=20, replay=replay)
    router = begin(fleet, engine)
    for turn, who in enumerate(order):
        if "router" in who:
            router.check_and_stop()
        if "engine" in who:
            engine.restart()
        if who == "publisher":
            engine.restart(http=False)
        if "router" in who:
            router = fleet(engine)
        else:
            engine.await_subscribers()
        prompts = [*PROMPTS[:2], prompt_of(turn, 50)]
        for prompt in prompts:
            send(router, prompt)
        may_be_live = replay or order[turn] != "router"
        settle(router, engine, states=LIVE if may_be_live else ("learning",), seconds=8)
        if may_be_live:
            agree(router, [engine], [*PROMPTS, *prompts])
    assert router.backend(engine)["requests"] >= 3


def test_what_was_known_is_forgotten_when_the_engine_is_another(kv, fleet):
    engine = kv()
    router = begin(fleet, engine, more="health: {interval: 100ms}\nmodels: {learn: false}\nload: {scrape: false}\n")
    engine.http.stop()
    router.wait_state(engine.http, "down", "ejected")
    engine.restart()
    engine.await_subscribers()
    router.wait_state(engine.http, "up")
    eventually(lambda: explained(router, PROMPTS[0])[engine.url][0] == 0, "nothing is promised of the old process")


def test_a_cache_that_was_emptied_silently_is_noticed_by_answers(kv, fleet):
    engine = kv(replay=False, tells_size=True, blocks=40)
    prompts = [prompt_of(number, 80) for number in range(8)]
    router = fleet(engine, more=SIZED)
    serve(router, engine, *prompts)
    agree(router, [engine], prompts)
    engine.reset(silently=True)
    for prompt in prompts[:3]:
        answer = send(router, prompt)
        assert answer.exact and answer.expected == 64 and answer.cached == 0
        settle(router, engine, states=("live", "learning"))
    eventually(lambda: events_of(router, engine)["stream"]["purges"] == 1, lambda: str(router.backends()))
    assert "answers do not agree with its KV events" in router.stderr()
    wrong = [prompt for prompt in prompts[3:] if send(router, prompt).expected != 0]
    assert len(wrong) <= 3, "what requests made us believe is found wrong by itself"
    for number in range(20, 30):
        send(router, prompt_of(number, 80))
    settle(router, engine)
    agree(router, [engine], [*prompts, *(prompt_of(number, 80) for number in range(20, 30))])


def test_a_connection_that_is_cut_is_made_good_by_a_replay(kv, fleet, relay):
    engine = kv(blocks=16)
    link = relay(engine.port)
    router = fleet(engine, rows=[engine.row(events=link.endpoint)])
    serve(router, engine, *PROMPTS[:3])
    agree(router, [engine])
    link.stop()
    for number in range(4):
        send(router, prompt_of(number, 50))
    eventually(lambda: events_of(router, engine)["connected"] is False, "it is cut")
    assert explained(router, prompt_of(3, 50))[engine.url][1] is False, "nobody knows what is missed now"
    link.start()
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(4))])
    assert events_of(router, engine)["stream"]["restarts"] == 1


@pytest.mark.parametrize("form", ["vllm-0.26", "sglang"])
def test_a_new_process_whose_numbers_are_beyond_those_of_the_old_one(kv, fleet, relay, form):
    engine = kv(blocks=16, form=form)
    link = relay(engine.port)
    router = fleet(engine, rows=[engine.row(events=link.endpoint)])
    serve(router, engine, *PROMPTS[:3])
    link.stop()
    engine.restart()
    for number in range(6):
        engine.ranks[0].serve(prompt_of(number, 50))
        engine.ranks[0].publish()
    link.start()
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(6))])


def test_a_server_that_was_away_while_its_publisher_was_not(kv, fleet):
    engine = kv()
    router = begin(fleet, engine, more="health: {interval: 100ms}\nmodels: {learn: false}\nload: {scrape: false}\n")
    engine.http.stop()
    router.wait_state(engine.http, "down", "ejected")
    engine.http.start()
    router.wait_state(engine.http, "up")
    settle(router, engine)
    agree(router, [engine])


def test_a_router_that_was_killed(kv, fleet, warmpath):
    engine = kv()
    router = begin(fleet, engine)
    router.kill()
    router.finished = True
    before = engine.subscriptions()
    router = fleet(engine)
    settle(router, engine)
    agree(router, [engine])
    assert engine.subscriptions() > before


def test_two_routers_know_the_same(kv, fleet):
    engines = [kv("a"), kv("b", form="sglang")]
    first, second = fleet(*engines), fleet(*engines)
    prompts = [prompt_of(number, 70) for number in range(6)]
    for prompt in prompts:
        send(first, prompt)
    for router in (first, second):
        settle(router, *[engine for engine in engines if engine.publisher.number])
    told = [engine for engine in engines if engine.publisher.number]
    for router in (first, second):
        for prompt in prompts:
            for engine in told:
                eventually(lambda: explained(router, prompt)[engine.url] == (engine.cache.hit(prompt), True),
                           lambda: str(explained(router, prompt)))


def test_many_at_once_are_known_when_all_is_told(kv, fleet):
    engines = [kv(name, blocks=60, form=form) for name, form in (("a", "vllm-0.26"), ("b", "vllm-0.22"), ("c", "sglang"))]
    router = fleet(*engines)
    for engine in engines:
        engine.ranks[0].serve(prompt_of("first", 20))
        engine.ranks[0].publish()
    settle(router, *engines)
    failures = []

    def ask(seed):
        dice = random.Random(seed)
        for _ in range(15):
            root = prompt_of(f"root {dice.randrange(4)}", 400)
            answer = send(router, root[: dice.randrange(20, 400)] + prompt_of(dice.random(), dice.randrange(1, 50)))
            failures.extend([] if answer.exact else [answer.said])

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    settle(router, *engines)
    agree(router, engines, [prompt_of(f"root {number}", 400) for number in range(4)])
    truths = [backend["truth"]["exact"]["all"] for backend in router.backends().values()]
    assert sum(truth["count"] for truth in truths) == 120


class Story:
    """Things that happen to an engine, at random."""

    def __init__(self, kv, fleet, seed):
        self.dice = random.Random(seed)
        self.fleet = fleet
        self.engines = [self.engine(kv, name) for name in "ab"]
        self.router = fleet(*self.engines)
        self.salts = [None, "s", "t"] if all(engine.form_name in SALTY for engine in self.engines) else [None]
        self.prompts = []
        self.told = []

    def engine(self, kv, name):
        form = self.dice.choice(list(FORMS) + SALTY)
        has_kinds = form in ("vllm-0.22", "vllm-0.24") or form.startswith("vllm-0.26")
        return kv(name, form=form, blocks=self.dice.choice((12, 40)), block_tokens=self.dice.choice((4, 16, 32)),
                  window_group=self.dice.choice((None, 1)) if has_kinds else None,
                  partials=self.dice.random() < 0.2)

    def prompt(self):
        if self.prompts and self.dice.random() < 0.7:
            base = self.dice.choice(self.prompts)
            return base[: self.dice.randrange(1, len(base) + 1)] + prompt_of(self.dice.random(), self.dice.randrange(60))
        return prompt_of(self.dice.random(), self.dice.randrange(1, 200))

    def act(self, engine):
        rank, cache, dice = engine.ranks[0], engine.cache, self.dice
        kind = dice.choices(("serve", "drop", "evict", "copy", "clear", "offload", "restart", "publisher", "router",
                             "repeat", "nonsense", "frames"), (30, 6, 8, 3, 2, 3, 2, 1, 1, 1, 2, 2))[0]
        prompt = self.prompt()
        self.told.append((kind, engine.http.name, len(prompt)))
        if kind == "serve":
            rank.serve(prompt, salt=dice.choice(self.salts))
            self.prompts = [*self.prompts[-7:], prompt]
        elif kind == "drop":
            engine.publisher.drop = dice.randrange(1, 3)
        elif kind == "evict" and cache.physical:
            cache.evict(dice.choice(list(cache.physical)))
        elif kind == "copy" and cache.copies and cache.physical:
            block = cache.physical[dice.choice(list(cache.physical))]
            cache.add(block)
            cache.news.append(("stored", [block]))
        elif kind == "clear":
            cache.clear()
        elif kind == "offload" and not engine.form_name.startswith("vllm-0.9") and self.prompts:
            known = [one for one in self.prompts if cache.chain(one) and cache.by_digest.get(cache.chain(one)[0].digest)]
            if known:
                cache.offload(known[0], 1, placeholder=True)
        elif kind == "restart":
            engine.restart()
        elif kind == "publisher":
            engine.restart(http=False)
        elif kind == "router":
            self.router.check_and_stop()
            self.router = self.fleet(*self.engines)
        elif kind == "repeat":
            engine.publisher.repeat = 1
        elif kind == "nonsense":
            rank.say({"type": "Whatever"}, ["BlockStored", 5], {"type": "BlockRemoved", "block_hashes": [dice.getrandbits(64)]})
        elif kind == "frames":
            engine.publisher.send_frames(*[dice.randbytes(dice.randrange(12)) for _ in range(dice.choice((1, 2, 4, 5)))])
        rank.publish()

    def check(self):
        """Whatever was lost is asked for when something comes; an engine that has said nothing is not known."""
        for engine in self.engines:
            engine.publisher.drop = 0
            engine.ranks[0].serve(self.prompt() + prompt_of(self.dice.random(), 40))
            engine.await_subscribers()
            engine.ranks[0].publish()
        settle(self.router, *self.engines, seconds=10)
        for salt in self.salts:
            agree(self.router, self.engines, self.prompts, salt=salt)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_in_whatever_order(kv, fleet, seed):
    story = Story(kv, fleet, seed)
    try:
        for _ in range(6):
            for _ in range(story.dice.randrange(1, 12)):
                story.act(story.dice.choice(story.engines))
            story.check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {story.told}") from error


# Who publishes where.


@pytest.mark.parametrize("convention", [True, False])
def test_engines_that_connect_are_told_apart_by_their_topics(kv, warmpath, convention):
    address = f"tcp://127.0.0.1:{free_ports(1)}"
    engines = []
    for name in ("a", "b"):
        engine = kv(name, connect=address, start=False, replay=False)
        topic = f"kv@127.0.0.1:{engine.http.port}@{MODEL}" if convention else f"kv-{name}"
        engine.publisher.topic = topic.encode()
        engines.append(engine)
    rows = [json.dumps({"url": engine.url, **({} if convention else {"events_topic": engine.publisher.topic.decode()})})
            for engine in engines]
    router = warmpath(config=config(*rows, more=QUIET + f"events: {{bind: ['{address}']}}\n"))
    for engine in engines:
        engine.start()
        engine.await_subscribers()
    stranger = Publisher(topic=b"other", connect=address).start()
    stranger.await_subscriber()
    stranger.send(b"\x93\x00\x90\x00")
    for engine, tokens in zip(engines, (100, 40)):
        engine.ranks[0].serve(PROMPTS[0][:tokens])
        engine.ranks[0].publish()
    settle(router, *engines)
    agree(router, engines)
    engines[0].restart()
    engines[0].await_subscribers()
    engines[0].ranks[0].serve(PROMPTS[2])
    engines[0].ranks[0].publish()
    settle(router, *engines)
    agree(router, engines)
    stranger.stop()
    assert "belongs to no backend" in router.stderr()


def test_engines_that_connect_can_be_asked_for_what_was_missed(kv, warmpath):
    address = f"tcp://127.0.0.1:{free_ports(1)}"
    engine = kv(connect=address, topic="kv-a", blocks=16)
    for prompt in PROMPTS:
        engine.ranks[0].serve(prompt)
        engine.ranks[0].publish()
    router = warmpath(config=config(engine.row(events=None, events_topic="kv-a"),
                                    more=QUIET + f"events: {{bind: ['{address}']}}\n"))
    engine.await_subscribers()
    engine.publisher.drop = 1
    for number in range(3):
        send(router, prompt_of(number, 50))
    settle(router, engine, seconds=8)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(3))])


def test_ranks_that_connect_share_their_topic(kv, warmpath):
    address = f"tcp://127.0.0.1:{free_ports(1)}"
    engine = kv(connect=address, topic="kv-a", ranks=3, replay=False, start=False)
    router = warmpath(config=config(engine.row(events=None, events_replay=None, events_topic="kv-a"),
                                    more=QUIET + f"events: {{bind: ['{address}']}}\n"))
    engine.start()
    engine.await_subscribers()
    for rank, tokens in zip(engine.ranks, (100, 70, 40)):
        rank.serve(PROMPTS[0][:tokens])
        rank.publish()
    settle(router, engine)
    agree(router, [engine])


def test_sockets_of_the_same_machine(kv, fleet, tmp_path):
    engine = kv()
    live, replay = (f"ipc://{tmp_path}/{name}" for name in ("live", "replay"))
    engine.publisher.stop()
    engine.publisher.port, engine.publisher.replay_port = live, replay
    engine.publisher.start()
    router = fleet(engine, rows=[engine.row(events=live, events_replay=replay)])
    serve(router, engine, *PROMPTS[:2])
    engine.publisher.drop = 1
    send(router, PROMPTS[2])
    serve(router, engine, PROMPTS[3])
    agree(router, [engine])
    engine.restart()
    engine.await_subscribers()
    serve(router, engine, PROMPTS[3])
    agree(router, [engine])


def test_an_address_that_changes_while_it_runs(kv, fleet):
    engine, other = kv("a"), kv("b")
    router = begin(fleet, engine)
    other.ranks[0].serve(PROMPTS[3])
    other.ranks[0].publish()
    router.write_config(config(engine.row(events=other.endpoint, events_replay=other.replay)))
    router.signal(signal.SIGHUP)
    other.await_subscribers()

    def follows_the_other():
        return [explained(router, prompt)[engine.url] for prompt in PROMPTS] == [
            (other.cache.hit(prompt), True) for prompt in PROMPTS]

    eventually(follows_the_other, lambda: str(router.backends()))
    router.write_config(config(json.dumps({"url": engine.url, "events": "none"}), more=QUIET))
    router.signal(signal.SIGHUP)
    eventually(lambda: events_of(router, engine)["state"] == "none", lambda: str(router.backends()))


def test_a_topic_of_its_own_keeps_others_out(kv, fleet):
    engine = kv(topic="kv@me")
    router = fleet(engine, rows=[engine.row(events_topic="kv@me")])
    serve(router, engine, *PROMPTS[:2])
    other = msgpack.packb([0.0, [["AllBlocksCleared"]], 0])
    engine.publisher.send_frames(b"kv@you", (77).to_bytes(8, "big"), other)
    serve(router, engine, PROMPTS[2])
    agree(router, [engine])
    assert events_of(router, engine)["told"]["cleared"] == 0


def test_each_rank_has_its_stream_and_requests_go_to_the_rank_that_has_the_prefix(kv, fleet):
    engine = kv(ranks=3, blocks=300)
    router = fleet(engine)
    for rank, name in zip(engine.ranks, "xyz"):
        rank.serve(prompt_of(name, 3000))
        rank.publish()
    settle(router, engine)
    for number, name in enumerate("xyz"):
        agree(router, [engine], [prompt_of(name, 3000)])
        for _ in range(3):
            answer = send(router, prompt_of(name, 3000))
            assert answer.backend == name_of(engine, number) and answer.cached == answer.expected == 2992
    assert [request.header("x-data-parallel-rank") for request in engine.http.requests] == list("000111222")
    engine.ranks[1].publisher.restart()
    engine.ranks[1].empty()
    engine.ranks[1].serve(prompt_of("new", 3000))
    engine.ranks[1].publisher.await_subscriber()
    engine.ranks[1].publish()
    settle(router, engine)
    agree(router, [engine], [prompt_of(name, 3000) for name in (*"xyz", "new")])


def test_a_fleet_of_which_one_tells_and_one_does_not(kv, fleet):
    telling = kv("a", blocks=2000)
    silent = kv("b", start=False, blocks=2000)
    router = fleet(telling, silent, rows=[telling.row(), json.dumps({"url": silent.url})])
    homes = {}
    for name in range(6):
        homes[name] = send(router, prompt_of(name, 3000)).backend
    settle(router, telling)
    assert set(homes.values()) == {telling.url, silent.url}, "both are used"
    for name, home in homes.items():
        answer = send(router, prompt_of(name, 3000))
        assert answer.backend == home
        assert answer.expected == answer.cached == 2992
        assert answer.exact == (home == telling.url)
    backends = router.backends()
    assert backends[telling.url]["events"]["state"] == "live"
    assert backends[silent.url]["events"]["state"] == "none"
    assert backends[silent.url]["truth"]["exact"] is None and backends[silent.url]["truth"]["believed"]


@pytest.mark.parametrize("policy, places", [("kv_aware", 1), ("warm", 2)])
def test_a_burst_with_one_new_prefix_does_not_scatter_before_any_event(kv, fleet, policy, places):
    """`warm` finds that a second copy pays when many wait; who goes there knows of the first."""
    engines = [kv(name, blocks=2000) for name in "abc"]
    router = fleet(*engines, policy=policy)
    for number, engine in enumerate(engines):
        engine.ranks[0].serve(prompt_of(f"first {number}", 40))
        engine.ranks[0].publish()
    settle(router, *engines)
    gate = Gate()
    for engine in engines:
        engine.gate = gate
    shared = prompt_of("burst", 20_000)  # which is worth waiting for
    answers = []
    threads = [threading.Thread(target=lambda number=number: answers.append(
        send(router, shared + prompt_of(f"tail {number}", 20)))) for number in range(8)]

    def arrived():
        return sum(request.path == PATH for engine in engines for request in engine.http.requests)

    threads[0].start()
    eventually(lambda: arrived() == 1, "the first is on its way")
    for thread in threads[1:]:
        thread.start()
    eventually(lambda: arrived() == 8, lambda: f"{arrived()} of 8 have arrived")
    gate.open()
    for thread in threads:
        thread.join(within(10))
    assert len({answer.backend for answer in answers}) <= places, [answer.said for answer in answers]
    assert sum(answer.expected == 0 for answer in answers) <= places
    assert all(answer.exact and answer.expected in (0, 20_000) for answer in answers)
    settle(router, *engines)
    agree(router, engines, [shared])


def test_a_backend_that_leaves_is_forgotten_and_learnt_when_it_comes_back(kv, fleet):
    engines = [kv("a"), kv("b")]
    router = fleet(*engines)
    for engine in engines:
        engine.ranks[0].serve(PROMPTS[0])
        engine.ranks[0].publish()
    settle(router, *engines)
    router.write_config(config(*rows_of(engines[:1])))
    router.signal(signal.SIGHUP)
    eventually(lambda: set(router.backends()) == {engines[0].url}, "the other is gone")
    agree(router, engines[:1])
    router.write_config(config(*rows_of(engines)))
    router.signal(signal.SIGHUP)
    eventually(lambda: len(router.backends()) == 2, "it is back")
    settle(router, *engines)
    agree(router, engines)


# Without ZeroMQ.


def push(router, backend, *events, status=202, **more):
    response = router.admin("POST", "/v1/cache/events", {"backend": backend, "events": list(events), **more})
    assert response.status == status, response
    return response


def pushed_chain(prompt, first_hash=1, block=16):
    count = len(prompt) // block
    return {"type": "stored", "block_hashes": list(range(first_hash, first_hash + count)), "parent_block_hash": None,
            "token_ids": prompt[: count * block], "block_size": block}


def test_events_that_are_pushed_are_followed(kv, warmpath):
    engine, other = kv("a", start=False), kv("b", start=False)
    router = warmpath(config=config(*(json.dumps({"url": one.url}) for one in (engine, other))))
    prompt = PROMPTS[0]
    push(router, engine.url, pushed_chain(prompt))
    eventually(lambda: explained(router, prompt)[engine.url][0] == 96, lambda: str(router.backends()))
    assert explained(router, prompt)[other.url][0] == 0
    push(router, engine.url, {"type": "removed", "block_hashes": [4]})
    eventually(lambda: explained(router, prompt)[engine.url][0] == 48, lambda: str(router.backends()))
    refused = push(router, engine.url, {"type": "removed", "block_hashes": [1]}, {"type": "removed"}, status=400)
    assert "events[1]" in refused.error()["message"]
    assert explained(router, prompt)[engine.url][0] == 48, "of a document that is refused nothing is done"
    push(router, "http://127.0.0.1:1", pushed_chain(prompt), status=404)
    push(router, engine.url, {"type": "cleared"})
    eventually(lambda: explained(router, prompt)[engine.url][0] == 0, lambda: str(router.backends()))
    push(router, other.url, {**pushed_chain(prompt), "block_hashes": ["%064x" % (2**255 + n) for n in range(6)]})
    eventually(lambda: explained(router, prompt)[other.url][0] == 96, lambda: str(router.backends()))
    number = router.backend(other)["id"]
    ranvier = {"type": "cache_event", "version": 1, "events": [
        {"event": "evicted", "prefix_hash": "a1b2c3d4e5f6", "prefix_token_count": 96, "timestamp_ms": 1,
         "backend_id": number}]}
    assert router.admin("POST", "/v1/cache/events", ranvier).status == 202
    eventually(lambda: explained(router, prompt)[other.url][0] == 0, lambda: str(router.backends()))


def test_an_engine_that_keeps_its_events_is_asked_for_them(kv, fleet):
    engine = kv(form="trtllm", polled=True, blocks=16)
    router = fleet(engine)
    prompts = [*PROMPTS[:3], *(prompt_of(number, 90) for number in range(3))]
    for prompt in prompts:
        send(router, prompt)
    eventually(lambda: events_of(router, engine)["state"] == "live", lambda: str(router.backends()))
    agree(router, [engine], prompts)
    answer = send(router, prompts[-1])
    assert answer.exact and answer.expected == answer.cached == 80
    rank = engine.ranks[0]
    rank.event_id += 1  # one was lost
    send(router, prompt_of("seen"))
    eventually(lambda: events_of(router, engine).get("stream", {}).get("gaps") == 1, lambda: str(router.backends()))
    eventually(lambda: explained(router, prompt_of("seen"))[engine.url] == (96, False), "learning")


def test_a_polled_engine_that_restarts(kv, fleet):
    engine = kv(form="trtllm", polled=True)
    router = fleet(engine)
    send(router, PROMPTS[0])
    eventually(lambda: explained(router, PROMPTS[0])[engine.url] == (96, True), lambda: str(router.backends()))
    rank = engine.ranks[0]
    rank.empty()
    rank.event_id, rank.polled = 0, []
    send(router, PROMPTS[2])
    eventually(lambda: explained(router, PROMPTS[2])[engine.url] == (48, True), lambda: str(router.backends()))
    agree(router, [engine])


# Nonsense.


def test_what_makes_no_sense_costs_itself_alone(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    rank = engine.ranks[0]
    prompt = prompt_of("between")
    engine.cache.serve(prompt)
    chain = engine.cache.chain(prompt)
    engine.cache.news.clear()
    good = rank.stored(chain[:3])
    nonsense = [
        {"type": "BlockPondered", "block_hashes": [1]}, ["BlockPondered", 1, 2], {"type": "BlockStored"}, ["BlockStored"],
        {**good, "token_ids": "text"}, {**good, "block_hashes": 7}, {**good, "block_size": -1},
        {**good, "token_ids": [[1, 2]] * 48}, {**good, "token_ids": ["digest"] * 48}, {**good, "block_hashes": [1, 2]},
        {**good, "block_size": 2**40}, {**good, "token_ids": [2**40] * 48}, {**good, "block_hashes": [b"", b"", b""]},
        {"type": 5}, {}, [], None, 7, "BlockStored", {"block_hashes": [1], "type": None}, {**good, "type": "x" * 1000},
        ["BlockRemoved", [1.5]], ["BlockRemoved", None], {5: 6, "type": "BlockRemoved", "block_hashes": [999]},
    ]
    rank.say(*nonsense[:8], good, *nonsense[8:16], rank.stored(chain[3:]), *nonsense[16:])
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, prompt])
    told = events_of(router, engine)["told"]
    assert told["unknown_kinds"] >= 3 and told["malformed"] >= 8, told


def test_frames_that_are_no_message_are_counted_and_skipped(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    for frames in ([b"one"], [b"", b"12345678"], [b"", b"1234567", b"\x93\x00\x90\x00"], [b""] * 4, [b""] * 100,
                   [b"", b"\xff" * 8, b""]):
        engine.publisher.send_frames(*frames)
    eventually(lambda: events_of(router, engine)["stream"]["malformed"] == 6, lambda: str(router.backends()))
    serve(router, engine, PROMPTS[3])
    agree(router, [engine])


BROKEN = {
    "empty": b"",
    "text": b"hello, world",
    "an array without end": b"\x93\x00\xdd\xff\xff\xff\xff",
    "hashes without end": b"\x93\x00\x91\x92\xabBlockStored\xdd\xff\xff\xff\xff",
    "a string without end": b"\x93\x00\x91\x92\xdb\xff\xff\xff\xffBlockStored",
    "bytes without end": b"\x93\x00\x91\x92\xc6\xff\xff\xff\xff",
    "a deep nest": b"\x93\x00\x91" + b"\x91" * 200_000 + b"\x00",
    "a deep nest in a batch": b"\x93\x00\x92" + b"\x91" * 200_000 + b"\x00\x91\xb0AllBlocksCleared\x00",
    "half an event": b"\x93\x00\x92\x91\xb0AllBlocksCleared\x96\xabBlockSto",
    "noise": random.Random(3).randbytes(100_000),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_batch_that_is_broken_makes_it_learn_anew_at_worst(kv, fleet, case):
    engine = kv(blocks=30, tells_size=True)
    router = begin(fleet, engine, more=SIZED)
    engine.publisher.send(BROKEN[case])
    settle(router, engine, states=("live", "learning"))
    prompts = [prompt_of(number, 70) for number in range(9)]
    for prompt in prompts:
        send(router, prompt)
    settle(router, engine)
    if "a deep nest in" in case:
        return  # its cache was cleared, as the events say, and in truth not
    agree(router, [engine], [*PROMPTS, *prompts])


def test_a_flood_starves_nobody(kv, fleet):
    flooding, well = kv("a", form="vllm-0.10.2", replay=False), kv("b", blocks=400)
    router = fleet(flooding, well)
    block = [["BlockStored", [number], None, [number] * 16, 16, None, "GPU"] for number in range(200)]
    payload = msgpack.packb([0.0, block, 0])
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            for _ in range(50):
                flooding.publisher.send(payload)
            stop.wait(0.001)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        eventually(lambda: events_of(router, flooding)["state"] != "none", "it is heard")
        slowest = 0
        for number in range(20):
            well.ranks[0].serve(prompt_of(number, 90))
            well.ranks[0].publish()
            began = time.monotonic()
            eventually(lambda number=number: explained(router, prompt_of(number, 90))[well.url] == (80, True),
                       lambda: str(router.backends()))
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < within(1)
    finally:
        stop.set()
        thread.join()


def test_a_publisher_without_measure_leaves_the_router_well(kv, fleet):
    engine, well = kv("a", form="vllm-0.10.2", replay=False), kv("b", blocks=400)
    router = fleet(engine, well)
    prompt = prompt_of("well", 6000)
    well.ranks[0].serve(prompt)
    well.ranks[0].publish()
    settle(router, well)
    dice = random.Random(5)
    huge = list(range(100_000))
    tokens = dice.choices(range(100_000), k=1_600_000)
    batches = [
        [["BlockStored", huge, None, tokens, 16, None, "GPU"]],  # beyond all limits
        [["BlockStored", huge[:60_000], None, tokens[:960_000], 16, None, "GPU"]],  # within
        [["BlockStored", [-number], -number - 1, tokens[:16], 16, None, "GPU"] for number in range(1, 20_000)],  # orphans
        [["BlockRemoved", huge[:60_000], "GPU"]] * 3,
        [["AllBlocksCleared"]] * 50_000,
    ]
    packed = [msgpack.packb([0.0, events, 0]) for events in batches]
    before = router.memory()
    for _ in range(3):
        for payload in packed:
            engine.publisher.send(payload)
    for number in range(20_000):
        engine.publisher.send(b"\x93\x00\x90\x00")
    answers = [send(router, prompt) for _ in range(5)]
    assert all(answer.backend == well.url and answer.cached == answer.expected == 5984 for answer in answers), [answer.said for answer in answers]
    settle(router, engine, states=("live", "learning"), seconds=15)
    told = events_of(router, engine)["told"]
    assert told["malformed"] >= 1 and told["orphans_lost"] >= 1, told
    assert router.memory() - before < 200 << 20
    assert explained(router, prompt)[well.url] == (5984, True)
