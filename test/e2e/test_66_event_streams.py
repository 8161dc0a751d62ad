"""KV events that are lost, duplicated or restarted, and the sockets that they come from.

After any of these faults the router's record equals the caches again.
"""
import itertools
import json
import random
import signal
import threading

import msgpack
import pytest
from harness import eventually
from kv_engine import FORMS, Publisher, free_ports
from kv_scene import (  # noqa: F401 (fixtures)
    LIVE, MODEL, PROMPTS, QUIET, SALTY, SIZED, agree, begin, config, events_of, explained, fleet, kv,
    name_of, prompt_of, push, relay, rows_of, send, serve, settle)


# Losses and restarts.


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


def test_a_lost_last_message_is_requested_after_a_silence(kv, fleet):
    engine = kv(blocks=8)
    router = begin(fleet, engine)
    engine.publisher.drop = 1
    send(router, PROMPTS[0])
    settle(router, engine, seconds=6)
    agree(router, [engine])
    assert events_of(router, engine)["stream"]["purges"] == 0


def test_a_gap_without_a_replay_discards_the_record(kv, fleet):
    engine = kv(blocks=30, replay=False, tells_size=True)
    router = begin(fleet, engine, more=SIZED)
    engine.publisher.drop = 1
    send(router, prompt_of("lost"))
    send(router, prompt_of("seen"))
    settle(router, engine, states=("learning",))
    stream = events_of(router, engine)["stream"]
    assert (stream["gaps"], stream["lost"], stream["purges"]) == (1, 1, 1), stream
    expected, by_events = explained(router, prompt_of("seen"))[engine.url]
    assert (expected, by_events) == (96, False)
    prompts = [prompt_of(number, 70) for number in range(9)]
    for prompt in prompts:  # as much as the cache can hold, so nothing older is left
        send(router, prompt)
    settle(router, engine, states=LIVE)
    agree(router, [engine], [*PROMPTS, *prompts, prompt_of("lost"), prompt_of("seen")])


def test_a_replay_that_no_longer_reaches_back_discards_the_record(kv, fleet):
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


def test_a_prefix_in_constant_use_is_known_again_after_a_purge(kv, fleet):
    engine = kv(blocks=30, replay=False, tells_size=True)
    router = fleet(engine, more=SIZED)
    system = prompt_of("system", 64)
    serve(router, engine, *(system + prompt_of(number, 40) for number in range(3)))
    engine.publisher.drop = 1
    for number in range(3, 30):  # as much as fits in the cache, several times
        response = send(router, system + prompt_of(number, 40))
        assert response.expected == response.cached == 64, number
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
    asked = len(engine.publisher.replays)
    engine.publisher.drop = 1
    for number in range(2):
        send(router, prompt_of(number, 50))
    eventually(lambda: len(engine.publisher.replays) > asked, "it has asked")
    engine.publisher.replay_fault = None
    eventually(lambda: len(engine.publisher.replays) > asked + 1, "it asks again", 8)
    settle(router, engine, seconds=8)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(2))])


def test_a_numbered_document_amid_a_replay_leaves_the_replay_alone(kv, fleet):
    engine = kv()
    for prompt in PROMPTS[:4]:
        engine.ranks[0].serve(prompt)
        engine.ranks[0].publish()
    gate = engine.publisher.replay_gate = threading.Event()
    router = fleet(engine)
    eventually(lambda: events_of(router, engine).get("stream", {}).get("replayed") == 2, "the replay has begun")
    push(router, engine.url, {"event_id": 0, "data": {"type": "removed", "block_hashes": [7]}})
    eventually(lambda: events_of(router, engine)["told"]["unknown_removals"] > 0, "the document is applied")
    gate.set()
    settle(router, engine)
    agree(router, [engine])
    stream = events_of(router, engine)["stream"]
    assert (stream["replayed"], stream["purges"]) == (4, 0), stream


def test_messages_that_come_twice_count_once(kv, fleet):
    engine = kv(blocks=16)
    router = begin(fleet, engine)
    engine.publisher.repeat = 3
    for number in range(4):
        send(router, prompt_of(number, 50))
    settle(router, engine, seconds=8)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(4))], 8)


@pytest.mark.parametrize("replay", [True, False])
def test_a_router_that_starts_late_learns_the_cache(kv, fleet, replay):
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


def test_a_publisher_that_counts_from_one_is_live(kv, fleet):
    engine = kv(first=1)
    engine.ranks[0].serve(PROMPTS[0])
    engine.ranks[0].publish()
    router = fleet(engine)
    settle(router, engine)
    agree(router, [engine])


@pytest.mark.parametrize("form", ["vllm-0.26", "llm-d"])
def test_without_a_replay_a_publisher_that_counts_from_one_is_live(kv, fleet, form):
    engine = kv(first=1, replay=False, form=form)
    router = fleet(engine)
    serve(router, engine, *PROMPTS[:3])
    agree(router, [engine])
    engine.restart()
    engine.await_subscribers()
    serve(router, engine, PROMPTS[3])
    agree(router, [engine])


def test_an_engine_that_starts_late_is_followed(kv, fleet):
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


def test_responses_reveal_events_that_do_not_tell_what_is_stored(kv, fleet):
    engine = kv()
    router = begin(fleet, engine)
    engine.ranks[0].is_secretive = True
    prompts = [prompt_of(number, 80) for number in range(3)]
    for prompt in prompts:
        send(router, prompt)
    for prompt in prompts:  # until blocks count only if reported
        eventually(lambda prompt=prompt: explained(router, prompt)[engine.url][0] == 0, "blocks of the response still count", 5)
    for prompt in prompts:
        response = send(router, prompt)
        assert response.by_events and response.expected < 32 <= 64 == response.cached, response
        settle(router, engine, states=("live", "learning"))
    eventually(lambda: events_of(router, engine)["stream"]["purges"] == 1, lambda: str(router.backends()))
    response = send(router, prompt)
    assert (response.by_events, response.expected, response.cached) == (False, 64, 64), "the belief counts meanwhile"


def test_the_record_is_forgotten_when_the_engine_restarts_while_it_is_down(kv, fleet):
    engine = kv()
    router = begin(fleet, engine, more="health: {interval: 100ms}\nmodels: {learn: false}\nload: {scrape: false}\n")
    engine.http.stop()
    router.wait_state(engine.http, "down", "ejected")
    engine.restart()
    engine.await_subscribers()
    router.wait_state(engine.http, "up")
    eventually(lambda: explained(router, PROMPTS[0])[engine.url][0] == 0, "nothing is promised of the old process")


@pytest.mark.parametrize("replay", [False, True])
def test_responses_reveal_a_cache_that_was_emptied_silently(kv, fleet, replay):
    engine = kv(replay=replay, tells_size=True, blocks=40)
    prompts = [prompt_of(number, 80) for number in range(8)]
    router = fleet(engine, more=SIZED)
    serve(router, engine, *prompts)
    agree(router, [engine], prompts)
    engine.reset(silently=True)
    for prompt in prompts[:3]:
        response = send(router, prompt)
        assert response.by_events and response.expected == 64 and response.cached == 0
        settle(router, engine, states=("live", "learning"))
    eventually(lambda: events_of(router, engine)["stream"]["purges"] == 1, lambda: str(router.backends()))
    assert "KV events: contradicted by responses" in router.stderr()
    wrong = [prompt for prompt in prompts[3:] if send(router, prompt).expected != 0]
    assert wrong == [], "neither what was told nor what is believed is promised again"
    for number in range(20, 30):
        send(router, prompt_of(number, 80))
    settle(router, engine)
    agree(router, [engine], [*prompts, *(prompt_of(number, 80) for number in range(20, 30))])


def test_a_replay_repairs_a_cut_connection(kv, fleet, relay):
    engine = kv(blocks=16)
    link = relay(engine.port)
    router = fleet(engine, rows=[engine.row(events=link.endpoint)])
    serve(router, engine, *PROMPTS[:3])
    agree(router, [engine])
    link.stop()
    for number in range(4):
        send(router, prompt_of(number, 50))
    eventually(lambda: events_of(router, engine)["connected"] is False, "it is cut")
    assert explained(router, prompt_of(3, 50))[engine.url][1] is False, "the record is incomplete now"
    link.start()
    settle(router, engine)
    agree(router, [engine], [*PROMPTS, *(prompt_of(number, 50) for number in range(4))])
    assert events_of(router, engine)["stream"]["restarts"] == 1


@pytest.mark.parametrize("form", ["vllm-0.26", "sglang"])
def test_a_new_process_with_higher_numbers_than_the_old_one_is_noticed(kv, fleet, relay, form):
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


def test_a_server_whose_probes_failed_keeps_its_record_while_its_publisher_is_connected(kv, fleet):
    engine = kv()
    router = begin(fleet, engine, more="health: {interval: 100ms}\nmodels: {learn: false}\nload: {scrape: false}\n")
    engine.http.stop()
    router.wait_state(engine.http, "down", "ejected")
    engine.http.start()
    router.wait_state(engine.http, "up")
    settle(router, engine)
    agree(router, [engine])


def test_a_router_that_was_killed_learns_again_by_a_replay(kv, fleet, warmpath):
    engine = kv()
    router = begin(fleet, engine)
    router.kill()
    router.finished = True
    before = engine.subscriptions()
    router = fleet(engine)
    settle(router, engine)
    agree(router, [engine])
    assert engine.subscriptions() > before


def test_two_routers_have_the_same_record(kv, fleet):
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


def test_many_concurrent_requests_are_known_after_their_events(kv, fleet):
    engines = [kv(name, blocks=60, form=form)
               for name, form in (("a", "vllm-0.26"), ("b", "vllm-0.22"), ("c", "sglang"))]
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
            response = send(router, root[: dice.randrange(20, 400)] + prompt_of(dice.random(), dice.randrange(1, 50)))
            failures.extend([] if response.by_events else [response.said])

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    settle(router, *engines)
    agree(router, engines, [prompt_of(f"root {number}", 400) for number in range(4)])
    truths = [backend["truth"]["by_events"]["all"] for backend in router.backends().values()]
    assert sum(truth["count"] for truth in truths) == 120


class Story:
    """Random faults of an engine."""

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
            end = prompt_of(self.dice.random(), self.dice.randrange(60))
            return base[: self.dice.randrange(1, len(base) + 1)] + end
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
            known = [one for one in self.prompts
                     if cache.chain(one) and cache.by_digest.get(cache.chain(one)[0].digest)]
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
            rank.say({"type": "Whatever"}, ["BlockStored", 5],
                     {"type": "BlockRemoved", "block_hashes": [dice.getrandbits(64)]})
        elif kind == "frames":
            count = dice.choice((1, 2, 4, 5))
            engine.publisher.send_frames(*(dice.randbytes(dice.randrange(12)) for _ in range(count)))
        rank.publish()

    def check(self):
        """Lost messages are requested when the next one arrives; a silent engine is unknown."""
        for engine in self.engines:
            engine.publisher.drop = 0
            engine.ranks[0].serve(self.prompt() + prompt_of(self.dice.random(), 40))
            engine.await_subscribers()
            engine.ranks[0].publish()
        settle(self.router, *self.engines, seconds=10)
        for salt in self.salts:
            agree(self.router, self.engines, self.prompts, salt=salt)


@pytest.mark.parametrize("seed", range(6))
def test_the_record_is_right_after_random_faults_in_random_order(kv, fleet, seed):
    story = Story(kv, fleet, seed)
    try:
        for _ in range(6):
            for _ in range(story.dice.randrange(1, 12)):
                story.act(story.dice.choice(story.engines))
            story.check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {story.told}") from error


# Sockets and topics.


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
    eventually(lambda: "belongs to no backend" in router.stderr(), router.stderr)
    stranger.stop()


def test_engines_that_connect_replay_missed_messages(kv, warmpath):
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


def test_ipc_sockets_of_the_same_machine_work(kv, fleet, tmp_path):
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


def test_an_address_of_events_can_change_by_a_reload(kv, fleet):
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
            response = send(router, prompt_of(name, 3000))
            assert response.backend == name_of(engine, number) and response.cached == response.expected == 2992
    assert [request.header("x-data-parallel-rank") for request in engine.http.requests] == list("000111222")
    engine.ranks[1].publisher.restart()
    engine.ranks[1].empty()
    engine.ranks[1].serve(prompt_of("new", 3000))
    engine.ranks[1].publisher.await_subscriber()
    engine.ranks[1].publish()
    settle(router, engine)
    agree(router, [engine], [prompt_of(name, 3000) for name in (*"xyz", "new")])


def test_a_removed_backend_is_forgotten_and_learned_when_it_comes_back(kv, fleet):
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
